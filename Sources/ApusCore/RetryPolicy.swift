/// Decides when to retry: exponential backoff with full jitter, bounded by attempts and by the message's expiry.
///
/// Pure: the time and the random number come in. The provider's `Retry-After` is a floor, never shortened.
public struct RetryPolicy: Hashable, Sendable {
    /// The wait that the first retry is drawn from.
    public var baseMilliseconds: Int64
    /// No retry comes sooner, whatever the draw.
    public var floorMilliseconds: Int64
    /// The wait never grows beyond this, unless the provider asks for more.
    public var capMilliseconds: Int64
    /// Tries in all, the first one counted.
    public var attemptsMax: UInt32
    /// A `Retry-After` beyond this gives up.
    public var retryAfterMillisecondsMax: Int64

    /// A policy. `baseMilliseconds` must be positive and not above `capMilliseconds`.
    public init(
        baseMilliseconds: Int64,
        floorMilliseconds: Int64 = 0,
        capMilliseconds: Int64,
        attemptsMax: UInt32,
        retryAfterMillisecondsMax: Int64 = 3_600_000,
    ) {
        precondition(baseMilliseconds > 0 && baseMilliseconds <= capMilliseconds)
        precondition(floorMilliseconds >= 0 && attemptsMax >= 1 && retryAfterMillisecondsMax > 0)
        self.baseMilliseconds = baseMilliseconds
        self.floorMilliseconds = floorMilliseconds
        self.capMilliseconds = capMilliseconds
        self.attemptsMax = attemptsMax
        self.retryAfterMillisecondsMax = retryAfterMillisecondsMax
    }

    /// The decision after an attempt that failed.
    public enum Decision: Hashable, Sendable {
        /// Try again, not before then.
        case retry(notBefore: UnixMilliseconds)
        /// No try is left.
        case giveUp
        /// The next try would come after the message's expiry.
        case expire
    }

    /// Decides whether and when to try again.
    ///
    /// - Parameters:
    ///   - attempt: how many tries there were, from 1.
    ///   - retryAfterMilliseconds: what the provider asked for.
    ///   - now: the time.
    ///   - expiresAt: when the message loses its worth; nil: never.
    ///   - draw: a random number in 0..<1.
    public func decide(
        attempt: UInt32,
        retryAfterMilliseconds: Int64?,
        now: UnixMilliseconds,
        expiresAt: UnixMilliseconds?,
        draw: Double,
    ) -> Decision {
        precondition(attempt >= 1 && draw >= 0 && draw < 1)
        guard attempt < self.attemptsMax else { return .giveUp }
        let doublings = Int64(min(attempt - 1, 30))
        let (grown, overflow) = self.baseMilliseconds.multipliedReportingOverflow(by: 1 << doublings)
        let ceiling = overflow ? self.capMilliseconds : min(self.capMilliseconds, grown)
        var wait = max(self.floorMilliseconds, Int64(Double(ceiling) * draw))
        if let asked = retryAfterMilliseconds {
            guard asked <= self.retryAfterMillisecondsMax else { return .giveUp }
            // All dispatchers got the same answer: up to a fifth more spreads them out.
            wait = max(wait, asked + Int64(Double(max(asked, 0)) * 0.2 * draw))
        }
        let next = now.advanced(byMilliseconds: wait)
        if let expiresAt, next >= expiresAt { return .expire }
        return .retry(notBefore: next)
    }
}
