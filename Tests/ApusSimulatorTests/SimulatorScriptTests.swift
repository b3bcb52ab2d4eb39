import ApusCore
import ApusHTTP2
import ApusSimulator
import Testing

/// Stories as data: what is read, what is refused, and that they come out the same again.
@Suite struct SimulatorScriptTests {
    private func script(_ yaml: String) throws -> SimulatorScript {
        try SimulatorScript(yaml: yaml, name: "story.yaml")
    }

    @Test func theExampleOfTheHelpIsGoodAndSaysAllOfIt() throws {
        let script = try self.script(SimulatorScript.help)
        #expect(script.hasSeed && script.plan.seed == 7)
        #expect(script.plan.retryAfter == .seconds(17))
        #expect(
            script.plan.apns.reasons == [ReasonRate("BadDeviceToken", 0.02), ReasonRate("ExpiredProviderToken", 0.001)]
        )
        #expect(script.plan.apns.goAway.lastStream == .before && script.plan.apns.goAwayEveryMilliseconds == 30_000)
        #expect(script.plan.oauth.reasons == [ReasonRate("invalid_grant", 0.1)])
        #expect(script.plan.apns.answers == [AnswerRate(status: 400, body: #"{"reason": "OfTomorrow"}"#, 0.001)])
        var quota = MessageQuota(messages: 600, windowMilliseconds: 60_000)
        quota.retryAfter = .date
        #expect(script.plan.quota == quota)
        #expect(script.plan.phases[1].rates[.fcm]?.answers == [AnswerRate(status: 500, body: "", 0.5)])
        #expect(script.plan.phases.map(\.fromMilliseconds) == [10_000, 60_000, 90_000])
        #expect(script.plan.phases[0].streamsMax == 5 && script.plan.phases[1].untilMilliseconds == nil)
        #expect(
            script.scripts.map(\.fault) == [
                .silence, .reason("QUOTA_EXCEEDED"), .answer(status: 502, body: "<html>"),
                .result("RESOURCE_EXHAUSTED", tokensContaining: "old"), .reason("other_key"),
                .answer(status: 307, body: ""),
            ]
        )
        #expect(script.certificates == [.apns: .valid, .fcm: .valid, .webpush: .valid])
        #expect(script.tokens.map(\.token) == ["00fc13ad", "old", "new", "https://web.push.apple.com/old"])
        #expect(SimulatorScript.help.contains("# How to test a client"))
    }

    @Test(arguments: [
        ("seed: 7\napns:\n  silense: 0.1\n", "story.yaml:3: apns.silense: is unknown"),
        ("fcm:\n  silence: 1.5", "story.yaml:2: fcm.silence: must be 0 to 1"),
        ("apns: {silence: 0.6, drop: 0.6}", "story.yaml:1: apns: has probabilities whose sum is above 1"),
        ("fcm:\n  reasons:\n    BadDeviceToken: 1", "story.yaml:3: fcm.reasons.BadDeviceToken: is not a reason of fcm"),
        ("phases:\n  - from_ms: 5\n    until_ms: 5", "story.yaml:3: phases[0].until_ms: must be after from_ms"),
        ("phases:\n  - {from_ms: 0, apns: {delay_ms: soon}}", "story.yaml:2: phases[0].apns.delay_ms: must be a whole"),
        ("scripts:\n  - {route: apns, fault: nothing}", "story.yaml:2: scripts[0].fault: must be one of"),
        ("quota: {messages: 1, retry_after: soon}", "story.yaml:1: quota.retry_after: must be seconds, date,"),
        (
            "apns:\n  answers:\n    - {status: 99, share: 1}",
            "story.yaml:3: apns.answers[0].status: must be a whole number"
        ),
        ("apns: {answers: [{status: 400}]}", "story.yaml:1: apns.answers[0].share: must be 0 to 1"),
        (
            "apns: {answers: [{status: 400, share: 1, body: {a: 1}}]}",
            "story.yaml:1: apns.answers[0].body: must be a text"
        ),
        (
            "apns: {answers: [{status: 400, share: 0.6}], drop: 0.6}",
            "story.yaml:1: apns: has probabilities whose sum is above 1"
        ),
        ("quota: {window_ms: 1000}", "story.yaml:1: quota.messages: is missing"),
        ("\ntls:\n  apns: old", "story.yaml:3: tls.apns: must be valid, expired, wrong_name"),
        ("tokens:\n  - provider: apns\n    token: ab\n    dies: 5", "story.yaml:4: tokens[0].dies: is unknown"),
        ("tokens:\n  - {provider: apns, token: ab}", "story.yaml:2: tokens[0]: names no event"),
        ("telegrams: {}", "story.yaml:1: telegrams: is unknown"),
        ("- seed", "story.yaml:1: must be a mapping"),
        ("seed: [", "story.yaml:2: is not valid YAML"),
    ])
    func whatIsWrongIsNamedByLineAndField(yaml: String, beginning: String) throws {
        let error = #expect(throws: SimulatorError.self) { try self.script(yaml) }
        #expect(error?.message.hasPrefix(beginning) == true, "\(error?.message ?? "nothing")")
    }

    /// Returns the faults of a thousand requests that come a millisecond apart.
    private func draws(_ yaml: String) throws -> [FaultDraw] {
        let injector = FaultInjector(try self.script(yaml).plan)
        let path = Array("/v1/projects/p/messages:send".utf8)
        return (0..<1_000).map { number in
            injector.next(.fcm, path: path.span, now: UnixMilliseconds(1_700_000_000_000 + Int64(number)))
        }
    }

    @Test func theSameSeedHasTheSameFates() throws {
        let story = "fcm: {unavailable: 0.1, slow: 0.2, jitter_ms: 9, reasons: {INTERNAL: 0.2, NOT_FOUND: 0.1}}"
        let first = try self.draws("seed: 1\n" + story)
        #expect(try self.draws("seed: 1\n" + story) == first)
        #expect(try self.draws("seed: 2\n" + story) != first)
        #expect((150...250).contains(first.count { $0.fault == .reason("INTERNAL") }))
        #expect((150...250).contains(first.count { $0.delayMicroseconds >= 10_000_000 }))
    }

    @Test func aPhaseHoldsFromItsBeginningToItsEnd() throws {
        let draws = try self.draws(
            "fcm: {internal_error: 1}\nphases:\n  - {from_ms: 100, until_ms: 300, fcm: {unavailable: 1}}"
        )
        let unavailable = draws.indices.filter { draws[$0].fault == .unavailable }
        #expect(unavailable == Array(100..<300))
        #expect(draws.count { $0.fault == .internalError } == 800)
    }

    @Test func aQuotaTakesSoManyInEachWindow() throws {
        let draws = try self.draws("quota: {messages: 30, window_ms: 400}")
        let taken = draws.indices.filter { draws[$0].fault == nil }
        #expect(taken == Array(0..<30) + Array(400..<430) + Array(800..<830))
        #expect(draws[399].retryAfter == .seconds(1) && draws[399].fault == .tooManyRequests)
    }

    @Test(arguments: [
        ("", "", RetryAfterForm.seconds(1)), ("retry_after: {form: seconds, seconds: 9}\n", "", .seconds(1)),
        ("retry_after: {form: date, seconds: 9}\n", "", .date(seconds: 1)),
        ("retry_after: {form: alternating, seconds: 9}\n", "", .alternating(seconds: 1)),
        ("retry_after: {form: date, seconds: 9}\n", ", retry_after: seconds", .seconds(1)),
        ("", ", retry_after: date", .date(seconds: 1)), ("", ", retry_after: alternating", .alternating(seconds: 1)),
        ("retry_after: {form: seconds, seconds: 9}\n", ", retry_after: none", .absent),
    ])
    func aQuotaTellsItsEndInTheFormAskedFor(_ before: String, _ own: String, _ form: RetryAfterForm) throws {
        let draws = try self.draws("\(before)quota: {messages: 10, window_ms: 1000\(own)}")
        #expect(draws.prefix(10).allSatisfy { $0 == .none })
        #expect(draws.dropFirst(10).allSatisfy { $0.fault == .tooManyRequests && $0.retryAfter == form })
    }

    @Test(arguments: [
        "too_many_requests: 0.5", "reasons: {QUOTA_EXCEEDED: 0.5}", "answers: [{status: 429, share: 0.5}]",
        "refusal: 0.5",
    ])
    func what429AnswersUsesNothingOfAQuota(_ half: String) throws {
        let draws = try self.draws("seed: 3\nfcm: {\(half)}\nquota: {messages: 300, window_ms: 1000}")
        #expect(draws.count { $0.fault == nil } == 300)
        #expect(draws.firstIndex { $0.retryAfter != nil } ?? 0 > 400)
        let errors = try self.draws(
            "seed: 3\nfcm: {reasons: {INTERNAL: 0.5}}\nquota: {messages: 300, window_ms: 1000}"
        )
        #expect(errors.firstIndex { $0.retryAfter != nil } == 300)
    }

    @Test func anAnswerOfAnyKindComesByShareAndByPhase() throws {
        let answer = Fault.answer(status: 400, body: #"{"reason":"OfTomorrow"}"#)
        let form = #"answers: [{status: 400, body: '{"reason":"OfTomorrow"}', share: SHARE}]"#
        let draws = try self.draws("seed: 5\nfcm: {\(form.replacing("SHARE", with: "0.2"))}")
        #expect((150...250).contains(draws.count { $0.fault == answer }))
        let phase = "phases: [{from_ms: 100, until_ms: 300, fcm: {\(form.replacing("SHARE", with: "1"))}}]"
        let later = try self.draws(phase)
        #expect(later.indices.filter { later[$0].fault == answer } == Array(100..<300))
    }

    @Test func aReasonThatNobodyKnowsReachesTheClientWordForWord() async throws {
        let outcome = try await self.send(
            #"apns: {answers: [{status: 400, body: '{"reason":"OfTomorrow"}', share: 1}]}"#
        )
        #expect(outcome == .answered(status: 400, body: #"{"reason":"OfTomorrow"}"#, retryAfter: nil))
    }

    @Test(arguments: [("dies_ms", 410), ("expires_ms", 410), ("spoils_ms", 400), ("defects_ms", 400)])
    func aTokenLivesItsLife(event: String, status: Int) async throws {
        let token = String(repeating: "ab", count: 32)
        let story = "tokens:\n  - {provider: apns, token: \"\(token)\", \(event): 0}"
        let outcome = try await self.send(story)
        #expect(outcome.status == status)
        let returned = "tokens:\n  - {provider: apns, token: \"\(token)\", \(event): 0, returns_ms: 0}"
        #expect(try await self.send(returned).status == 200)
    }

    @Test func aTokenThatRotatesDiesAsTheOtherIsBorn() async throws {
        let token = String(repeating: "ab", count: 32)
        let soon = "tokens:\n  - {provider: apns, token: cd, rotates_ms: 3600000, rotates_to: \"\(token)\"}"
        #expect(try await self.send(soon).status == 400, "nobody knows it yet")
        let now = "tokens:\n  - {provider: apns, token: cd, rotates_ms: 0, rotates_to: \"\(token)\"}"
        #expect(try await self.send(now).status == 200)
    }

    @Test(arguments: ["expired", "wrong_name"])
    func aBadCertificateIsTakenByNoClient(form: String) async throws {
        guard case .lost = try await self.send("tls: {apns: \(form)}") else {
            Issue.record("the client trusted it")
            return
        }
    }

    @Test func goAwayBeforeARequestLeavesItUnprocessed() async throws {
        let story = "apns: {go_away_after: 3, go_away_last: before, go_away_reason: BadCertificateEnvironment}"
        try await self.with(story) { simulator in
            let client = try await self.connect(simulator)
            var outcomes: [LoopbackClient.Outcome] = []
            // With one provider token: Apple does not like to see another so soon.
            let request = try self.request(simulator)
            for _ in 0..<3 { outcomes.append(try await client.send(request)) }
            #expect(outcomes.prefix(2).allSatisfy { $0.status == 200 })
            #expect(outcomes[2] == .refused)
            #expect(try await client.seen(\.goAways) == [3])
            #expect(simulator.ledger.snapshot.accepted.values.reduce(0, +) == 2)
        }
    }

    @Test func streamsAreNarrowedAndTheReasonComesWithItsStatus() async throws {
        let story = "apns: {reasons: {TooManyProviderTokenUpdates: 1}}\nphases: [{from_ms: 0, streams: 2}]"
        try await self.with(story) { simulator in
            let client = try await self.connect(simulator)
            let outcome = try await client.send(try self.request(simulator))
            #expect(outcome.status == 429)
            try await client.close()
        }
        try await self.with("phases: [{from_ms: 0, streams: 2}]") { simulator in
            let client = try await self.connect(simulator)
            let requests = Array(repeating: try self.request(simulator), count: 50)
            #expect(try await client.send(requests).allSatisfy { $0.status == 200 })
            #expect(try await client.seen(\.inFlightMax) == 2)
            try await client.close()
        }
    }

    @Test func halfABodyIsNoAnswer() async throws {
        try await self.with("scripts: [{route: apns, fault: half_body}]") { simulator in
            let client = try await self.connect(simulator)
            async let outcome = client.send(try self.request(simulator))
            while simulator.ledger.snapshot.count == 0 { try await Task.sleep(for: .milliseconds(5)) }
            try await client.close()
            #expect(try await outcome == .lost)
            #expect(simulator.ledger.snapshot.entries.map(\.fault) == ["half_body"])
        }
    }

    // MARK: Helpers

    private func with(_ yaml: String, _ body: (Simulator) async throws -> Void) async throws {
        let script = try self.script(yaml)
        try await withSimulator(configured { $0.script = script }, body)
    }

    private func connect(_ simulator: Simulator) async throws -> LoopbackClient {
        try await LoopbackClient.connect(
            port: try #require(simulator.addresses.apnsPort),
            authorityPEM: simulator.authorityPEM,
        )
    }

    private func request(_ simulator: Simulator) throws -> LoopbackClient.Request {
        LoopbackClient.Request(
            template: try Requests.apns(send: "s1"),
            authorization: try Requests.authorization(simulator, now: SystemClock().now().seconds),
            token: Array(repeating: 0xab, count: 32),
            id: RequestID(high: 0x8000, low: 1),
        )
    }

    /// One request to a simulator with that story.
    private func send(_ yaml: String) async throws -> LoopbackClient.Outcome {
        let script = try self.script(yaml)
        let simulator = try await Simulator.start(configured { $0.script = script })
        do {
            let client = try await self.connect(simulator)
            let outcome = try await client.send(try self.request(simulator))
            await simulator.stop()
            return outcome
        } catch {
            await simulator.stop()
            throw error
        }
    }
}
