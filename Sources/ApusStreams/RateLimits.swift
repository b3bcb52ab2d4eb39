package import ApusCore
package import ApusRedis
package import NIOCore

/// A rate limit that the whole fleet keeps together: a route's, or a send's.
package struct RateLimit: Hashable, Sendable {
    /// Where its state lives.
    package let key: String
    /// The slot of the key.
    package let tag: HashTag
    /// How long it takes to reach the rate after a long quiet.
    package let rampMilliseconds: Int64
    /// When it is forgotten; nil: never, because an operator's control is kept there.
    package let forgetMilliseconds: Int64?

    /// How long a send's rate limit outlives its last use.
    package static let sendRetentionMilliseconds: Int64 = 60_000

    /// The rate limit of a send.
    package init(ofSend send: SendKey, tag: HashTag) {
        self.key = StreamKeys(tag: tag).sendRate(send)
        self.tag = tag
        self.rampMilliseconds = 0
        self.forgetMilliseconds = Self.sendRetentionMilliseconds
    }

    /// The rate limit of a route, by the keys of its shard.
    init(of route: RouteNumber, keys: StreamKeys, rampMilliseconds: Int64) {
        self.key = keys.route(route)
        self.tag = keys.tag
        self.rampMilliseconds = rampMilliseconds
        self.forgetMilliseconds = nil
    }
}

/// What a member of a rate limit reports and asks for.
package struct RateLimitRequest: Hashable, Sendable {
    /// Permits that would be used now.
    package var use = 0
    /// Permits for the time until the next call.
    package var ahead = 0
    /// Permits in hand.
    package var held = 0
    /// Permits used since the last call.
    package var used = 0
    /// Refusals since the last call that meant the whole project.
    package var refusals = 0
    /// How long everybody is to stop for; 0: go on.
    package var pauseMilliseconds: Int64 = 0
    /// What the provider rejects of our configuration: stops the route; nil: nothing.
    package var fault: RouteFault?
    /// The fingerprint of the configuration that is sent with; empty: unknown. A fault stops only members with the same configuration.
    package var configurationFingerprint = ""
    /// The provider's word for a third-party authentication error: only noted, for operators; `thirdPartyAuthRestored`: it is over; empty: no
    /// news.
    package var thirdPartyAuthError = ""
    /// No provider has such a word.
    package static let thirdPartyAuthRestored = "-"

    /// Asks for nothing.
    package init() {}
}

/// What a member of a rate limit gets.
package struct RateLimitGrant: Hashable, Sendable {
    /// Permits; nil: there is no limit.
    package var permits: Int?
    /// Whether an operator, the mass-failure guard, or a fault of our configuration has stopped the route.
    package var isPaused = false
    /// How long everybody is to stop for; 0: go on.
    package var pauseMilliseconds: Int64 = 0
    /// The rate per second at this moment; nil: there is no limit.
    package var ratePerSecond: Int?
    /// What is left of the rate after refusals, 0 to 1.
    package var level = 1.0

    /// A grant.
    package init(permits: Int?) { self.permits = permits }
}

/// Rate limits of the whole fleet.
package struct RateLimits: Sendable {
    let access: StreamAccess

    /// The rate limit of a route.
    package func limit(of route: RouteNumber, rampMilliseconds: Int64) -> RateLimit {
        RateLimit(of: route, keys: self.access.keys(ofRoute: route), rampMilliseconds: rampMilliseconds)
    }

    /// Asks for permits and reports what happened since the last call. One try: a lost answer costs permits, and the next call comes soon.
    ///
    /// - Parameters:
    ///   - ratePerSecond: of the whole fleet; nil: no limit. An operator's rate comes before it.
    ///   - microseconds: the time, for tests; nil: Redis' own.
    package func request(
        _ request: RateLimitRequest,
        of limit: RateLimit,
        by member: String,
        ratePerSecond: Double?,
        on eventLoop: any EventLoop,
        microseconds: Int64? = nil,
    ) -> EventLoopFuture<RateLimitGrant> {
        let call = RateLimitCall(
            limit: limit,
            member: member,
            ratePerSecond: ratePerSecond ?? 0,
            request: request,
            microseconds: microseconds,
        )
        let options = RedisClient.Options(patience: .zero)
        return self.access.client.send(call.command, on: limit.tag, options: options, eventLoop: eventLoop)
            .map { reply in
                let answer = reply.root
                var grant = RateLimitGrant(permits: answer[0].number < 0 ? nil : Int(answer[0].number))
                grant.isPaused = answer[1].number == 1
                grant.pauseMilliseconds = answer[2].number
                grant.ratePerSecond = answer[3].number < 0 ? nil : Int(answer[3].number)
                grant.level = Double(answer[4].number) / 1_000_000
                return grant
            }
    }
}

struct RateLimitCall: FunctionCall {
    static let function = "apus2_rate_limit"
    var keys: [String] { [self.limit.key] }
    var limit: RateLimit
    var member: String
    var ratePerSecond: Double
    var request: RateLimitRequest
    var microseconds: Int64?

    func set(_ fields: inout CallFields) {
        fields.set("member", self.member)
        fields.set("rate_per_second", self.ratePerSecond, default: 0)
        fields.set("ramp_ms", self.limit.rampMilliseconds, default: 0)
        fields.set("use", self.request.use, default: 0)
        fields.set("ahead", self.request.ahead, default: 0)
        fields.set("held", self.request.held, default: 0)
        fields.set("used", self.request.used, default: 0)
        fields.set("refusals", self.request.refusals, default: 0)
        fields.set("pause_ms", self.request.pauseMilliseconds, default: 0)
        fields.set("retention_ms", self.limit.forgetMilliseconds ?? 0, default: 0)
        fields.set("fault", self.request.fault?.word ?? "", default: "")
        let kind = self.request.fault?.kind ?? .configuration
        fields.set("fault_kind", kind.rawValue, default: RouteFault.Kind.configuration.rawValue)
        fields.set("fingerprint", self.request.configurationFingerprint, default: "")
        fields.set("third_party_auth_error", self.request.thirdPartyAuthError, default: "")
        fields.set("at_us", optional: self.microseconds)
    }
}
