package import ApusCore
package import ApusRedis
package import NIOCore

/// Names a rate limit that the whole fleet shares: a route's or a send's.
package struct RateLimit: Hashable, Sendable {
    /// The key of its state.
    package let key: String
    /// The slot of the key.
    package let tag: HashTag
    /// The time in which the rate is reached after a long quiet.
    package let rampMilliseconds: Int64
    /// The time after its last use at which the limit is forgotten; nil for never, because an operator's control is kept there.
    let forgetMilliseconds: Int64?

    /// The time that a send's rate limit is kept after its last use.
    package static let sendRetentionMilliseconds: Int64 = 60_000

    /// Creates the name of a send's rate limit.
    package init(ofSend send: SendKey, tag: HashTag) {
        self.key = StreamKeys(tag: tag).sendRate(send)
        self.tag = tag
        self.rampMilliseconds = 0
        self.forgetMilliseconds = Self.sendRetentionMilliseconds
    }

    /// Creates the name of a route's rate limit, from the keys of its shard.
    init(of route: RouteNumber, keys: StreamKeys, rampMilliseconds: Int64) {
        self.key = keys.route(route)
        self.tag = keys.tag
        self.rampMilliseconds = rampMilliseconds
        self.forgetMilliseconds = nil
    }
}

/// Holds what a member of a rate limit reports and asks for.
package struct RateLimitRequest: Hashable, Sendable {
    /// The permits that would be used at once.
    package var use = 0
    /// The permits for the time until the next call.
    package var ahead = 0
    /// The permits in hand.
    package var held = 0
    /// The permits that were used since the last call.
    package var used = 0
    /// The refusals since the last call that concerned the whole project.
    package var refusals = 0
    /// The time that everybody is to stop for; 0 to continue.
    package var pauseMilliseconds: Int64 = 0
    /// The fault that the provider finds in our configuration, which stops the route; nil when there is none.
    package var fault: RouteFault?
    /// The fingerprint of the configuration in use; empty when it is unknown. A fault stops only members with the same configuration.
    package var configurationFingerprint = ""
    /// The provider's reason of a third-party authentication error, which is only recorded for operators. It is ``noLonger``
    /// when the error is over, and empty without news.
    package var thirdPartyAuthError = ""
    /// The reason for which the provider cannot be reached, which is only recorded for operators. It is ``noLonger`` when it can be reached
    /// again, and empty without news.
    package var connectionFault = ""
    /// Reports that an error is over; no provider has such a reason.
    package static let noLonger = "-"

    /// The provider's answer about a subroute.
    package enum SubrouteAnswer: Hashable, Sendable {
        /// The provider refuses it for that reason. It is asked again after the wait; the refusal is forgotten when twice the wait has passed
        /// without another.
        case refused(word: String, waitMilliseconds: Int64)
        /// The provider accepts it again.
        case accepted
    }

    /// The provider's last answers about subroutes since the last call. A refusal is recorded for the fleet and for operators.
    package var subroutes: [String: SubrouteAnswer] = [:]

    /// True when something waits for permits that has just begun. It is not sent: whoever gathers requests does not delay it.
    package var isUrgent = false

    /// Creates a report that asks for nothing.
    package init() {}
}

/// Holds what a member of a rate limit is granted.
package struct RateLimitGrant: Hashable, Sendable {
    /// The permits; nil when there is no limit.
    package var permits: Int?
    /// True while the route is stopped by an operator, by the mass-failure guard, or by a fault of our configuration.
    package var isPaused = false
    /// The time that everybody is to stop for; 0 to continue.
    package var pauseMilliseconds: Int64 = 0
    /// The current rate per second; nil when there is no limit.
    package var ratePerSecond: Int?
    /// The share of the rate that refusals have left, from 0 to 1.
    package var level = 1.0
    /// The time from one call to the next, which grows with the number of members.
    package var intervalMilliseconds: Int64 = 20
    /// The subroutes that the provider refuses, as far as the fleet knows.
    package var refusedSubroutes: Set<String> = []

    /// Creates a grant.
    package init(permits: Int?) { self.permits = permits }
}

/// Manages the rate limits of the whole fleet.
package struct RateLimits: Sendable {
    let access: StreamAccess

    /// Returns the rate limit of a route.
    package func limit(of route: RouteNumber, rampMilliseconds: Int64) -> RateLimit {
        RateLimit(of: route, keys: self.access.keys(ofRoute: route), rampMilliseconds: rampMilliseconds)
    }

    /// Asks for permits and reports what happened since the last call. It tries once: a lost answer costs permits, and the next call comes
    /// soon.
    ///
    /// - Parameters:
    ///   - ratePerSecond: of the whole fleet; nil for no limit. An operator's rate has precedence.
    ///   - microseconds: the time, for tests; nil for Redis' own.
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
            .flatMapThrowing { reply in
                try Self.grant(reply.root)
            }
    }

    /// Reads an answer, whose numbers are calculated with: one that no function gives is an error.
    static func grant(_ answer: RESPNode) throws -> RateLimitGrant {
        let numbers = try (0..<6).map { try answer.at($0).number() }
        guard numbers.allSatisfy({ (-1...Self.numberMax).contains($0) }), min(numbers[2], numbers[5]) >= 0 else {
            throw answer.reply.unexpected("permits, times and a rate")
        }
        var grant = RateLimitGrant(permits: numbers[0] < 0 ? nil : Int(numbers[0]))
        grant.isPaused = numbers[1] == 1
        grant.pauseMilliseconds = numbers[2]
        grant.ratePerSecond = numbers[3] < 0 ? nil : Int(numbers[3])
        grant.level = Double(numbers[4]) / 1_000_000
        grant.intervalMilliseconds = numbers[5]
        grant.refusedSubroutes = Set(try answer.texts(from: 6))
        return grant
    }

    /// The largest number in an answer: more than any rate, and than any pause in milliseconds.
    private static let numberMax: Int64 = 1_000_000_000_000
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
        fields.set("connection_fault", self.request.connectionFault, default: "")
        var (refused, accepted) = ([String](), [String]())
        for (name, answer) in self.request.subroutes.sorted(by: { $0.key < $1.key }) {
            switch answer {
            case .refused(let word, let wait): refused += [name, word, "\(wait)"]
            case .accepted: accepted.append(name)
            }
        }
        fields.set("refused_subroutes", refused, default: [])
        fields.set("accepted_subroutes", accepted, default: [])
        fields.set("at_us", optional: self.microseconds)
    }
}
