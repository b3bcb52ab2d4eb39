/// Computes the backoff before the next attempt to connect: exponential, with jitter, never zero.
///
/// A provider may treat "repeatedly opening and closing connections" as an attack
/// (https://developer.apple.com/documentation/usernotifications/establishing-a-connection-to-apns). Pure: the random
/// number is an argument. Times are nanoseconds.
package struct ConnectBackoff: Hashable, Sendable {
    /// The upper bound of the first wait.
    package var base: UInt64
    /// The longest wait.
    package var cap: UInt64
    /// The minimum lifetime of a stable connection. A shorter one is followed by a wait: the first one if the
    /// connection did its work, otherwise the one after a failed attempt.
    package var stableAfter: UInt64

    /// Creates a policy.
    package init(base: UInt64 = 500_000_000, cap: UInt64 = 60_000_000_000, stableAfter: UInt64 = 10_000_000_000) {
        precondition(base > 0 && base <= cap)
        self.base = base
        self.cap = cap
        self.stableAfter = stableAfter
    }

    /// Returns the wait: between half and all of a bound that doubles with every failure.
    ///
    /// - Parameters:
    ///   - failures: the number of consecutive failed attempts, from 1.
    ///   - draw: a random number in 0..<1.
    package func wait(failures: Int, draw: Double) -> UInt64 {
        precondition(failures >= 1 && draw >= 0 && draw < 1)
        var ceiling = self.base
        for _ in 1..<min(failures, 40) where ceiling < self.cap { ceiling *= 2 }
        ceiling = min(ceiling, self.cap)
        return ceiling / 2 + UInt64(Double(ceiling / 2) * draw)
    }
}
