package import ApusCore
package import ApusMessages
internal import ApusRedis

/// A token of a device that a provider called bad, of another app or of another project: it may be, or our configuration may be wrong.
package struct QuarantinedToken: Hashable, Sendable {
    /// The device.
    package let reference: DeviceReference
    /// Of the token that was sent to.
    package let tokenDigest: UInt64
    /// When the request started.
    package let since: UnixMilliseconds
    /// Our word for it.
    package let reason: Reason

    /// A token.
    package init(reference: DeviceReference, tokenDigest: UInt64, since: UnixMilliseconds, reason: Reason) {
        self.reference = reference
        self.tokenDigest = tokenDigest
        self.since = since
        self.reason = reason
    }

    /// The token that a provider called bad; nil for an address that a publisher keeps itself.
    package init?(_ verdict: TokenVerdict) {
        guard case .device(let reference) = verdict.place else { return nil }
        self.init(
            reference: reference,
            tokenDigest: verdict.tokenDigest,
            since: verdict.asOf,
            reason: verdict.reason,
        )
    }

    /// Whether the provider takes the token in its other environment.
    package var isOfOtherEnvironment: Bool { self.reason == .wrongEnvironment }

    /// As it stands in Redis.
    package var text: String {
        let place = "\(self.reference.partition):\(self.reference.ordinal):\(self.reference.generation)"
        return "\(place):\(String(self.tokenDigest, radix: 16)):\(self.since):\(self.reason.rawValue)"
    }

    /// Reads what `text` wrote; nil for anything else.
    package init?(text: String) {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 6, let partition = UInt32(parts[0]), let ordinal = UInt32(parts[1]),
            let generation = UInt32(parts[2]), let tokenDigest = UInt64(parts[3], radix: 16),
            let since = Int64(parts[4]), let reason = UInt8(parts[5]).flatMap({ Reason(rawValue: $0) })
        else { return nil }
        self.init(
            reference: DeviceReference(partition: partition, ordinal: ordinal, generation: generation),
            tokenDigest: tokenDigest,
            since: UnixMilliseconds(since),
            reason: reason,
        )
    }
}

/// When the bad or dead tokens of a route are so many that the mistake must be ours, or the provider's: in a burst, while a token waits, or
/// within a day.
///
/// Owners are counted, not tokens, so that one user with many tokens is one. While owners of bad tokens are more than ``percentMax`` of
/// the day's answers no such token is deleted, however few they are.
package struct GuardRules: Hashable, Sendable {
    /// Milliseconds in which a burst stands out. The whole wait is looked at as well.
    package var windowMilliseconds: Int64
    /// Milliseconds that a token waits before it is deleted.
    package var delayMilliseconds: Int64
    /// Owners of such tokens in a window below which the guard does not stop the route.
    package var tokensMin: Int
    /// Percent of the answers about tokens that owners of bad ones may be.
    package var percentMax: Int
    /// Percent of the answers about tokens that owners of dead ones may be. Uninstalls come in waves, so it is the higher one.
    package var deadPercentMax: Int

    /// Rules.
    package init(
        windowMilliseconds: Int64,
        delayMilliseconds: Int64,
        tokensMin: Int,
        percentMax: Int,
        deadPercentMax: Int,
    ) {
        precondition(windowMilliseconds > 0 && delayMilliseconds > 0)
        precondition(tokensMin > 0 && (0...100).contains(percentMax) && (0...100).contains(deadPercentMax))
        self.windowMilliseconds = windowMilliseconds
        self.delayMilliseconds = delayMilliseconds
        self.tokensMin = tokensMin
        self.percentMax = percentMax
        self.deadPercentMax = deadPercentMax
    }
}

/// A token that a provider judged, with whose it is.
package struct OwnedToken: Hashable, Sendable {
    /// The token.
    package let token: QuarantinedToken
    /// Names its owner. However many tokens an owner has, the guard counts one.
    package let owner: String

    /// A token of that owner.
    package init(_ token: QuarantinedToken, of owner: String) {
        self.token = token
        self.owner = owner
    }
}

