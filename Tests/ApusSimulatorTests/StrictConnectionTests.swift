import ApusCore
import ApusSimulator
import ApusTLS
import Testing

/// Requests in, rulings out, without a socket.
@Suite struct StrictConnectionTests {
    private let ledger = SimulatorLedger()
    private let world: World
    private let fixture: APNsFixture
    private let google: FCMFixture
    private static let nanoseconds = APNsFixture.now.value * 1_000_000

    init() throws {
        self.fixture = try APNsFixture()
        self.google = try FCMFixture()
        self.world = World(
            rules: Rules(
                fates: TokenFates(),
                apns: self.fixture.judge,
                fcm: self.google.judge,
                oauth: self.google.oauth,
            ),
            faults: FaultInjector(),
            ledger: self.ledger,
            clock: SystemClock(),
        )
    }

    private func connection(_ listener: FaultRoute) -> StrictConnection {
        StrictConnection(world: self.world, shard: self.ledger.shard(0), listener: listener)
    }

    private func judge(_ connection: inout StrictConnection, _ request: ProviderRequest) -> Ruling {
        connection.judge(request, nanoseconds: Self.nanoseconds)
    }

    private func status(_ ruling: Ruling) -> Int? {
        guard case .answer(let answer) = ruling.action else { return nil }
        return answer.status
    }

    private func retryAfter(_ ruling: Ruling) -> String? {
        guard case .answer(let answer) = ruling.action else { return nil }
        return answer.headers.first { $0.name == "retry-after" }?.value
    }

    @Test func theFirstAcceptedTokenOpensStreamsOnce() throws {
        var connection = self.connection(.apns)
        let stranger = self.judge(&connection, try self.fixture.request(["authorization": nil]))
        #expect(self.status(stranger) == 403)
        #expect(!stranger.opensStreams)
        let request = try self.fixture.request()
        let first = self.judge(&connection, request)
        #expect(self.status(first) == 200)
        #expect(first.opensStreams)
        #expect(!self.judge(&connection, request).opensStreams)
        #expect(self.ledger.snapshot.entries.map(\.status) == [403, 200, 200])
        #expect(self.ledger.snapshot.entries.allSatisfy { $0.send == "s1" && $0.token == APNsFixture.token })
    }

    @Test func silenceAndDropHaveJudgedBefore() throws {
        var connection = self.connection(.apns)
        let request = try self.fixture.request()
        self.world.faults.add(FaultScript(route: .apns, count: 1, fault: .silence))
        self.world.faults.add(FaultScript(route: .apns, count: 1, fault: .drop))
        self.world.faults.add(FaultScript(route: .apns, count: 1, fault: .refusal))
        let actions = (0..<3).map { _ in self.judge(&connection, request).action }
        #expect(actions == [.silence, .drop, .refuse])
        let entries = self.ledger.snapshot.entries
        #expect(entries.map(\.status) == [200, 200, 0])
        #expect(entries.map(\.fault) == ["silence", "drop", "refusal"])
    }

    @Test func retryAfterComesInBothForms() throws {
        var plan = FaultPlan(seed: 1)
        plan.fcm.tooManyRequests = 1
        plan.retryAfter = .alternating(seconds: 30)
        self.world.faults.adopt(plan)
        var connection = self.connection(.fcm)
        let request = self.google.request(#"{"token":"t"}"#)
        let values = (0..<2).map { _ in self.retryAfter(self.judge(&connection, request)) }
        let date = HTTPDate.text(APNsFixture.now.advanced(byMilliseconds: 30_000))
        #expect(Set(values) == ["30", date])
    }

    @Test(arguments: [
        (Fault.tooManyRequests, 429, "RESOURCE_EXHAUSTED"), (.unavailable, 503, "UNAVAILABLE"),
        (.internalError, 500, "INTERNAL"),
    ])
    func googleWordsItsFaults(_ fault: Fault, _ expected: Int, _ name: String) throws {
        var connection = self.connection(.fcm)
        self.world.faults.add(FaultScript(route: .fcm, pathContains: "one", count: 1, fault: fault))
        let ruling = self.judge(&connection, self.google.request(#"{"token":"t"}"#))
        guard case .answer(let answer) = ruling.action else { return #expect(Bool(false), "no answer") }
        let body = try JSONValue(parsing: answer.body, bytesMax: 1_000)
        #expect(answer.status == expected)
        #expect(body["error"]?["status"]?.string == name)
        #expect(self.status(self.judge(&connection, self.google.request(#"{"token":"t"}"#))) == 200)
        #expect(self.ledger.snapshot.entries.map(\.token) == ["t", "t"])
    }

    @Test func theTokenEndpointIsARouteOfItsOwn() throws {
        self.world.faults.add(FaultScript(route: .oauth, count: 1, fault: .unavailable))
        var connection = self.connection(.fcm)
        #expect(self.status(self.judge(&connection, self.google.request(#"{"token":"t"}"#))) == 200)
        let token = ProviderRequest(path: "/token?x=1", headers: [], body: [])
        #expect(self.status(self.judge(&connection, token)) == 503)
        #expect(self.status(self.judge(&connection, token)) == 400)
        let summary = self.ledger.snapshot.summary
        #expect(summary.entries == 1)
        #expect(summary.count(.oauth) == 2)
    }

    @Test func validationsAreCountedAndNotEntered() throws {
        var connection = self.connection(.fcm)
        var request = self.google.request("{}")
        request.body = Array(#"{"validate_only":true,"message":{"token":"t1"}}"#.utf8)
        #expect(self.status(self.judge(&connection, request)) == 200)
        #expect(self.ledger.snapshot.count == 0)
        #expect(self.ledger.snapshot.summary.count(.fcm, status: 200) == 1)
    }

    @Test func topicsAndConditionsAreAddresses() throws {
        var connection = self.connection(.fcm)
        _ = self.judge(&connection, self.google.request(#"{"topic":"news"}"#))
        _ = self.judge(&connection, self.google.request(#"{"condition":"'a' in topics"}"#))
        #expect(self.ledger.snapshot.entries.map(\.token) == ["/topics/news", "'a' in topics"])
    }

    @Test func theLastRequestBeforeGoAwayIsAnswered() throws {
        var plan = FaultPlan()
        plan.apns.goAwayAfterRequests = 2
        self.world.faults.adopt(plan)
        var connection = self.connection(.apns)
        let request = try self.fixture.request()
        #expect(!self.judge(&connection, request).isLast)
        let second = self.judge(&connection, request)
        #expect(second.isLast)
        #expect(self.status(second) == 200)
    }

    @Test func `A connection of age is told goodbye once`() throws {
        var plan = FaultPlan()
        plan.apns.goAwayEveryMilliseconds = 1_000
        self.world.faults.adopt(plan)
        var connection = self.connection(.apns)
        let request = try self.fixture.request()
        let ages: [Int64] = [0, 999, 1_000, 2_500]
        let isLast = ages.map { age in
            connection.judge(request, nanoseconds: Self.nanoseconds + age * 1_000_000).isLast
        }
        #expect(isLast == [false, false, true, false])
        #expect(self.ledger.snapshot.summary.goAways == 1)
    }

    @Test func rulesChangeUnderAnOpenConnection() throws {
        var connection = self.connection(.apns)
        let request = try self.fixture.request()
        #expect(self.status(self.judge(&connection, request)) == 200)
        self.world.change { $0.fates.declare(.bad, of: TokenDigest(APNsFixture.token, provider: .apns)) }
        #expect(self.status(self.judge(&connection, request)) == 400)
        self.world.reset()
        #expect(self.status(self.judge(&connection, request)) == 200)
    }
}
