import ApusCore
import ApusSimulator
import ApusTLS
import Testing

/// Requests in, decisions out, without a socket.
@Suite struct StrictConnectionTests {
    private let ledger = SimulatorLedger()
    private let state: SimulatorState
    private let fixture: APNsFixture
    private let google: FCMFixture
    private static let nanoseconds = APNsFixture.now.value * 1_000_000

    init() throws {
        self.fixture = try APNsFixture()
        self.google = try FCMFixture()
        self.state = SimulatorState(
            providers: [SimulatedAPNs(self.fixture.validator), SimulatedFCM(self.google.validator, self.google.oauth)],
            ledger: self.ledger,
        )
    }

    private func connection(_ listener: FaultRoute) -> StrictConnection {
        StrictConnection(state: self.state, shard: self.ledger.shard(0), listener: listener)
    }

    private func decide(_ connection: inout StrictConnection, _ request: ProviderRequest) -> Decision {
        connection.decide(request, nanoseconds: Self.nanoseconds)
    }

    private func status(_ decision: Decision) -> Int? {
        guard case .answer(let answer) = decision.action else { return nil }
        return answer.status
    }

    private func retryAfter(_ decision: Decision) -> String? {
        guard case .answer(let answer) = decision.action else { return nil }
        return answer.headers.first { $0.name == "retry-after" }?.value
    }

    @Test func theFirstAcceptedTokenOpensStreamsOnce() throws {
        var connection = self.connection(.apns)
        let stranger = self.decide(&connection, try self.fixture.request(["authorization": nil]))
        #expect(self.status(stranger) == 403)
        #expect(!stranger.opensStreams)
        let request = try self.fixture.request()
        let first = self.decide(&connection, request)
        #expect(self.status(first) == 200)
        #expect(first.opensStreams)
        #expect(!self.decide(&connection, request).opensStreams)
        #expect(self.ledger.snapshot.entries.map(\.status) == [403, 200, 200])
        #expect(self.ledger.snapshot.entries.allSatisfy { $0.send == "s1" && $0.token == APNsFixture.token })
    }

    @Test func silenceAndDropValidateBefore() throws {
        var connection = self.connection(.apns)
        let request = try self.fixture.request()
        self.state.faults.add(FaultScript(route: .apns, count: 1, fault: .silence))
        self.state.faults.add(FaultScript(route: .apns, count: 1, fault: .drop))
        self.state.faults.add(FaultScript(route: .apns, count: 1, fault: .refusal))
        let actions = (0..<3).map { _ in self.decide(&connection, request).action }
        #expect(actions == [.silence, .drop, .refuse])
        let entries = self.ledger.snapshot.entries
        #expect(entries.map(\.status) == [200, 200, 0])
        #expect(entries.map(\.fault) == ["silence", "drop", "refusal"])
    }

    @Test func retryAfterComesInBothForms() throws {
        var plan = FaultPlan(seed: 1)
        plan.fcm.tooManyRequests = 1
        plan.retryAfter = .alternating(seconds: 30)
        self.state.faults.adopt(plan)
        var connection = self.connection(.fcm)
        let request = self.google.request(#"{"token":"t"}"#)
        let values = (0..<2).map { _ in self.retryAfter(self.decide(&connection, request)) }
        let date = HTTPDate.text(APNsFixture.now.advanced(byMilliseconds: 30_000))
        #expect(Set(values) == ["30", date])
    }

    @Test(arguments: [
        (Fault.tooManyRequests, 429, "RESOURCE_EXHAUSTED"), (.unavailable, 503, "UNAVAILABLE"),
        (.internalError, 500, "INTERNAL"),
    ])
    func googleWordsItsFaults(_ fault: Fault, _ expected: Int, _ name: String) throws {
        var connection = self.connection(.fcm)
        self.state.faults.add(FaultScript(route: .fcm, pathContains: "one", count: 1, fault: fault))
        let decision = self.decide(&connection, self.google.request(#"{"token":"t"}"#))
        guard case .answer(let answer) = decision.action else { return #expect(Bool(false), "no answer") }
        let body = try JSONValue(parsing: answer.body, bytesMax: 1_000)
        #expect(answer.status == expected)
        #expect(body["error"]?["status"]?.string == name)
        #expect(self.status(self.decide(&connection, self.google.request(#"{"token":"t"}"#))) == 200)
        #expect(self.ledger.snapshot.entries.map(\.token) == ["t", "t"])
    }

    @Test func theTokenEndpointIsARouteOfItsOwn() throws {
        self.state.faults.add(FaultScript(route: .oauth, count: 1, fault: .unavailable))
        var connection = self.connection(.fcm)
        #expect(self.status(self.decide(&connection, self.google.request(#"{"token":"t"}"#))) == 200)
        let token = ProviderRequest(path: "/token?x=1", headers: [], body: [])
        #expect(self.status(self.decide(&connection, token)) == 503)
        #expect(self.status(self.decide(&connection, token)) == 400)
        let summary = self.ledger.snapshot.summary
        #expect(summary.entries == 1)
        #expect(summary.count(.oauth) == 2)
    }

    @Test func validationsAreCountedAndNotEntered() throws {
        var connection = self.connection(.fcm)
        var request = self.google.request("{}")
        request.body = Array(#"{"validate_only":true,"message":{"token":"t1"}}"#.utf8)
        #expect(self.status(self.decide(&connection, request)) == 200)
        #expect(self.ledger.snapshot.count == 0)
        #expect(self.ledger.snapshot.summary.count(.fcm, status: 200) == 1)
    }

    @Test func topicsAndConditionsAreAddresses() throws {
        var connection = self.connection(.fcm)
        _ = self.decide(&connection, self.google.request(#"{"topic":"news"}"#))
        _ = self.decide(&connection, self.google.request(#"{"condition":"'a' in topics"}"#))
        #expect(self.ledger.snapshot.entries.map(\.token) == ["/topics/news", "'a' in topics"])
    }

    @Test func theLastRequestBeforeGoAwayIsAnswered() throws {
        var plan = FaultPlan()
        plan.apns.goAwayAfterRequests = 2
        self.state.faults.adopt(plan)
        var connection = self.connection(.apns)
        let request = try self.fixture.request()
        #expect(!self.decide(&connection, request).isLast)
        let second = self.decide(&connection, request)
        #expect(second.isLast)
        #expect(self.status(second) == 200)
    }

    @Test func `A connection at its maximum age gets GOAWAY once`() throws {
        var plan = FaultPlan()
        plan.apns.goAwayEveryMilliseconds = 1_000
        self.state.faults.adopt(plan)
        var connection = self.connection(.apns)
        let request = try self.fixture.request()
        let ages: [Int64] = [0, 999, 1_000, 2_500]
        let isLast = ages.map { age in
            connection.decide(request, nanoseconds: Self.nanoseconds + age * 1_000_000).isLast
        }
        #expect(isLast == [false, false, true, false])
        #expect(self.ledger.snapshot.summary.goAways == 1)
    }

    @Test func rulesChangeUnderAnOpenConnection() throws {
        var connection = self.connection(.apns)
        let request = try self.fixture.request()
        #expect(self.status(self.decide(&connection, request)) == 200)
        self.state.change { $0.behaviors.declare(.bad, of: TokenDigest(APNsFixture.token, provider: .apns)) }
        #expect(self.status(self.decide(&connection, request)) == 400)
        self.state.reset()
        #expect(self.status(self.decide(&connection, request)) == 200)
    }
}
