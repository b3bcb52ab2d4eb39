public import ApusCore
internal import Glibc

/// The time of day as the operating system has it.
public struct SystemClock: WallClock {
    /// The system's.
    public init() {}

    /// Nanoseconds since 1970-01-01 UTC.
    public func nanosecondsSince1970() -> Int64 {
        var time = timespec()
        let code = unsafe clock_gettime(CLOCK_REALTIME, &time)
        precondition(code == 0, "the system has a clock")
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}
