internal import Glibc

/// The system's time of day. Only drivers and programs make one.
public struct SystemClock: WallClock {
    /// The clock.
    public init() {}

    /// Nanoseconds since 1970-01-01 UTC.
    public func nanosecondsSince1970() -> Int64 {
        var time = timespec()
        unsafe clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}
