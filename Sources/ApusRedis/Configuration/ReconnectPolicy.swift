/// Computes the backoff before the next attempt to connect: exponential, with full jitter.
///
/// Pure: the random number is an argument.
public struct ReconnectPolicy: Sendable, Hashable {
    /// The upper bound of the wait before the first attempt after a loss. It is drawn at random, because a whole fleet
    /// loses its server at the same moment.
    public var base: Duration
    /// The longest wait.
    public var cap: Duration
    /// The shortest wait after refused credentials: frequent attempts lock accounts and fill the server's log.
    public var credentialsWait: Duration
    /// The minimum lifetime of a connection that ends a series of failures; a shorter one counts as another failure.
    public var stableAfter: Duration

    /// Creates a policy. `base` must be positive and not above `cap`.
    public init(
        base: Duration = .milliseconds(50),
        cap: Duration = .seconds(1),
        credentialsWait: Duration = .seconds(1),
        stableAfter: Duration = .seconds(1),
    ) {
        precondition(base > .zero && base <= cap && credentialsWait >= .zero && stableAfter >= .zero)
        self.base = base
        self.cap = cap
        self.credentialsWait = credentialsWait
        self.stableAfter = stableAfter
    }

    /// Returns the wait before the next attempt.
    ///
    /// - Parameters:
    ///   - failures: the number of consecutive failed attempts and short-lived connections; 0 for the very first attempt.
    ///   - credentialsRefused: true when the last attempt failed for refused credentials.
    ///   - draw: a random number in 0..<1.
    public func wait(failures: Int, credentialsRefused: Bool, draw: Double) -> Duration {
        precondition(failures >= 0 && draw >= 0 && draw < 1)
        guard failures > 0 else { return .zero }
        // A larger exponent is not needed: 2^20 times any base is above any cap in use.
        let ceiling = min(self.cap, self.base * (1 << min(failures - 1, 20)))
        let wait = ceiling * draw
        return credentialsRefused ? max(wait, self.credentialsWait) : wait
    }
}
