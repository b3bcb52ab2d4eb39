import ApusCore
import ApusSimulator
import Testing

@Suite struct FaultPlanTests {
    private func count(_ fault: Fault, of requests: UInt64, _ plan: FaultPlan) -> Int {
        (0..<requests).count { plan.draw(.fcm, number: $0).fault == fault }
    }

    @Test func ratesAreMetAndTheSeedRepeatsThem() {
        var plan = FaultPlan(seed: 7)
        plan.fcm.tooManyRequests = 0.1
        plan.fcm.unavailable = 0.05
        let first = self.count(.tooManyRequests, of: 20_000, plan)
        #expect((1_800...2_200).contains(first))
        #expect((850...1_150).contains(self.count(.unavailable, of: 20_000, plan)))
        #expect(self.count(.tooManyRequests, of: 20_000, plan) == first)
        #expect(self.count(.internalError, of: 20_000, plan) == 0)

        plan.seed = 8
        let drawn = (0..<1_000).map { plan.draw(.fcm, number: $0).fault }
        plan.seed = 7
        #expect((0..<1_000).map { plan.draw(.fcm, number: $0).fault } != drawn)
    }

    @Test func certainFaultsStrikeAlways() {
        var plan = FaultPlan(seed: 1)
        plan.fcm.silence = 1
        #expect(self.count(.silence, of: 1_000, plan) == 1_000)
        #expect(plan.draw(.apns, number: 3) == .none)
    }

    @Test func jitterStaysWithinItsBounds() {
        var plan = FaultPlan(seed: 1)
        plan.fcm.delayMilliseconds = 5
        plan.fcm.jitterMilliseconds = 10
        let delays = (0..<2_000).map { plan.draw(.fcm, number: $0).delayMicroseconds }
        #expect(delays.allSatisfy { (5_000...15_000).contains($0) })
        #expect(Set(delays).count > 1_000)
    }

    @Test func impossibleNumbersAreNotValid() {
        var plan = FaultPlan()
        plan.apns.tooManyRequests = 0.6
        plan.apns.drop = 0.5
        #expect(!plan.isValid)
        plan.apns.drop = 0.4
        #expect(plan.isValid)
        plan.oauth.silence = -0.1
        #expect(!plan.isValid)
        plan.oauth.silence = 0
        plan.oauth.delayMilliseconds = FaultRates.delayMillisecondsMax + 1
        #expect(!plan.isValid)
        plan.oauth.delayMilliseconds = 0
        plan.oauth.goAwayAfterRequests = 0
        #expect(!plan.isValid)
    }

    private func next(_ injector: FaultInjector, _ route: FaultRoute, _ path: String = "") -> FaultDraw {
        let bytes = Array(path.utf8)
        return injector.next(route, path: bytes.span)
    }

    @Test func scriptsStrikeFirstAndAsOftenAsTheySay() {
        let injector = FaultInjector()
        injector.add(FaultScript(route: .oauth, count: 2, fault: .unavailable))
        injector.add(FaultScript(route: .apns, pathContains: "abc", count: 1, fault: .silence))
        #expect(self.next(injector, .apns, "/3/device/0123").fault == nil)
        #expect(self.next(injector, .oauth).fault == .unavailable)
        #expect(self.next(injector, .apns, "/3/device/abcdef").fault == .silence)
        #expect(self.next(injector, .apns, "/3/device/abcdef").fault == nil)
        #expect(self.next(injector, .oauth).fault == .unavailable)
        #expect(self.next(injector, .oauth).fault == nil)
        #expect(injector.scripts.isEmpty)
    }

    @Test func requestsAreNumberedPerRouteFromThePlanOn() {
        var plan = FaultPlan(seed: 3)
        plan.apns.unavailable = 0.5
        let injector = FaultInjector(plan)
        let expected = (0..<100).map { plan.draw(.apns, number: $0) }
        #expect((0..<100).map { _ in self.next(injector, .apns) } == expected)
        injector.adopt(plan)
        #expect((0..<100).map { _ in self.next(injector, .apns) } == expected)
        injector.clear()
        #expect(self.next(injector, .apns) == .none)
    }

