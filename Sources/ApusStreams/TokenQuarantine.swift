package import ApusCore
package import ApusMessages
internal import ApusRedis

/// Names a token of a device that a provider called bad, of another app or of another project: that may be so, or our configuration may be
/// wrong.
package struct QuarantinedToken: Hashable, Sendable {
    /// The device.
    package let reference: DeviceReference
    /// The digest of the token that was sent to.
    package let tokenDigest: UInt64
    /// The time at which the request started.
    package let since: UnixMilliseconds
    /// The reason, as our vocabulary names it.
    package let reason: Reason

    /// Creates a reference to a token.
    package init(reference: DeviceReference, tokenDigest: UInt64, since: UnixMilliseconds, reason: Reason) {
        self.reference = reference
        self.tokenDigest = tokenDigest
        self.since = since
        self.reason = reason
    }

    /// Creates a reference to the token that a provider called bad; nil for an address that a publisher keeps itself.
    package init?(_ verdict: TokenVerdict) {
        guard case .device(let reference) = verdict.place else { return nil }
        self.init(
            reference: reference,
            tokenDigest: verdict.tokenDigest,
            since: verdict.asOf,
            reason: verdict.reason,
        )
    }

    /// True when the provider accepts the token in its other environment.
    package var isOfOtherEnvironment: Bool { self.reason == .wrongEnvironment }

    /// Returns true when the token is tried again after its wait instead of being deleted.
    package func isKept(by provider: Provider) -> Bool { Self.keptReasons(of: provider).contains(self.reason) }

    /// Returns the reasons for which a provider's tokens are never deleted.
    fileprivate static func keptReasons(of provider: Provider) -> [Reason] {
        provider.traits.keepsForeignTokens ? [.wrongSender] : []
    }

    /// The text that stands for it in Redis.
    package var text: String {
        let place = "\(self.reference.partition):\(self.reference.ordinal):\(self.reference.generation)"
        return "\(place):\(String(self.tokenDigest, radix: 16)):\(self.since):\(self.reason.rawValue)"
    }

    /// Reads what `text` wrote; nil for any other text.
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

/// Sets when the bad or dead tokens of a route are so many that the mistake must be ours or the provider's: in a burst, while a token
/// waits, or within a day.
///
/// Owners are counted, not tokens, so that one user with many tokens counts once. While owners of bad tokens exceed ``percentMax`` of the
/// day's answers, no such token is deleted, however few they are.
package struct GuardRules: Hashable, Sendable {
    /// The milliseconds of the short window, in which a burst stands out. The whole wait is checked as well.
    package var windowMilliseconds: Int64
    /// The milliseconds that a token waits before it is deleted.
    package var delayMilliseconds: Int64
    /// The number of owners of such tokens in a window below which the guard does not stop the route. It takes five owners of whom only
    /// new tokens were called so to count as one.
    package var tokensMin: Int
    /// The maximum percentage that owners of bad tokens may be of the answers about tokens.
    package var percentMax: Int
    /// The same maximum for owners of dead tokens. It is higher, because uninstalls come in waves.
    package var deadPercentMax: Int

    /// Creates rules.
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

/// Holds a token that a provider called bad or dead, with its owner.
package struct OwnedToken: Hashable, Sendable {
    /// The token.
    package let token: QuarantinedToken
    /// The name of its owner. However many tokens an owner has, the guard counts one.
    package let owner: String
    /// True when it had just been registered, or registered again, when the provider called it so: anybody can register a bad token.
    package let isNew: Bool

    /// Creates a token of that owner.
    ///
    /// - Parameter registeredAt: the time of its last registration.
    package init(_ token: QuarantinedToken, of owner: String, registeredAt: UnixMilliseconds) {
        self.token = token
        self.owner = owner
        self.isNew = token.since.milliseconds(since: registeredAt) < StreamLimits.newTokenMilliseconds
    }
}

/// Keeps tokens in quarantine: those that a provider called bad, until they are deleted or the mass-failure guard stops their route; and
/// those that it called dead while the route is stopped.
package struct TokenQuarantine: Sendable {
    let access: StreamAccess

    /// The decision of the mass-failure guard about a route.
    package enum Verdict: String, Hashable, Sendable {
        /// The route has few bad tokens.
        case below
        /// The guard had stopped the route before: no token is deleted until an operator decides.
        case quarantined
        /// The tokens have become too many: the guard stops the route, and its tokens stay in quarantine.
        case tripped

        init(_ answer: RESPNode, of function: String) throws {
            guard let verdict = Verdict(rawValue: try answer[0].text()) else {
                throw StreamError.unexpected(function: function, answer: try answer[0].text())
            }
            self = verdict
        }
    }

    /// The result of adding tokens.
    package struct Addition: Hashable, Sendable {
        /// The decision of the guard about the route.
        package var verdict: Verdict
        /// The bad tokens that are in quarantine.
        package var bad: [QuarantinedToken]
        /// The dead tokens that are in quarantine, which happens only while the guard has stopped the route; else they are to be deleted at
        /// once.
        package var dead: [QuarantinedToken]
    }

    /// Adds answers about tokens, without tokens to add, to those that such tokens are compared with. A report that may have arrived is not
    /// repeated: answers that count twice hide bad tokens, and without them the guard is only more careful.
    ///
    /// - Parameter now: the time, for tests; nil for Redis' own.
    package func count(
        _ answers: Int,
        on route: RouteNumber,
        rules: GuardRules,
        now: UnixMilliseconds? = nil,
    ) async throws {
        let keys = self.access.keys(ofRoute: route)
        let call = QuarantineTokensCall(keys: [keys.route(route)], otherAnswers: answers, rules: rules, now: now)
        do throws(RedisError) {
            _ = try await self.access.client.call(call, on: keys.tag, options: .once)
        } catch {
            guard error.isOutcomeUnknown else { throw error }
        }
    }

    /// Adds tokens to those of their route, and answers about tokens to those that they are compared with; each owner counts once.
    ///
    /// - Parameters:
    ///   - bad: the tokens that the provider called bad.
    ///   - dead: the tokens that the provider called dead. They are counted, and added if the guard has stopped the route.
    ///   - answers: the number of answers about tokens, these tokens among them. They count only if one of the tokens is new: a bad one that
    ///     is not in quarantine, or a dead one of an owner none of whose tokens was called dead in the short window before.
    ///   - now: the time, for tests; nil for Redis' own.
    /// - Returns: the decision, and the tokens that were added: there is room for `StreamLimits.quarantinedTokensMax`.
    package func add(
        _ bad: [OwnedToken],
        dead: [OwnedToken] = [],
        of answers: Int,
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
            rules: rules,
            now: now,
        )
        let answer = try await self.access.call(call, on: keys.tag)
        let verdict = try Verdict(answer, of: QuarantineTokensCall.function)
        let refused = Set(try answer.elements().dropFirst().map { Int(try $0.number()) })
        return Addition(
            verdict: verdict,
            bad: bad.indices.filter { !refused.contains($0) }.map { bad[$0].token },
            dead: verdict == .below
                ? [] : dead.indices.filter { !refused.contains(bad.count + $0) }.map { dead[$0].token },
        )
    }

    /// Returns tokens that have waited long enough, if the guard does not object: to be deleted, and then removed. While they are too many
    /// of the day's answers, though too few to stop the route, only those are due that are moved to the other environment or tried again.
    ///
    /// - Parameter provider: the provider of the route, which decides which tokens are tried again.
    package func due(
        of route: RouteNumber,
        at provider: Provider,
        rules: GuardRules,
        countMax: Int = StreamLimits.quarantinedTokensPerCallMax,
        now: UnixMilliseconds? = nil,
    ) async throws -> (verdict: Verdict, due: [QuarantinedToken]) {
        let keys = self.access.keys(ofRoute: route)
        let call = DueQuarantinedTokensCall(
            keys: [keys.route(route)],
            limit: countMax,
            rules: rules,
            now: now,
            keptReasons: QuarantinedToken.keptReasons(of: provider).map { "\($0.rawValue)" },
        )
        let answer = try await self.access.call(call, on: keys.tag)
        return (
            try Verdict(answer, of: DueQuarantinedTokensCall.function),
            try answer.texts(from: 1).compactMap { QuarantinedToken(text: $0) },
        )
    }

    /// Returns the tokens that have waited longest.
    ///
    /// - Parameter first: the number of tokens to skip.
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
        return try await self.access.send(command, on: keys.tag).texts()
            .compactMap { QuarantinedToken(text: $0) }
    }

    /// Returns true when a token waits in the quarantine of a route, for that reason and since that time.
    package func has(_ token: QuarantinedToken, of route: RouteNumber) async throws -> Bool {
        let keys = self.access.keys(ofRoute: route)
        let command = RedisCommand("ZSCORE", .text(keys.quarantine(route)), .text(token.text))
        return try await !self.access.send(command, on: keys.tag).isNull
    }

    /// Removes tokens from quarantine.
    ///
    /// - Parameter failed: tokens that could not be settled: they wait as if they were called bad now.
    /// - Returns: how many are left.
    @discardableResult
    package func remove(
        _ tokens: [QuarantinedToken],
        putOff failed: [QuarantinedToken] = [],
        of route: RouteNumber,
        now: UnixMilliseconds? = nil,
    ) async throws -> Int {
        let keys = self.access.keys(ofRoute: route)
        let call = RemoveQuarantinedTokensCall(
            keys: [keys.route(route)],
            tokens: tokens.map(\.text),
            putOff: failed.map(\.text),
            now: now,
        )
        return Int(try await self.access.call(call, on: keys.tag).number())
    }

    /// Ends the quarantine of a route that has no tokens left there.
    ///
    /// - Parameter resuming: true to resume the route if the guard stopped it; else it is paused.
    /// - Returns: how many tokens are left; when there are any, nothing has changed.
    package func end(_ route: RouteNumber, resuming: Bool, now: UnixMilliseconds? = nil) async throws -> Int {
        let keys = self.access.keys(ofRoute: route)
        let call = EndQuarantineCall(keys: [keys.route(route)], resumes: resuming, now: now)
        return Int(try await self.access.call(call, on: keys.tag).number())
    }

    /// Describes the state of a route's quarantine.
    package struct State: Hashable, Sendable {
        /// The number of tokens that wait.
        package var tokens = 0
        /// The time since when the guard has stopped the route; nil when it has not.
        package var quarantinedAt: UnixMilliseconds?
        /// The number of owners of tokens that led to it.
        package var causeTokens = 0
        /// The number of answers about tokens among which they were.
        package var causeAnswers = 0
        /// True when their tokens were called dead, not bad.
        package var isForDead = false
        /// The provider's reason for a fault of our configuration, if the route is stopped for that, else for a third-party authentication
        /// error, else "subroute: reason" of the subroutes that it refuses, separated by commas; nil when there is none.
        package var fault: String?

        /// Creates the state of a route without tokens.
        package init() {}
    }

    /// Reads the state of a route's quarantine.
    package func state(of route: RouteNumber) async throws -> State {
        let keys = self.access.keys(ofRoute: route)
        let answer = try await self.access.call(QuarantineStateCall(keys: [keys.route(route)]), on: keys.tag)
        var state = State()
        state.tokens = Int(try answer[0].number())
        state.quarantinedAt = Int64(try answer[1].text()).map { UnixMilliseconds($0) }
        let cause = try answer[2].text().split(separator: "/")
        if cause.count == 3, let tokens = Int(cause[0]), let answers = Int(cause[1]) {
            (state.causeTokens, state.causeAnswers, state.isForDead) = (tokens, answers, cause[2] == "dead")
        }
        if try !answer[3].text().isEmpty { state.fault = try answer[3].text() }
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
    var bad: [OwnedToken] = []
    var dead: [OwnedToken] = []
    var answers = 0
    var otherAnswers = 0
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
        fields.set("new", Self.new(self.bad), default: [])
        fields.set("dead_new", Self.new(self.dead), default: [])
    }

    /// Returns one number for each token, 1 for a new one; an empty list stands for tokens of which none is new.
    private static func new(_ tokens: [OwnedToken]) -> [Int] {
        tokens.contains(where: \.isNew) ? tokens.map { $0.isNew ? 1 : 0 } : []
    }
}

struct DueQuarantinedTokensCall: FunctionCall {
    static let function = "apus2_due_quarantined_tokens"
    var keys: [String]
    var limit: Int
    var rules: GuardRules
    var now: UnixMilliseconds?
    var keptReasons: [String] = []

    func set(_ fields: inout CallFields) {
        fields.set("limit", self.limit)
        fields.set(self.rules)
        fields.set("at_ms", optional: self.now?.value)
        fields.set("kept_reasons", self.keptReasons, default: [])
    }
}

struct RemoveQuarantinedTokensCall: FunctionCall {
    static let function = "apus2_remove_quarantined_tokens"
    var keys: [String]
    var tokens: [String]
    var putOff: [String] = []
    var now: UnixMilliseconds?

    func set(_ fields: inout CallFields) {
        fields.set("tokens", self.tokens)
        fields.set("put_off", self.putOff, default: [])
        fields.set("at_ms", optional: self.now?.value)
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
