import ApusCore
import ApusMessages
import ApusRedis
import ApusStreams
import NIOCore
import NIOPosix
import Testing

/// The mass-failure guard of one route; the time comes with each call.
private struct GuardedRoute {
    static let rules = GuardRules(
        windowMilliseconds: 60_000,
        delayMilliseconds: 600_000,
        tokensMin: 20,
        percentMax: 10,
        deadPercentMax: 50,
    )
    static let start: Int64 = 1_800_000_000_000

    let streams: SendStreams
    let route = RouteNumber(3)

    static func with(_ body: (GuardedRoute, StreamsFixture) async throws -> Void) async throws {
        try await StreamsFixture.with { fixture in try await body(GuardedRoute(streams: fixture.streams), fixture) }
    }

    /// Returns the time so many seconds after the start.
    func at(_ seconds: Int64) -> UnixMilliseconds { UnixMilliseconds(Self.start + seconds * 1_000) }

    func suspects(_ numbers: Range<Int>, _ reason: Reason = .badToken) -> [QuarantinedToken] {
        numbers.map { number in
            QuarantinedToken(
                reference: DeviceReference(partition: 1, ordinal: UInt32(number), generation: 2),
                tokenDigest: UInt64.max - UInt64(number),
                since: UnixMilliseconds(Self.start),
                reason: reason,
            )
        }
    }

    /// Suspects of one owner, or each of its own.
    ///
    /// - Parameter age: the milliseconds since their registration.
    func owned(
        _ numbers: Range<Int>,
        by owner: String? = nil,
        age: Int64 = 86_400_000,
        reason: Reason = .badToken,
    ) -> [OwnedToken] {
        zip(numbers, self.suspects(numbers, reason)).map { number, token in
            let registeredAt = UnixMilliseconds(token.since.value - age)
            return OwnedToken(token, of: owner ?? "u\(number)", registeredAt: registeredAt)
        }
    }

    @discardableResult
    func hear(
        _ numbers: Range<Int>,
        of answers: Int,
        others: Int = 0,
        by owner: String? = nil,
        age: Int64 = 86_400_000,
        at seconds: Int64,
    ) async throws -> TokenQuarantine.Verdict {
        if others > 0 {
            try await self.streams.quarantine.count(others, on: self.route, rules: Self.rules, now: self.at(seconds))
        }
        return try await self.streams.quarantine.add(
            self.owned(numbers, by: owner, age: age),
            of: answers,
            on: self.route,
            rules: Self.rules,
            now: self.at(seconds),
        ).verdict
    }

    func due(at seconds: Int64) async throws -> [QuarantinedToken] {
        try await self.streams.quarantine.due(of: self.route, at: .fcm, rules: Self.rules, now: self.at(seconds)).due
    }

    var state: TokenQuarantine.State { get async throws { try await self.streams.quarantine.state(of: self.route) } }
    var isPaused: Bool { get async throws { try await self.streams.routes.state(of: self.route).isPaused } }
}

@Suite struct TokenQuarantineTests {
    @Test func `A suspect is read as it was written`() throws {
        let suspect = QuarantinedToken(
            reference: DeviceReference(partition: 255, ordinal: .max, generation: 7),
            tokenDigest: .max,
            since: UnixMilliseconds(1_800_000_000_123),
            reason: .wrongSender,
        )
        #expect(QuarantinedToken(text: suspect.text) == suspect)
        for text in ["", "1:2:3", "1:2:3:4:5:200", "1:2:3:g:5:3", "-1:2:3:4:5:3", suspect.text + ":"] {
            #expect(QuarantinedToken(text: text) == nil)
        }
    }

    @Test func `No route stops below the minimum number, or at the exact share`() async throws {
        try await GuardedRoute.with { guarded, _ in
            #expect(try await guarded.hear(0..<19, of: 19, at: 0) == .below)
            #expect(try await guarded.hear(19..<20, of: 181, at: 0) == .below)
            #expect(try await guarded.state.tokens == 20)
            #expect(try await !guarded.isPaused)
            #expect(try await guarded.hear(20..<21, of: 1, at: 0) == .tripped)
            let state = try await guarded.state
            #expect(state.quarantinedAt == guarded.at(0))
            #expect(state.causeTokens == 21 && state.causeAnswers == 201)
            #expect(try await guarded.streams.routes.state(of: guarded.route).isPausedByGuard)
            #expect(try await guarded.hear(21..<22, of: 1, at: 0) == .quarantined)
        }
    }

