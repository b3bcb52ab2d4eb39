public import ApusCore
internal import Glibc

/// The system's clocks: only drivers ask them.
public struct SystemClock: WallClock {
    /// The clocks.
    public init() {}

    /// The time of day.
    public func nanosecondsSince1970() -> Int64 { Self.read(CLOCK_REALTIME) }

    /// Processor time of the calling thread.
    static func threadNanoseconds() -> Int64 { Self.read(CLOCK_THREAD_CPUTIME_ID) }

    /// Processor time of the process.
    static func processNanoseconds() -> Int64 { Self.read(CLOCK_PROCESS_CPUTIME_ID) }

    private static func read(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        unsafe clock_gettime(clock, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}
