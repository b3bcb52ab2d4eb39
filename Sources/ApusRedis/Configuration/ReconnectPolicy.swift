/// How long to wait before the next attempt to connect: exponential, with full jitter.
///
/// Pure: the random number comes in.
public struct ReconnectPolicy: Sendable, Hashable {
    /// The wait that the first attempt after a loss is drawn from: a whole fleet loses its server in the same moment.
    public var base: Duration
    /// The longest wait.
    public var cap: Duration
    /// The shortest wait after credentials were refused: hammering locks accounts and fills the server's log.
    public var credentialsWait: Duration
    /// A connection that lived shorter than this counts as another failure.
    public var stableAfter: Duration

    /// A policy. `base` must be positive and not above `cap`.
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

    /// The wait.
    ///
    /// - Parameters:
    ///   - failures: attempts that failed in a row, and connections that did not live long; 0: the first attempt of all.
    ///   - credentialsRefused: whether the last one failed for that.
    ///   - draw: a random number in 0..<1.
    public func wait(failures: Int, credentialsRefused: Bool, draw: Double) -> Duration {
        precondition(failures >= 0 && draw >= 0 && draw < 1)
        guard failures > 0 else { return .zero }
        // No need to shift further: 2^20 times any base is above any cap in use.
        let ceiling = min(self.cap, self.base * (1 << min(failures - 1, 20)))
        let wait = ceiling * draw
        return credentialsRefused ? max(wait, self.credentialsWait) : wait
    }
}