    @Test func `Tokens of a lost key are due though they are too many to delete, at a provider that keeps them`()
        async throws
    {
        try await GuardedRoute.with { guarded, _ in
            let quarantine = guarded.streams.quarantine
            _ = try await quarantine.add(
                guarded.owned(0..<10, reason: .wrongSender),
                of: 20,
                on: guarded.route,
                rules: GuardedRoute.rules,
                now: guarded.at(0)
            )
            #expect(try await guarded.due(at: 700).isEmpty)
            let due = try await quarantine.due(
                of: guarded.route,
                at: .webpush,
                rules: GuardedRoute.rules,
                now: guarded.at(700)
            ).due
            #expect(due.count == 10 && due.allSatisfy { $0.isKept(by: .webpush) && !$0.isKept(by: .fcm) })
        }
    }

    @Test func `Tokens that are moved or tried again are due, however many others wait before them`() async throws {
        try await GuardedRoute.with { guarded, _ in
            let (quarantine, countMax) = (guarded.streams.quarantine, StreamLimits.quarantinedTokensPerCallMax)
            // Of one user: too few owners to stop the route, and too many for its few answers.
            #expect(try await guarded.hear(0..<countMax + 1, of: 5, by: "mallory", at: 0) == .below)
            let foreign = guarded.owned(countMax + 1..<countMax + 11, by: "mallory", reason: .wrongSender)
            let added = try await quarantine.add(
                foreign,
                of: 1,
                on: guarded.route,
                rules: GuardedRoute.rules,
                now: guarded.at(1)
            )
            #expect(added.verdict == .below)
            let due = try await quarantine.due(
                of: guarded.route,
                at: .webpush,
                rules: GuardedRoute.rules,
                now: guarded.at(700)
            ).due
            #expect(Set(due) == Set(foreign.map(\.token)))
        }
    }

    @Test(arguments: [(20, 150), (1_445, 13_000)])
    func `Any number of one user's tokens stops nothing, and they are deleted after their wait`(
        tokens: Int,
        answers: Int,
    ) async throws {
        try await GuardedRoute.with { guarded, _ in
            #expect(try await guarded.hear(0..<tokens, of: answers, by: "mallory", at: 0) == .below)
            // And again, beside other users' bad ones.
            #expect(try await guarded.hear(tokens..<tokens + 18, of: 18, at: 1) == .below)
            #expect(try await guarded.hear(tokens + 18..<tokens + 100, of: 82, by: "mallory", at: 2) == .below)
            #expect(try await guarded.state.tokens == tokens + 100)
            #expect(try await !guarded.isPaused)
            let due = try await guarded.streams.quarantine.due(
                of: guarded.route,
                at: .fcm,
                rules: GuardedRoute.rules,
                countMax: 10_000,
                now: guarded.at(700),
            ).due
            #expect(due.count == tokens + 100)
        }
    }

    @Test func `Dead tokens are the caller's to delete, until they are too many: then they wait with the others`()
        async throws
    {
        try await GuardedRoute.with { guarded, _ in
            func hearDead(
                _ numbers: Range<Int>,
                of answers: Int,
                by owner: String? = nil,
            ) async throws -> TokenQuarantine.Addition {
                try await guarded.streams.quarantine.add(
                    [],
                    dead: guarded.owned(numbers, by: owner),
                    of: answers,
                    on: guarded.route,
                    rules: GuardedRoute.rules,
                    now: guarded.at(0),
                )
            }
            // Nineteen of nineteen are too few, one user's are one, and a half of all is not too much.
            #expect(try await hearDead(0..<19, of: 19).verdict == .below)
            #expect(try await hearDead(19..<500, of: 481, by: "mallory").verdict == .below)
            #expect(try await hearDead(500..<730, of: 230).verdict == .below)
            #expect(try await guarded.state == TokenQuarantine.State())
            let much = try await hearDead(730..<1_400, of: 670)
            #expect(much.verdict == .tripped && much.dead == guarded.suspects(730..<1_400))
            let state = try await guarded.state
            #expect(state.isForDead && state.causeTokens == 920 && state.causeAnswers == 1_400)
            #expect(try await guarded.isPaused && state.tokens == 670)
            // The same again change nothing; later ones join.
            #expect(try await hearDead(730..<1_400, of: 670).dead == guarded.suspects(730..<1_400))
            #expect(try await hearDead(1_400..<1_401, of: 1).verdict == .quarantined)
            #expect(try await guarded.state.tokens == 671)
        }
    }