/// Tokens in quarantine: those that a provider called bad, until they are deleted, or the mass-failure guard stops their route; and those
/// that it called dead while the route is stopped.
package struct TokenQuarantine: Sendable {
    let access: StreamAccess

    /// How the mass-failure guard judges a route.
    package enum Verdict: String, Hashable, Sendable {
        /// Its bad tokens are few.
        case below
        /// They were too many before: none is deleted until an operator says so.
        case quarantined
        /// They have become too many: the route is stopped, and its tokens stay in quarantine.
        case tripped

        init(_ answer: RESPNode, of function: String) throws {
            guard let verdict = Verdict(rawValue: answer[0].text) else {
                throw StreamError.unexpected(function: function, answer: answer[0].text)
            }
            self = verdict
        }
    }

    /// What became of tokens that were to be added.
    package struct Addition: Hashable, Sendable {
        /// How the guard judges the route.
        package var verdict: Verdict
        /// Bad tokens that are in quarantine now.
        package var bad: [QuarantinedToken]
        /// Dead tokens that are in quarantine now. Only while the guard has stopped the route; else they are to be deleted at once.
        package var dead: [QuarantinedToken]
    }

    /// Adds tokens to those of their route, and answers that judged tokens to what they are compared with; each owner counts once.
    ///
    /// - Parameters:
    ///   - bad: tokens that the provider called bad.
    ///   - dead: tokens that the provider called dead. They are counted, and added if the guard has stopped the route.
    ///   - answers: answers that judged a token, these tokens among them. They count only if one of the tokens is new.
    ///   - others: answers without tokens to add, which are reported once.
    ///   - now: the time, for tests; nil: Redis' own.
    /// - Returns: the verdict, and the tokens that are taken: there is room for `StreamLimits.quarantinedTokensMax`.
    package func add(
        _ bad: [OwnedToken],
        dead: [OwnedToken] = [],
        of answers: Int,
        others: Int = 0,
        on route: RouteNumber,
        rules: GuardRules,
        now: UnixMilliseconds? = nil,
    ) async throws -> Addition {
        let keys = self.access.keys(ofRoute: route)
        let call = QuarantineTokensCall(
            keys: [keys.route(route)],
            bad: bad,
            dead: dead,
            answers: answers,
            otherAnswers: others,
            rules: rules,
            now: now,
        )
        let answer = try await self.access.call(call, on: keys.tag)
        let verdict = try Verdict(answer, of: QuarantineTokensCall.function)
        let refused = Set(answer.children.dropFirst().map { Int($0.number) })
        return Addition(
            verdict: verdict,
            bad: bad.indices.filter { !refused.contains($0) }.map { bad[$0].token },
            dead: verdict == .below
                ? [] : dead.indices.filter { !refused.contains(bad.count + $0) }.map { dead[$0].token },
        )
    }

    /// Tokens that have waited long enough, if the guard does not object: to be deleted, and then removed. While they are too many
    /// among the day's answers, though too few to stop the route, only those are due that are moved to the other environment.
    package func due(
        of route: RouteNumber,
        rules: GuardRules,
        countMax: Int = StreamLimits.quarantinedTokensPerCallMax,
        now: UnixMilliseconds? = nil,
    ) async throws -> (verdict: Verdict, due: [QuarantinedToken]) {
        let keys = self.access.keys(ofRoute: route)
        let call = DueQuarantinedTokensCall(keys: [keys.route(route)], limit: countMax, rules: rules, now: now)
        let answer = try await self.access.call(call, on: keys.tag)
        return (
            try Verdict(answer, of: DueQuarantinedTokensCall.function),
            answer.children.dropFirst().compactMap { QuarantinedToken(text: $0.text) },
        )
    }

    /// The tokens that have waited longest.
    ///
    /// - Parameter first: how many of them are left out.
    package func tokens(
        of route: RouteNumber,
        from first: Int = 0,
        countMax: Int = StreamLimits.quarantinedTokensPerCallMax,
    ) async throws -> [QuarantinedToken] {
        let keys = self.access.keys(ofRoute: route)
        let command = RedisCommand(
            "ZRANGE",
            .text(keys.quarantine(route)),
            .integer(first),
            .integer(first + countMax - 1)
        )
        return try await self.access.send(command, on: keys.tag).children
            .compactMap { QuarantinedToken(text: $0.text) }
    }

    /// Removes tokens from quarantine.
    ///
    /// - Returns: how many are left.
    @discardableResult
    package func remove(_ tokens: [QuarantinedToken], of route: RouteNumber) async throws -> Int {
        let keys = self.access.keys(ofRoute: route)
        let call = RemoveQuarantinedTokensCall(keys: [keys.route(route)], tokens: tokens.map(\.text))
        return Int(try await self.access.call(call, on: keys.tag).number)
    }

    /// Ends the quarantine of a route that has no tokens left there.
    ///
    /// - Parameter resuming: whether the route goes on, if it was the guard that stopped it; else it is paused.
    /// - Returns: how many tokens are left; if there are any, nothing has changed.
    package func end(_ route: RouteNumber, resuming: Bool, now: UnixMilliseconds? = nil) async throws -> Int {
        let keys = self.access.keys(ofRoute: route)
        let call = EndQuarantineCall(keys: [keys.route(route)], resumes: resuming, now: now)
        return Int(try await self.access.call(call, on: keys.tag).number)
    }

    /// The state of a route's quarantine.
    package struct State: Hashable, Sendable {
        /// How many tokens wait.
        package var tokens = 0
        /// Since when the guard has stopped the route; nil: it has not.
        package var quarantinedAt: UnixMilliseconds?
        /// How many owners of tokens led to it.
        package var causeTokens = 0
        /// Among how many answers that judged tokens.
        package var causeAnswers = 0
        /// Whether their tokens were called dead, not bad.
        package var isForDead = false
        /// The provider's word for what it rejects of our configuration, if the route is stopped for that, else for a third-party
        /// authentication error; nil: nothing.
        package var fault: String?

        /// No tokens.
        package init() {}
    }

    /// Reads the state of a route's quarantine.
    package func state(of route: RouteNumber) async throws -> State {
        let keys = self.access.keys(ofRoute: route)
        let answer = try await self.access.call(QuarantineStateCall(keys: [keys.route(route)]), on: keys.tag)
        var state = State()
        state.tokens = Int(answer[0].number)
        state.quarantinedAt = Int64(answer[1].text).map { UnixMilliseconds($0) }
        let cause = answer[2].text.split(separator: "/")
        if cause.count == 3, let tokens = Int(cause[0]), let answers = Int(cause[1]) {
            (state.causeTokens, state.causeAnswers, state.isForDead) = (tokens, answers, cause[2] == "dead")
        }
        if !answer[3].text.isEmpty { state.fault = answer[3].text }
        return state
    }
}

