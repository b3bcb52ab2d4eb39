internal import Glibc

/// Processor time, for what the process tells about itself.
enum CPUClock {
    /// Of the calling thread.
    static func threadNanoseconds() -> Int64 { Self.read(CLOCK_THREAD_CPUTIME_ID) }

    /// Of the process.
    static func processNanoseconds() -> Int64 { Self.read(CLOCK_PROCESS_CPUTIME_ID) }

    private static func read(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        unsafe clock_gettime(clock, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}