    @Test func `Repeated suspects are not counted again, and neither are their answers`() async throws {
        try await GuardedRoute.with { guarded, _ in
            try await guarded.hear(0..<15, of: 15, others: 100, at: 0)
            // Each time as if 1,000 others were good: counted, they would hide what follows.
            for _ in 0..<5 { #expect(try await guarded.hear(0..<15, of: 1_015, at: 1) == .below) }
            #expect(try await guarded.state.tokens == 15)
            #expect(try await guarded.hear(15..<30, of: 15, at: 2) == .tripped)
            #expect(try await guarded.state.causeAnswers == 130)
        }
    }

    @Test func `Dead tokens of a repeated batch are not counted again, and neither are their answers`() async throws {
        try await GuardedRoute.with { guarded, _ in
            func hearDead(
                _ numbers: Range<Int>,
                of answers: Int,
                at seconds: Int64
            ) async throws -> TokenQuarantine.Verdict {
                try await guarded.streams.quarantine.add(
                    [],
                    dead: guarded.owned(numbers),
                    of: answers,
                    on: guarded.route,
                    rules: GuardedRoute.rules,
                    now: guarded.at(seconds),
                ).verdict
            }
            #expect(try await hearDead(0..<15, of: 15, at: 0) == .below)
            // Each time as if 1,000 others were good: counted, they would hide what follows.
            for _ in 0..<5 { #expect(try await hearDead(0..<15, of: 1_015, at: 1) == .below) }
            #expect(try await hearDead(15..<30, of: 15, at: 2) == .tripped)
            let state = try await guarded.state
            #expect(state.causeTokens == 30 && state.causeAnswers == 30)
        }
    }

    @Test func `A burst stands out from ten good minutes, a trickle from its own`() async throws {
        try await GuardedRoute.with { guarded, _ in
            try await guarded.hear(0..<0, of: 0, others: 100_000, at: 0)
            #expect(try await guarded.hear(0..<19, of: 19, at: 300) == .below)
            #expect(try await guarded.hear(19..<20, of: 1, at: 301) == .tripped)
            #expect(try await guarded.state.causeAnswers == 20)
        }
        try await GuardedRoute.with { guarded, _ in
            for minute in 0..<6 {
                let first = minute * 3
                #expect(try await guarded.hear(first..<first + 3, of: 4, at: Int64(minute) * 90) == .below)
            }
            let verdict = try await guarded.hear(18..<20, of: 2, at: 540)
            #expect(verdict == .tripped)
        }
    }

    @Test func `Answers older than a day do not count`() async throws {
        try await GuardedRoute.with { guarded, _ in
            try await guarded.hear(0..<19, of: 19, at: 0)
            #expect(try await guarded.hear(19..<38, of: 19, at: 25 * 3_600) == .below)
            #expect(try await !guarded.isPaused)
        }
    }

    @Test
    func `A route with little traffic loses no device to a mistake: suspects wait, and stop it when they are enough`()
        async throws
    {
        try await GuardedRoute.with { guarded, _ in
            // One an hour, and every one called bad.
            for hour in 0..<19 {
                #expect(try await guarded.hear(hour..<hour + 1, of: 1, at: Int64(hour) * 3_600) == .below)
                #expect(try await guarded.due(at: Int64(hour) * 3_600 + 1_800) == [])
            }
            #expect(try await guarded.hear(19..<20, of: 1, at: 19 * 3_600) == .tripped)
            let state = try await guarded.state
            #expect(state.tokens == 20 && state.causeTokens == 20 && state.causeAnswers == 20)
        }
        try await GuardedRoute.with { guarded, _ in
            // All that there was in ten minutes, and too few to stop the route.
            #expect(try await guarded.hear(0..<19, of: 19, at: 0) == .below)
            #expect(try await guarded.due(at: 601) == [])
            #expect(try await !guarded.isPaused)
            // Among many good answers they are what they were called.
            try await guarded.hear(0..<0, of: 0, others: 1_000, at: 700)
            #expect(try await guarded.due(at: 701).count == 19)
        }
        try await GuardedRoute.with { guarded, _ in
            // Released tokens still count: one an hour more than a tenth of all is not wear and tear.
            try await guarded.hear(0..<0, of: 0, others: 100, at: 0)
            for hour in 0..<10 {
                try await guarded.hear(hour..<hour + 1, of: 1, at: Int64(hour) * 3_600)
                #expect(try await guarded.due(at: Int64(hour) * 3_600 + 1_800).count == 1)
                try await guarded.streams.quarantine.remove(guarded.suspects(hour..<hour + 1), of: guarded.route)
            }
            for hour in 10..<14 { try await guarded.hear(hour..<hour + 1, of: 1, at: Int64(hour) * 3_600) }
            #expect(try await guarded.due(at: 15 * 3_600) == [])
        }
    }

    @Test func `After one bad day, suspects are due when a calm day has passed`() async throws {
        try await GuardedRoute.with { guarded, _ in
            let day: Int64 = 24 * 3_600
            // Twelve of a hundred: too many to delete, too few to stop the route. Then one of a hundred a day.
            try await guarded.hear(0..<12, of: 100, at: 0)
            #expect(try await guarded.due(at: 601) == [])
            try await guarded.hear(12..<13, of: 100, at: day + 3_600)
            #expect(Set(try await guarded.due(at: day + 3_601)) == Set(guarded.suspects(0..<12)))
            // On another bad day they wait.
            try await guarded.hear(13..<25, of: 12, at: day + 3_700)
            #expect(try await guarded.due(at: day + 3_701) == [])
        }
    }

    @Test func `Suspects that cannot be settled wait once more`() async throws {
        try await GuardedRoute.with { guarded, _ in
            try await guarded.hear(0..<3, of: 100, at: 0)
            let (settled, failed) = (guarded.suspects(0..<2), guarded.suspects(2..<3))
            #expect(try await guarded.due(at: 600).count == 3)
            let left = try await guarded.streams.quarantine.remove(
                settled,
                putOff: failed,
                of: guarded.route,
                now: guarded.at(600)
            )
            #expect(left == 1)
            #expect(try await guarded.due(at: 1_199) == [])
            #expect(try await guarded.due(at: 1_200) == failed)
        }
    }

    @Test func `Suspects are due after their wait, and settled once`() async throws {
        try await GuardedRoute.with { guarded, _ in
            try await guarded.hear(0..<3, of: 100, at: 0)
            try await guarded.hear(3..<4, of: 100, at: 10)
            #expect(try await guarded.due(at: 599) == [])
            #expect(Set(try await guarded.due(at: 600)) == Set(guarded.suspects(0..<3)))
            #expect(try await guarded.due(at: 600).count == 3)
            #expect(try await guarded.streams.quarantine.remove(guarded.suspects(0..<3), of: guarded.route) == 1)
            #expect(try await guarded.streams.quarantine.remove(guarded.suspects(0..<3), of: guarded.route) == 1)
            #expect(try await guarded.due(at: 610) == guarded.suspects(3..<4))
        }
    }

    @Test func `Fifty accounts with new tokens do not stop a route, and a hundred do`() async throws {
        try await GuardedRoute.with { guarded, _ async throws in
            let least = GuardedRoute.rules.tokensMin
            let age = StreamLimits.newTokenMilliseconds - 1
            #expect(try await guarded.hear(0..<50, of: 50, others: 60, age: age, at: 0) == .below)
            // They are many of the answers, so their tokens stay all the same.
            #expect(try await guarded.due(at: 700) == [])
            #expect(try await guarded.hear(50..<(5 * least - 1), of: 50, others: 50, age: age, at: 701) == .below)
            #expect(try await guarded.hear(1_000..<1_001, of: 1, age: age, at: 702) == .tripped)
            #expect(try await guarded.state.causeTokens == 5 * least)
        }
    }

    @Test func `Owners of new tokens count as one where they are five, beside the others`() async throws {
        try await GuardedRoute.with { guarded, _ async throws in
            let (least, age) = (GuardedRoute.rules.tokensMin, StreamLimits.newTokenMilliseconds)
            #expect(try await guarded.hear(0..<(least - 1), of: 30, others: 30, age: age, at: 0) == .below)
            #expect(try await guarded.hear(100..<104, of: 5, age: age - 1, at: 1) == .below)
            // Neither does an owner count twice whose older token was called bad before.
            #expect(try await guarded.hear(104..<105, of: 1, by: "u0", age: 0, at: 2) == .below)
            #expect(try await guarded.hear(105..<106, of: 1, age: 0, at: 3) == .tripped)
        }
    }

    @Test func `An owner of new tokens counts like any other once an older one of theirs is called bad`() async throws {
        try await GuardedRoute.with { guarded, _ async throws in
            let least = GuardedRoute.rules.tokensMin
            for owner in 0..<least {
                let first = 2 * owner
                #expect(try await guarded.hear(first..<(first + 1), of: 1, by: "o\(owner)", age: 0, at: 0) == .below)
            }
            for owner in 0..<least {
                let second = 2 * owner + 1
                let verdict = try await guarded.hear(second..<(second + 1), of: 1, by: "o\(owner)", at: 1)
                #expect(verdict == (owner < least - 1 ? .below : .tripped))
            }
            #expect(try await guarded.state.causeTokens == least)
        }
    }

    @Test func `Tokens that wait without known owners count as if each had one of its own`() async throws {
        try await GuardedRoute.with { guarded, fixture in
            try await guarded.hear(0..<15, of: 15, others: 1_000, at: 0)
            let keys = guarded.streams.keys(ofRoute: guarded.route)
            let name = keys.quarantine(guarded.route).replacing("quarantine:", with: "bad_owners:")
            let removed = try await fixture.client.send(RedisCommand("DEL", .text(name)), on: keys.tag)
            #expect(removed.root.integer == 1)
            let answers = keys.quarantine(guarded.route).replacing("quarantine:", with: "answers:")
            _ = try await fixture.client.send(RedisCommand("DEL", .text(answers)), on: keys.tag)
            #expect(try await guarded.due(at: 700) == [])
            try await guarded.hear(0..<0, of: 0, others: 200, at: 700)
            #expect(try await guarded.due(at: 701).count == 15)
        }
    }

    @Test func `In quarantine no suspect is due, and new ones join`() async throws {
        try await GuardedRoute.with { guarded, _ in
            try await guarded.hear(0..<5, of: 1_000, at: 0)
            #expect(try await guarded.hear(5..<300, of: 295, at: 590) == .tripped)
            #expect(try await guarded.due(at: 100_000) == [])
            #expect(try await guarded.hear(300..<301, of: 1, at: 100_000) == .quarantined)
            #expect(try await guarded.state.tokens == 301)
        }
    }

    @Test func `Resuming the route keeps the suspects, and only new ones stop it again`()
        async throws
    {
        try await GuardedRoute.with { guarded, fixture in
            let time = try await fixture.client.send(RedisCommand("TIME"), on: fixture.keys.tag).root
            let now = Int64(time[0].string ?? "") ?? 0
            func hear(_ numbers: Range<Int>) async throws -> TokenQuarantine.Verdict {
                try await guarded.hear(numbers, of: numbers.count, at: now + 30 - GuardedRoute.start / 1_000)
            }
            #expect(try await guarded.hear(0..<50, of: 50, at: now - 30 - GuardedRoute.start / 1_000) == .tripped)
            try await guarded.streams.routes.control(guarded.route, .resume)
            #expect(try await !guarded.isPaused)
            #expect(try await hear(50..<60) == .quarantined)
            #expect(try await !guarded.isPaused)
            #expect(try await hear(60..<90) == .tripped)
            #expect(try await guarded.isPaused)
            #expect(try await guarded.state.tokens == 90)
        }
    }

    @Test(arguments: [true, false])
    func `A quarantine ends when its suspects are settled`(resuming: Bool) async throws {
        try await GuardedRoute.with { guarded, _ in
            try await guarded.hear(0..<30, of: 30, at: 0)
            func forgive() async throws -> Int {
                try await guarded.streams.quarantine.end(guarded.route, resuming: resuming, now: guarded.at(5))
            }
            #expect(try await forgive() == 30)
            #expect(try await guarded.state.quarantinedAt == guarded.at(0))
            #expect(try await guarded.isPaused)
            let suspects = try await guarded.streams.quarantine.tokens(of: guarded.route, countMax: 100)
            try await guarded.streams.quarantine.remove(suspects, of: guarded.route)
            for _ in 0..<2 { #expect(try await forgive() == 0) }
            #expect(try await guarded.state == TokenQuarantine.State())
            #expect(try await guarded.isPaused == !resuming)
            #expect(try await guarded.hear(30..<49, of: 19, at: 6) == .below)
        }
    }

    @Test func `An operator's pause outlasts the quarantine`() async throws {
        try await GuardedRoute.with { guarded, _ in
            try await guarded.streams.routes.control(guarded.route, .pause)
            #expect(try await guarded.hear(0..<30, of: 30, at: 0) == .tripped)
            #expect(try await !guarded.streams.routes.state(of: guarded.route).isPausedByGuard)
            try await guarded.streams.quarantine.remove(guarded.suspects(0..<30), of: guarded.route)
            #expect(try await guarded.streams.quarantine.end(guarded.route, resuming: true) == 0)
            #expect(try await guarded.isPaused)
        }
    }

    @Test func `A clock that is set back makes suspects wait for their time, not for ever`() async throws {
        try await GuardedRoute.with { guarded, _ in
            try await guarded.hear(0..<3, of: 100, at: 86_400)
            #expect(try await guarded.due(at: 0) == [])
            #expect(try await guarded.due(at: 600).count == 3)
        }
    }

    @Test func `Answers of a clock that was ahead are of the present, and later hide no bad tokens`() async throws {
        try await GuardedRoute.with { guarded, _ in
            try await guarded.hear(0..<30, of: 1_000, others: 100_000, at: 3_600)
            // The clock goes back: as those who were bad then, so the answers of then count.
            #expect(try await guarded.hear(30..<31, of: 1, at: 0) == .below)
            #expect(try await guarded.hear(31..<81, of: 50, at: 100) == .tripped)
            #expect(try await guarded.state.causeAnswers == 50)
        }
    }

    @Test func `Owners of bad tokens of a clock that was ahead stop no route, which has few answers since`()
        async throws
    {
        try await GuardedRoute.with { guarded, _ in
            try await guarded.hear(0..<30, of: 1_000, at: 0)
            try await guarded.hear(30..<1_230, of: 1_200, others: 120_000, at: 3_600)
            // The clock goes back to where it has been: the answers of then are forgotten, and their owners are not.
            #expect(try await guarded.hear(1_230..<1_231, of: 100, at: 10) == .below)
            // More than one call brings back.
            #expect(try await guarded.due(at: 25) == [])
            #expect(try await guarded.hear(1_231..<1_232, of: 1_000, at: 80) == .below)
            #expect(try await guarded.hear(1_232..<1_400, of: 200, at: 81) == .tripped)
        }
    }

    @Test(arguments: [RouteFault.Kind.configuration, .credential])
    func `A route that is stopped for one configuration is stopped by the guard for every one`(
        kind: RouteFault.Kind
    ) async throws {
        try await GuardedRoute.with { guarded, _ in
            let (limits, routes) = (guarded.streams.rateLimits, guarded.streams.routes)
            func isPaused(_ configuration: String, _ fault: RouteFault? = nil) async throws -> Bool {
                var request = RateLimitRequest()
                (request.configurationFingerprint, request.fault) = (configuration, fault)
                let grant = limits.request(
                    request,
                    of: limits.limit(of: guarded.route, rampMilliseconds: 0),
                    by: configuration,
                    ratePerSecond: nil,
                    on: MultiThreadedEventLoopGroup.singleton.any(),
                )
                return try await grant.get().isPaused
            }
            #expect(try await isPaused("aa", RouteFault(kind, "InvalidProviderToken")))
            #expect(try await !isPaused("bb"))
            #expect(try await guarded.hear(0..<21, of: 21, at: 0) == .tripped)
            #expect(try await isPaused("bb"))
            #expect(try await routes.state(of: guarded.route).isPausedByGuard)
            // A provider that accepts the first one again says nothing of the tokens.
            #expect(try await !routes.restore(guarded.route))
            try await guarded.streams.quarantine.remove(guarded.suspects(0..<21), of: guarded.route)
            #expect(try await guarded.streams.quarantine.end(guarded.route, resuming: true) == 0)
            let state = try await routes.state(of: guarded.route)
            #expect(state.stop == nil && state.rejectedConfigurations.isEmpty)
        }
    }

    @Test func `A suspect beyond the limit is not added, and the others are`() async throws {
        try await GuardedRoute.with { guarded, fixture in
            let keys = guarded.streams.keys(ofRoute: guarded.route)
            let others = StreamLimits.quarantinedTokensMax - 2
            // Redis answers within its patience: not all at once.
            for first in stride(from: 0, to: others, by: 100_000) {
                let fill = RedisCommand(
                    "EVAL",
                    "for n = ARGV[1], ARGV[2] - 1 do redis.call('ZADD', KEYS[1], 0, n) end",
                    "1",
                    .text(keys.quarantine(guarded.route)),
                    .integer(first),
                    .integer(min(first + 100_000, others)),
                )
                _ = try await fixture.client.send(fill, on: keys.tag)
            }
            let result = try await guarded.streams.quarantine.add(
                guarded.owned(0..<3),
                of: 3,
                on: guarded.route,
                rules: GuardedRoute.rules,
                now: guarded.at(0),
            )
            #expect(result.bad == guarded.suspects(0..<2))
            #expect(try await guarded.state.tokens == StreamLimits.quarantinedTokensMax)
        }
    }
}
