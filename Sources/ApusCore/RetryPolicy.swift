/// Decides when to retry: exponential backoff with full jitter, bounded by attempts and by the message's expiry.
///
/// Pure: the time and the random number are arguments. The provider's `Retry-After` is a lower bound, never shortened.
public struct RetryPolicy: Hashable, Sendable {
    /// The upper bound of the first retry's wait.
    public var baseMilliseconds: Int64
    /// The shortest wait before a retry, whatever the random number.
    public var floorMilliseconds: Int64
    /// The longest wait, unless the provider asks for more.
    public var capMilliseconds: Int64
    /// The maximum number of attempts, including the first.
    public var attemptsMax: UInt32
    /// The longest accepted `Retry-After`; beyond it the message is given up.
    public var retryAfterMillisecondsMax: Int64

    /// Creates a policy. `baseMilliseconds` must be positive and not above `capMilliseconds`.
    public init(
        baseMilliseconds: Int64,
        floorMilliseconds: Int64 = 0,
        capMilliseconds: Int64,
        attemptsMax: UInt32,
        retryAfterMillisecondsMax: Int64 = 86_400_000,
    ) {
        precondition(baseMilliseconds > 0 && baseMilliseconds <= capMilliseconds)
        precondition(floorMilliseconds >= 0 && attemptsMax >= 1 && retryAfterMillisecondsMax > 0)
        self.baseMilliseconds = baseMilliseconds
        self.floorMilliseconds = floorMilliseconds
        self.capMilliseconds = capMilliseconds
        self.attemptsMax = attemptsMax
        self.retryAfterMillisecondsMax = retryAfterMillisecondsMax
    }

    /// The decision after a failed attempt.
    public enum Decision: Hashable, Sendable {
        /// Retry, not before the given time.
        case retry(notBefore: UnixMilliseconds)
        /// Every attempt has been used, or the next one would come too late.
        case giveUp
        /// The next attempt would come after the message's expiry.
        case expire
    }

    /// Decides whether and when to retry.
    ///
    /// - Parameters:
    ///   - attempt: the number of attempts so far, from 1.
    ///   - retryAfterMilliseconds: the wait that the provider asked for.
    ///   - now: the current time.
    ///   - expiresAt: the time at which the message expires; nil for never.
    ///   - latest: the last time of a retry; nil for any.
    ///   - draw: a random number in 0..<1.
    public func decide(
        attempt: UInt32,
        retryAfterMilliseconds: Int64?,
        now: UnixMilliseconds,
        expiresAt: UnixMilliseconds?,
        latest: UnixMilliseconds? = nil,
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
            // All dispatchers got the same answer: up to a fifth more spreads their retries, as far as there is time for it.
            let due = now.advanced(byMilliseconds: asked)
            let left = [expiresAt, latest].compactMap { $0?.milliseconds(since: due) }.min() ?? .max
            wait = max(wait, asked + Int64(min(Double(max(asked, 0)) * 0.2, Double(max(left, 0))) * draw))
        }
        let next = now.advanced(byMilliseconds: wait)
        if let expiresAt, next >= expiresAt { return .expire }
        if let latest, next > latest { return .giveUp }
        return .retry(notBefore: next)
    }
}
