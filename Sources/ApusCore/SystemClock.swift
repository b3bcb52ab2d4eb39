internal import Glibc

/// Reads the system's time of day. Only drivers and programs create one.
public struct SystemClock: WallClock {
    /// Creates the clock.
    public init() {}

    /// Returns the nanoseconds since 1970-01-01 UTC.
    public func nanosecondsSince1970() -> Int64 {
        var time = timespec()
        unsafe clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}
