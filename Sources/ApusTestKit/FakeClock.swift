package import ApusCore
internal import Synchronization

/// A clock that stands still until a test moves it.
package final class FakeClock: WallClock {
    private let nanoseconds: Mutex<Int64>

    /// Creates a clock at that time.
    package init(_ start: UnixMilliseconds = UnixMilliseconds(1_750_000_000_000)) {
        self.nanoseconds = Mutex(start.value * 1_000_000)
    }

    /// The time it shows.
    package func nanosecondsSince1970() -> Int64 { self.nanoseconds.withLock { $0 } }

    /// Moves it on, or back.
    package func advance(byMilliseconds milliseconds: Int64) {
        self.nanoseconds.withLock { $0 += milliseconds * 1_000_000 }
    }

    /// Sets it.
    package func set(_ time: UnixMilliseconds) {
        self.nanoseconds.withLock { $0 = time.value * 1_000_000 }
    }
}
