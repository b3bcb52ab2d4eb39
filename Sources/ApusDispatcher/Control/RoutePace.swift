internal import ApusProviders
internal import ApusStreams

/// How fast a route may go by its configuration.
struct RoutePace: Sendable {
    /// Whom to ask.
    var limiter: RateLimit
    /// Of the whole fleet; nil: no limit.
    var ratePerSecond: Double?

    /// A pace in requests per second.
    init(limiter: RateLimit, ratePerSecond: Double?) {
        self.limiter = limiter
        self.ratePerSecond = ratePerSecond
    }

    /// A pace that keeps to a rate. In any minute a limiter lets through what its rate is worth and what its bucket holds at its beginning.
    init(limiter: RateLimit, rate: RouteRate) {
        self.limiter = limiter
        self.ratePerSecond =
            switch rate {
            case .unlimited: nil
            case .perSecond(let rate): rate
            case .perMinute(let rate): Double(rate) / (60 + StreamLimits.rateLimitBurstSeconds)
            }
    }
}
