package import ApusCore
internal import Synchronization

/// A clock that stands still until a test moves it.
package final class FakeClock: WallClock {
    private let nanoseconds: Mutex<Int64>

    /// Creates a clock at the given time.
    package init(_ start: UnixMilliseconds = UnixMilliseconds(1_750_000_000_000)) {
        self.nanoseconds = Mutex(start.value * 1_000_000)
    }

    /// Returns the clock's time.
    package func nanosecondsSince1970() -> Int64 { self.nanoseconds.withLock { $0 } }

    /// Moves the clock forwards or backwards.
    package func advance(byMilliseconds milliseconds: Int64) {
        self.nanoseconds.withLock { $0 += milliseconds * 1_000_000 }
    }

    /// Sets the clock.
    package func set(_ time: UnixMilliseconds) {
        self.nanoseconds.withLock { $0 = time.value * 1_000_000 }
    }
}