extension CallFields {
    /// Sets the fields `window_ms`, `delay_ms`, `tokens_min`, `percent_max` and `dead_percent_max`.
    fileprivate mutating func set(_ rules: GuardRules) {
        self.set("window_ms", rules.windowMilliseconds)
        self.set("delay_ms", rules.delayMilliseconds)
        self.set("tokens_min", rules.tokensMin)
        self.set("percent_max", rules.percentMax)
        self.set("dead_percent_max", rules.deadPercentMax)
    }
}

struct QuarantineTokensCall: FunctionCall {
    static let function = "apus2_quarantine_tokens"
    var keys: [String]
    var bad: [OwnedToken]
    var dead: [OwnedToken]
    var answers: Int
    var otherAnswers: Int
    var rules: GuardRules
    var now: UnixMilliseconds?

    func set(_ fields: inout CallFields) {
        fields.set("tokens", self.bad.map(\.token.text), default: [])
        fields.set("owners", self.bad.map(\.owner), default: [])
        fields.set("dead_tokens", self.dead.map(\.token.text), default: [])
        fields.set("dead_owners", self.dead.map(\.owner), default: [])
        fields.set("answers", self.answers, default: 0)
        fields.set("other_answers", self.otherAnswers, default: 0)
        fields.set(self.rules)
        fields.set("at_ms", optional: self.now?.value)
    }
}

struct DueQuarantinedTokensCall: FunctionCall {
    static let function = "apus2_due_quarantined_tokens"
    var keys: [String]
    var limit: Int
    var rules: GuardRules
    var now: UnixMilliseconds?

    func set(_ fields: inout CallFields) {
        fields.set("limit", self.limit)
        fields.set(self.rules)
        fields.set("at_ms", optional: self.now?.value)
    }
}

struct RemoveQuarantinedTokensCall: FunctionCall {
    static let function = "apus2_remove_quarantined_tokens"
    var keys: [String]
    var tokens: [String]

    func set(_ fields: inout CallFields) {
        fields.set("tokens", self.tokens)
    }
}

struct EndQuarantineCall: FunctionCall {
    static let function = "apus2_end_quarantine"
    var keys: [String]
    var resumes: Bool
    var now: UnixMilliseconds?

    func set(_ fields: inout CallFields) {
        fields.set("resumes", self.resumes, default: false)
        fields.set("at_ms", optional: self.now?.value)
    }
}

struct QuarantineStateCall: FunctionCall {
    static let function = "apus2_quarantine_state"
    static let isReadOnly = true
    var keys: [String]
}