    @Test func moreScriptsThanTheLimitAreRefused() {
        let injector = FaultInjector()
        let script = FaultScript(route: .apns, count: 1, fault: .drop)
        for _ in 0..<SimulatorLimits.scriptsMax { #expect(injector.add(script)) }
        #expect(!injector.add(script))
    }
}

@Suite struct FaultCommandTests {
    @Test func aPlanWithScriptsIsRead() throws {
        let text = """
            {"seed": 7, "apns": {"too_many_requests": 0.01, "delay_ms": 5, "go_away_after": 100},
             "retry_after": {"form": "alternating", "seconds": 17},
             "scripts": [{"route": "oauth", "count": 2, "fault": "unavailable"},
                         {"route": "fcm", "path": "p1", "fault": {"status": 502, "body": "<html>"}}]}
            """
        let order = try FaultCommand(json: Array(text.utf8))
        var plan = FaultPlan(seed: 7)
        plan.apns.tooManyRequests = 0.01
        plan.apns.delayMilliseconds = 5
        plan.apns.goAwayAfterRequests = 100
        plan.retryAfter = .alternating(seconds: 17)
        #expect(order.plan == plan)
        #expect(
            order.scripts == [
                FaultScript(route: .oauth, count: 2, fault: .unavailable),
                FaultScript(
                    route: .fcm,
                    pathContains: "p1",
                    count: 1,
                    fault: .answer(status: 502, body: "<html>"),
                ),
            ]
        )
    }

    @Test func scriptsAloneLeaveThePlan() throws {
        let order = try FaultCommand(json: Array(#"{"scripts":[{"route":"apns","fault":"drop"}]}"#.utf8))
        #expect(order.plan == nil)
        #expect(order.scripts.count == 1)
    }

    @Test(arguments: [
        "[]", "{", #"{"apns":5}"#, #"{"apns":{"typo":1}}"#, #"{"apns":{"drop":"1"}}"#, #"{"apns":{"drop":1.5}}"#,
        #"{"apns":{"delay_ms":1.5}}"#, #"{"seed":-1}"#, #"{"other":1}"#, #"{"scripts":[{"fault":"drop"}]}"#,
        #"{"scripts":[{"route":"apns","fault":"typo"}]}"#, #"{"scripts":[{"route":"apns","count":0,"fault":"drop"}]}"#,
        #"{"retry_after":{"form":"typo","seconds":1}}"#, #"{"retry_after":{"seconds":-1}}"#,
        #"{"scripts":[{"route":"apns","fault":{"status":700}}]}"#,
        #"{"scripts":[{"route":"apns","fault":{"status":500,"bdy":"x"}}]}"#,
    ])
    func nonsenseIsRefused(_ text: String) {
        #expect(throws: SimulatorError.self) { try FaultCommand(json: Array(text.utf8)) }
    }
}

@Suite struct HTTPDateTests {
    @Test(arguments: [
        (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
        (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
        (951_827_696, "Tue, 29 Feb 2000 12:34:56 GMT"),
        (1_798_761_599, "Thu, 31 Dec 2026 23:59:59 GMT"),
    ])
    func datesAreWritten(_ seconds: Int64, _ text: String) {
        #expect(HTTPDate.text(UnixMilliseconds(seconds: seconds)) == text)
    }
}

@Suite struct TokenEndpointWordTests {
    /// Lists Google's answer to each fault of an assertion.
    @Test(arguments: [
        ("invalid_grant_signature", 400, "invalid_grant", "Invalid JWT Signature."),
        (
            "invalid_grant_time", 400, "invalid_grant",
            "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe."
        ), ("invalid_grant_account", 400, "invalid_grant", "Invalid grant: account not found"),
        ("invalid_grant_audience", 400, "invalid_grant", "Invalid JWT: Failed audience check."),
        ("invalid_scope", 400, "invalid_scope", "Invalid OAuth scope or ID token audience provided."),
        ("invalid_client", 401, "invalid_client", "The OAuth client was not found."),
        ("temporarily_unavailable", 503, "temporarily_unavailable", "The service is currently unavailable."),
    ])
    func aWordComesWithItsSentence(_ word: String, _ status: Int, _ error: String, _ sentence: String) throws {
        let answer = try #require(
            SimulatedFCM.answer(reason: word, route: .oauth, id: nil, now: UnixMilliseconds(1_800_000_000_000))
        )
        let body = try JSONValue(parsing: answer.body, bytesMax: 1_000)
        #expect(answer.status == status && body["error"]?.string == error)
        #expect(body["error_description"]?.string?.hasPrefix(sentence) == true)
        #expect(SimulatedFCM.reasons(of: .oauth).contains(word))
    }
}
