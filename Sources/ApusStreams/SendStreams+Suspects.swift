package import ApusCore
internal import ApusRedis

extension SendStreams {
    /// How the mass-failure guard judges a route.
    package enum GuardVerdict: String, Hashable, Sendable {
        /// Its suspects are few.
        case below
        /// They were too many before: nobody is deleted until an operator says so.
        case quarantined
        /// They have become too many: the route is stopped, and its suspects are in quarantine.
        case tripped
    }

    /// Adds suspects to those of their route, and answers that judged tokens to what they are compared with; each suspect counts once.
    ///
    /// - Parameters:
    ///   - answers: answers that judged a token, the suspects among them. They count only if one of the suspects is new.
    ///   - others: answers without suspects, which are told once.
    ///   - now: the time, for tests; nil: Redis' own.
    /// - Returns: the verdict, and the suspects that are taken: there is room for `StreamLimits.suspectsMax`.
    package func suspect(
        _ suspects: [Suspect],
        of answers: Int,
        others: Int = 0,
        on route: RouteNumber,
        rules: GuardRules,
        now: UnixMilliseconds? = nil,
    ) async throws -> (verdict: GuardVerdict, taken: [Suspect]) {
        let answer = try await self.callGuard(
            "apus1_suspect",
            route,
            [.integer(others), .integer(answers)] + Self.arguments(rules, now) + suspects.map { .text($0.text) },
        )
        let refused = Set(answer.children.dropFirst().map { Int($0.number) })
        return (
            try Self.verdict(answer, "apus1_suspect"),
            suspects.indices.filter { !refused.contains($0) }.map { suspects[$0] },
        )
    }

    /// Suspects who have waited long enough, if the guard has nothing against it: to be deleted, and then settled. While they are too many
    /// among the day's answers, though too few to stop the route, only those are due who are moved to the other environment.
    package func dueSuspects(
        of route: RouteNumber,
        rules: GuardRules,
        countMax: Int = StreamLimits.suspectsPerCallMax,
        now: UnixMilliseconds? = nil,
    ) async throws -> (verdict: GuardVerdict, due: [Suspect]) {
        let answer = try await self.callGuard(
            "apus1_suspects_due",
            route,
            [.integer(countMax)] + Self.arguments(rules, now),
        )
        return (try Self.verdict(answer, "apus1_suspects_due"), answer.children.dropFirst().compactMap(Self.suspect))
    }

    /// The suspects who have waited longest.
    ///
    /// - Parameter first: how many of them are left out.
    package func suspects(
        of route: RouteNumber,
        from first: Int = 0,
        countMax: Int = StreamLimits.suspectsPerCallMax,
    ) async throws -> [Suspect] {
        let keys = self.keys(ofRoute: route)
        let command = RedisCommand(
            "ZRANGE",
            .text(keys.suspects(route)),
            .integer(first),
            .integer(first + countMax - 1)
        )
        return try await self.client.send(command, on: keys.tag, options: .idempotent).root.children
            .compactMap(Self.suspect)
    }

    /// Strikes suspects off the list.
    ///
    /// - Returns: how many are left.
    @discardableResult
    package func settle(_ suspects: [Suspect], of route: RouteNumber) async throws -> Int {
        let answer = try await self.callGuard("apus1_suspects_settle", route, suspects.map { .text($0.text) })
        return Int(answer.number)
    }

    /// Ends the quarantine of a route without suspects.
    ///
    /// - Parameter resuming: whether the route goes on, if it was the guard that stopped it; else it is held.
    /// - Returns: how many suspects are left; if there are any, nothing has changed.
    package func forgive(
        _ route: RouteNumber,
        resuming: Bool,
        now: UnixMilliseconds? = nil,
    ) async throws -> Int {
        let arguments: [RedisArgument] = [.text(resuming ? "resume" : "hold"), Self.time(now)]
        return Int(try await self.callGuard("apus1_suspects_forgive", route, arguments).number)
    }

    /// How the guard of a route stands.
    package struct GuardState: Hashable, Sendable {
        /// How many suspects wait.
        package var suspects = 0
        /// Since when they are in quarantine; nil: they are not.
        package var quarantinedAt: UnixMilliseconds?
        /// How many suspects led to it.
        package var causeSuspects = 0
        /// Among how many answers that judged tokens.
        package var causeAnswers = 0
        /// What the provider calls wrong with our set-up, if the route is stopped for that, or its partner, if those who need it wait for
        /// that; nil: nothing.
        package var fault: String?

        /// No suspects.
        package init() {}
    }

    /// How the guard of a route stands; changes nothing.
    package func guardState(of route: RouteNumber) async throws -> GuardState {
        let keys = self.keys(ofRoute: route)
        let answer = try await self.client.call(
            "apus1_suspects",
            on: keys.tag,
            keys: [keys.route(route)],
            readOnly: true,
        ).root
        var state = GuardState()
        state.suspects = Int(answer[0].number)
        state.quarantinedAt = Int64(answer[1].text).map { UnixMilliseconds($0) }
        let counts = answer[2].text.split(separator: "/").compactMap { Int($0) }
        if counts.count == 2 { (state.causeSuspects, state.causeAnswers) = (counts[0], counts[1]) }
        if !answer[3].text.isEmpty { state.fault = answer[3].text }
        return state
    }

    private func callGuard(
        _ function: String,
        _ route: RouteNumber,
        _ arguments: [RedisArgument],
    ) async throws -> RESPNode {
        let keys = self.keys(ofRoute: route)
        return try await self.client.call(function, on: keys.tag, keys: [keys.route(route)], arguments: arguments).root
    }

    private static func arguments(_ rules: GuardRules, _ now: UnixMilliseconds?) -> [RedisArgument] {
        [
            .integer(rules.windowMilliseconds), .integer(rules.delayMilliseconds), .integer(rules.suspectsMin),
            .integer(rules.percentMax), Self.time(now),
        ]
    }

    private static func time(_ now: UnixMilliseconds?) -> RedisArgument { .text(now.map { "\($0)" } ?? "") }

    private static func verdict(_ answer: RESPNode, _ function: String) throws -> GuardVerdict {
        guard let verdict = GuardVerdict(rawValue: answer[0].text) else {
            throw StreamError.unexpected(function: function, answer: answer[0].text)
        }
        return verdict
    }

    private static func suspect(_ node: RESPNode) -> Suspect? { Suspect(text: node.text) }
}
