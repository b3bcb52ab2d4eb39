/// How long to wait before the next attempt to connect: exponential, with jitter, never nothing.
///
/// A provider may take "repeatedly opening and closing connections" for an attack
/// (https://developer.apple.com/documentation/usernotifications/establishing-a-connection-to-apns). Pure: the random number
/// comes in. Times in nanoseconds.
package struct ConnectBackoff: Hashable, Sendable {
    /// What the first wait is drawn from.
    package var base: UInt64
    /// The longest wait.
    package var cap: UInt64
    /// A connection that lived shorter than this is followed by a wait: by the first one if it did its work, else as after a
    /// failed attempt.
    package var stableAfter: UInt64

    /// A policy.
    package init(base: UInt64 = 500_000_000, cap: UInt64 = 60_000_000_000, stableAfter: UInt64 = 10_000_000_000) {
        precondition(base > 0 && base <= cap)
        self.base = base
        self.cap = cap
        self.stableAfter = stableAfter
    }

    /// The wait: between a half and the whole of what doubles with every failure.
    ///
    /// - Parameters:
    ///   - failures: attempts that failed in a row, from 1.
    ///   - draw: a random number in 0..<1.
    package func wait(failures: Int, draw: Double) -> UInt64 {
        precondition(failures >= 1 && draw >= 0 && draw < 1)
        var ceiling = self.base
        for _ in 1..<min(failures, 40) where ceiling < self.cap { ceiling *= 2 }
        ceiling = min(ceiling, self.cap)
        return ceiling / 2 + UInt64(Double(ceiling / 2) * draw)
    }
}
