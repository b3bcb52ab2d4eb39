internal import ApusCore
internal import Glibc

/// The time of day: what publications are stamped with.
struct PublisherClock: WallClock {
    func nanosecondsSince1970() -> Int64 {
        var time = timespec()
        unsafe clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}
