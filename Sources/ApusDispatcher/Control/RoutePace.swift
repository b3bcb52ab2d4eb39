internal import ApusProviders
internal import ApusStreams

/// The rate at which a route may send according to the configuration.
struct RoutePace: Sendable {
    /// The rate limit that grants the route's permits.
    var limiter: RateLimit
    /// The rate of the whole fleet per second; nil for no limit.
    var ratePerSecond: Double?

    /// Creates a pace in requests per second.
    init(limiter: RateLimit, ratePerSecond: Double?) {
        self.limiter = limiter
        self.ratePerSecond = ratePerSecond
    }

    /// Creates a pace that keeps to a route's rate.
    ///
    /// Within a minute, a limiter grants 60 seconds' worth of its rate plus the burst that its bucket holds at the
    /// start. A rate per minute is therefore spread over 60 seconds plus the seconds of the burst.
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
