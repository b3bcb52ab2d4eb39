internal import ApusNetwork
internal import Glibc
package import NIOCore
internal import NIOPosix

/// Runs work that takes long, such as encryption, on threads of their own: when there are fewer processors than work, event loops come
/// first.
///
/// A simulation has one thread. There the work is a later turn of the event loop that waits for it.
package final class BackgroundThreads: Sendable {
    private final class Mark: Sendable {}

    /// The threads of the whole process.
    package static let shared = BackgroundThreads(.singleton)

    /// The nice value of a thread: it gets a tenth of what an event loop gets where both want the processor (sched(7)).
    private static let niceness: CInt = 10
    private static let lowered = ThreadSpecificVariable<Mark>()

    private let pool: NIOThreadPool?

    /// Starts threads.
    ///
    /// - Parameter eventLoopGroup: the event loops that wait for the work.
    package convenience init(count: Int, for eventLoopGroup: any EventLoopGroup) {
        let isSimulated = eventLoopGroup.any() is any VirtualNetworkLoop
        self.init(isSimulated ? nil : NIOThreadPool(numberOfThreads: count))
        self.pool?.start()
    }

    private init(_ pool: NIOThreadPool?) { self.pool = pool }

    /// Does work on a thread, and gives its result to a function on an event loop.
    ///
    /// - Parameter work: is called with false when the threads are ending, and should then only say so.
    func run<Result: Sendable>(
        for eventLoop: any EventLoop,
        _ work: @escaping @Sendable (_ isActive: Bool) -> Result,
        then give: @escaping @Sendable (Result) -> Void,
    ) {
        guard let pool else { return eventLoop.execute { give(work(true)) } }
        pool.submit { state in
            Self.lowerPriority()
            let result = work(state == .active)
            eventLoop.execute { give(result) }
            // Lets other threads run first. A thread that is woken waits otherwise until the running one has used up its time slice,
            // whatever their priorities: milliseconds, many times what one message takes (sched_yield(2)).
            _ = sched_yield()
        }
    }

    /// Ends the threads, after the work that waits for them.
    package func close() async { try? await self.pool?.shutdownGracefully() }

    /// Lowers the priority of the current thread. Only the first call on a thread has an effect; it does no harm where the system refuses.
    private static func lowerPriority() {
        guard self.lowered.currentValue == nil else { return }
        self.lowered.currentValue = Mark()
        // On Linux the process 0 is the calling thread (setpriority(2)).
        _ = setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, self.niceness)
    }
}
