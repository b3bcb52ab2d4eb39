internal import Glibc
internal import NIOPosix

/// Lowers the priority of threads that encrypt: when there are fewer processors than work, event loops come first.
enum BackgroundThread {
    private final class Mark: Sendable {}

    /// The nice value of such a thread: it gets a tenth of what an event loop gets where both want the processor (sched(7)).
    private static let niceness: CInt = 10
    private static let lowered = ThreadSpecificVariable<Mark>()

    /// Lowers the priority of the current thread. Only the first call on a thread has an effect; it does no harm where the system refuses.
    static func lowerPriority() {
        guard self.lowered.currentValue == nil else { return }
        self.lowered.currentValue = Mark()
        // On Linux the process 0 is the calling thread (setpriority(2)).
        _ = setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, self.niceness)
    }

    /// Lets other threads run first. A thread that is woken waits otherwise until the running one has used up its time slice, whatever
    /// their priorities: milliseconds, many times what one message takes (sched_yield(2)).
    static func yield() { _ = sched_yield() }
}
