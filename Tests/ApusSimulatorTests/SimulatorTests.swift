import ApusCore
import ApusHTTP2
import ApusSimulator
import Testing

@Suite struct SimulatorTests {
    private static let now = SystemClock().now().seconds

    private func connect(_ simulator: Simulator, _ port: Int?) async throws -> LoopbackClient {
        try await LoopbackClient.connect(port: try #require(port), authorityPEM: simulator.authorityPEM)
    }

    /// Requests to so many devices, with ids that tell them apart.
    private func requests(
        _ tokens: Range<Int>,
        _ template: RequestTemplate,
        _ authorization: HeaderValue?,
    ) -> [LoopbackClient.Request] {
        tokens.map { number in
            LoopbackClient.Request(
                template: template,
                authorization: authorization,
                token: Requests.token(number),
                id: RequestID(high: 0x8000, low: UInt64(number)),
            )
        }
    }

    @Test func appleOpensUpAfterTheFirstGoodTokenAndTheLedgerIsExact() async throws {
        try await withSimulator(configured { $0.streamsMax = 100 }) { simulator in
            let client = try await self.connect(simulator, simulator.addresses.apnsPort)
            let authorization = try Requests.authorization(simulator, now: Self.now)
            let requests = self.requests(0..<10_000, try Requests.apns(send: "s1"), authorization)
            let outcomes = try await client.send(requests)
            #expect(outcomes.allSatisfy { $0.status == 200 })
            #expect(try await client.seen(\.streamsMaxSeen).last == 100)
            #expect(try await client.seen(\.inFlightMax) == 100)
            try await client.close()

            let ledger = simulator.ledger.snapshot
            #expect(ledger.count == 10_000)
            let expected = (0..<10_000).map { SendAndToken(send: "s1", token: Hexadecimal.encode(Requests.token($0))) }
            #expect(ledger.accepted == Dictionary(uniqueKeysWithValues: expected.map { ($0, 1) }))
            #expect(ledger.entries[7].id == RequestID(high: 0x8000, low: 7).description)
            #expect(ledger.summary.connections == 1)
        }
    }

    @Test func withoutAGoodTokenAppleStaysNarrow() async throws {
        try await withSimulator { simulator in
            let client = try await self.connect(simulator, simulator.addresses.apnsPort)
            let wrong = try HeaderValue("bearer x.y.z")
            let outcomes = try await client.send(self.requests(0..<5, try Requests.apns(), wrong))
            #expect(outcomes.allSatisfy { $0.status == 403 })
            #expect(try await client.seen(\.streamsMaxSeen).allSatisfy { $0 == 1 })
            #expect(try await client.seen(\.inFlightMax) == 1)
            try await client.close()
        }
    }

    @Test func aCertificateNeedsNoTokenAndIsAllowedManyStreamsAtOnce() async throws {
        try await withSimulator(configured { $0.streamsMax = 100 }) { simulator in
            let identity = try simulator.clientCertificate(topics: ["example.apus.demo"])
            let client = try await LoopbackClient.connect(
                port: try #require(simulator.addresses.apnsPort),
                authorityPEM: simulator.authorityPEM,
                certificate: identity,
            )
            let outcomes = try await client.send(self.requests(0..<1_000, try Requests.apns(), nil))
            #expect(outcomes.allSatisfy { $0.status == 200 })
            #expect(try await client.seen(\.streamsMaxSeen).last == 100)
            try await client.close()
            #expect(simulator.ledger.snapshot.count == 1_000)
        }
    }

    @Test func aCertificateOfTheOtherEnvironmentIsToldByGoAwayAndNothingIsProcessed() async throws {
        try await withSimulator { simulator in
            let identity = try simulator.clientCertificate(topics: ["example.apus.demo"], environments: [.sandbox])
            let client = try await LoopbackClient.connect(
                port: try #require(simulator.addresses.apnsPort),
                authorityPEM: simulator.authorityPEM,
                certificate: identity,
            )
            let outcome = try await client.send(self.requests(0..<1, try Requests.apns(), nil))
            #expect(outcome == [.refused])
            #expect(try await client.seen(\.goAways) == [0])
            try await client.close()
            #expect(simulator.ledger.snapshot.accepted.isEmpty)
        }
    }

    @Test func googleTakesMessagesForATokenOfItsOwn() async throws {
        try await withSimulator { simulator in
            let client = try await self.connect(simulator, simulator.addresses.fcmPort)
            let grant = try await client.send(
                LoopbackClient.Request(template: try Requests.oauth(simulator, now: Self.now))
            )
            let bearer = try Requests.bearer(grant)
            let template = try Requests.fcm(send: "s2")
            var requests = (0..<1_000).map { number in
                LoopbackClient.Request(
                    template: template,
                    authorization: bearer,
                    token: Array("device:\(number)".utf8),
                )
            }
            requests[999].authorization = nil
            let outcomes = try await client.send(requests)
            #expect(outcomes.count { $0.status == 200 } == 999)
            #expect(outcomes[999].status == 401)
            try await client.close()
            let summary = simulator.ledger.snapshot.summary
            #expect(summary.count(.oauth, status: 200) == 1)
            #expect(summary.count(.fcm, status: 200) == 999)
            #expect(simulator.ledger.snapshot.accepted[SendAndToken(send: "s2", token: "device:17")] == 1)
        }
    }

    @Test(arguments: [false, true])
    func faultsComeExactlyAsTheSeedSays(_ isFast: Bool) async throws {
        var plan = FaultPlan(seed: 11)
        plan.apns.tooManyRequests = 0.1
        plan.apns.unavailable = 0.1
        plan.apns.internalError = 0.05
        plan.apns.refusal = 0.05
        plan.retryAfter = .seconds(17)
        try await withSimulator(
            configured {
                $0.faults = plan
                $0.isFast = isFast
            }
        ) { simulator in
            let client = try await self.connect(simulator, simulator.addresses.apnsPort)
            let authorization = try Requests.authorization(simulator, now: Self.now)
            let outcomes = try await client.send(self.requests(0..<2_000, try Requests.apns(), authorization))
            try await client.close()
            let drawn = (0..<2_000).map { plan.draw(.apns, number: $0).fault }
            func count(_ fault: Fault?) -> Int { drawn.count { $0 == fault } }
            #expect(outcomes.count { $0.status == 429 } == count(.tooManyRequests))
            #expect(outcomes.count { $0.status == 503 } == count(.unavailable))
            #expect(outcomes.count { $0.status == 500 } == count(.internalError))
            #expect(outcomes.count { $0 == .refused } == count(.refusal))
            #expect(outcomes.count { $0.status == 200 } == count(nil))
            let slowed = LoopbackClient.Outcome.answered(
                status: 429,
                body: #"{"reason":"TooManyRequests"}"#,
                retryAfter: "17",
            )
            #expect(outcomes.filter { $0.status == 429 }.allSatisfy { $0 == slowed })
            let summary = simulator.ledger.snapshot.summary
            #expect(summary.faults["too_many_requests"] == UInt64(count(.tooManyRequests)))
            #expect(summary.count(.apns, status: 200) == count(nil))
            #expect(summary.count(.apns, status: 0) == count(.refusal))
        }
    }

    @Test(arguments: [false, true])
    func theDeadAreThoseOfTheShare(_ isFast: Bool) async throws {
        try await withSimulator(
            configured {
                $0.deadShare = DeadShare(0.05, seed: 4)
                $0.deadSince = UnixMilliseconds(1_700_000_000_000)
                $0.isFast = isFast
            }
        ) { simulator in
            let client = try await self.connect(simulator, simulator.addresses.apnsPort)
            let authorization = try Requests.authorization(simulator, now: Self.now)
            let special = Hexadecimal.encode(Requests.token(3))
            simulator.declare(.dead(since: UnixMilliseconds(5)), of: special.uppercased(), provider: .apns)
            let outcomes = try await client.send(self.requests(0..<1_000, try Requests.apns(), authorization))
            try await client.close()
            for (number, outcome) in outcomes.enumerated() {
                let token = Hexadecimal.encode(Requests.token(number))
                let isDead = simulator.isDead(token, provider: .apns)
                let since = number == 3 ? "5" : "1700000000000"
                let body = isDead ? #"{"reason":"Unregistered","timestamp":\#(since)}"# : ""
                #expect(outcome == .answered(status: isDead ? 410 : 200, body: body, retryAfter: nil))
            }
            #expect((20...90).contains(outcomes.count { $0.status == 410 }))
            #expect(simulator.isDead(special, provider: .apns))
        }
    }

    @Test(
        arguments: [
            (nil, nil, 200, ""), (nil, Set(["example.apus.demo"]), 200, ""), (.production, nil, 200, ""),
            (.sandbox, nil, 403, "BadEnvironmentKeyIdInToken"), (nil, Set(["example.other"]), 400, "TopicDisallowed"),
        ] as [(ProviderEnvironment?, Set<String>?, Int, String)]
    )
    func aKeyMayBeForOneEnvironmentAndSomeTopics(
        _ environment: ProviderEnvironment?,
        _ topics: Set<String>?,
        _ status: Int,
        _ reason: String,
    ) async throws {
        var app = SimulatedApp.demo
        app.keyEnvironment = environment
        app.keyTopics = topics
        let apps = [app]
        try await withSimulator(configured { $0.apps = apps }) { simulator in
            let client = try await self.connect(simulator, simulator.addresses.apnsPort)
            let authorization = try Requests.authorization(simulator, now: Self.now)
            let outcomes = try await client.send(self.requests(0..<1, try Requests.apns(), authorization))
            guard case .answered(let found, let body, _) = outcomes[0] else {
                Issue.record("\(outcomes)")
                return
            }
            #expect(found == status && body.contains(reason))
            try await client.close()
        }
    }

    @Test(arguments: [false, true])
    func reasonsAreCountedByWordAndTheSeedIsTold(_ isFast: Bool) async throws {
        var plan = FaultPlan(seed: 11)
        plan.apns.reasons = [ReasonRate("BadDeviceToken", 0.5), ReasonRate("TooManyRequests", 0.5)]
        let faults = plan
        let configuration = configured { configuration in
            configuration.isFast = isFast
            configuration.faults = faults
        }
        try await withSimulator(configuration) { simulator in
            let client = try await self.connect(simulator, simulator.addresses.apnsPort)
            let authorization = try Requests.authorization(simulator, now: Self.now)
            let outcomes = try await client.send(self.requests(0..<100, try Requests.apns(), authorization))
            let bad = outcomes.count { $0.status == 400 }
            #expect((1..<100).contains(bad))
            let summary = simulator.summary
            #expect(
                summary.faults == ["reason:BadDeviceToken": UInt64(bad), "reason:TooManyRequests": UInt64(100 - bad)]
            )
            let port = simulator.addresses.controlPort
            let json = try await ControlClient.request("GET", "/summary", port: port).body
            #expect(json == String(decoding: summary.json, as: UTF8.self))
            #expect(json.contains(#""seed":11"#) && json.contains(#""reason:BadDeviceToken":\#(bad)"#))
            let metrics = try await ControlClient.request("GET", "/metrics", port: port).body
            #expect(metrics.contains(#"apus_simulator_faults_total{fault="reason:BadDeviceToken"} \#(bad)"#))
            try await client.close()
        }
    }

    @Test(arguments: [false, true])
    func afterGoAwayNothingIsProcessed(_ isFast: Bool) async throws {
        try await withSimulator(
            configured {
                $0.isFast = isFast
                $0.startsWithOneStream = false
                $0.faults.apns.goAwayAfterRequests = 4
            }
        ) { simulator in
            let client = try await self.connect(simulator, simulator.addresses.apnsPort)
            let authorization = try Requests.authorization(simulator, now: Self.now)
            let template = try Requests.apns()
            let first = try await client.send(self.requests(0..<1, template, authorization))
            #expect(first == [.answered(status: 200, body: "", retryAfter: nil)])
            let outcomes = try await client.send(self.requests(1..<10, template, authorization))
            #expect(outcomes.prefix(3).allSatisfy { $0.status == 200 })
            #expect(outcomes.dropFirst(3).allSatisfy { $0 == .refused || $0 == .lost })
            #expect(try await client.seen(\.goAways) == [7])
            #expect(simulator.ledger.snapshot.count == 4)
            #expect(simulator.ledger.snapshot.summary.goAways == 1)
            try await client.close()
        }
    }

    @Test(arguments: [false, true])
    func aBrokenConnectionHasTakenItsRequest(_ isFast: Bool) async throws {
        try await withSimulator(configured { $0.isFast = isFast }) { simulator in
            simulator.addScript(FaultScript(route: .apns, count: 1, fault: .drop))
            let client = try await self.connect(simulator, simulator.addresses.apnsPort)
            let authorization = try Requests.authorization(simulator, now: Self.now)
            let outcomes = try await client.send(self.requests(0..<1, try Requests.apns(), authorization))
            #expect(outcomes == [.lost])
            let entry = try #require(simulator.ledger.snapshot.entries.first)
            #expect(entry.isAccepted)
            #expect(entry.fault == "drop")
        }
    }

    @Test(arguments: [false, true])
    func answersMayTakeTheirTime(_ isFast: Bool) async throws {
        try await withSimulator(
            configured {
                $0.isFast = isFast
                $0.faults.apns.delayMilliseconds = 30
                $0.faults.apns.jitterMilliseconds = 20
            }
        ) { simulator in
            let client = try await self.connect(simulator, simulator.addresses.apnsPort)
            let authorization = try Requests.authorization(simulator, now: Self.now)
            let start = ContinuousClock.now
            let outcomes = try await client.send(self.requests(0..<50, try Requests.apns(), authorization))
            // The first request alone, then the others; what is waited for begins when its bytes are read, not when they came.
            #expect(ContinuousClock.now - start >= .milliseconds(40))
            #expect(outcomes.allSatisfy { $0.status == 200 })
            try await client.close()
        }
    }

    @Test func aFastFCMAcceptsEverything() async throws {
        try await withSimulator(
            configured {
                $0.isFast = true
                $0.connectionWindow = 1_048_576
            }
        ) { simulator in
            let client = try await self.connect(simulator, simulator.addresses.fcmPort)
            let grant = try await client.send(
                LoopbackClient.Request(template: try Requests.oauth(simulator, now: Self.now))
            )
            let bearer = try Requests.bearer(grant)
            let template = try Requests.fcm(send: "s3")
            let requests = (0..<5_000).map { number in
                LoopbackClient.Request(
                    template: template,
                    authorization: bearer,
                    token: Array("device:\(number)".utf8),
                )
            }
            let outcomes = try await client.send(requests)
            #expect(outcomes.allSatisfy { $0.status == 200 })
            #expect(Set(outcomes).count == 5_000, "each message has a name of its own")
            try await client.close()
            let accepted = simulator.ledger.snapshot.accepted
            let expected = (0..<5_000).map { (SendAndToken(send: "s3", token: "device:\($0)"), 1) }
            #expect(accepted == Dictionary(uniqueKeysWithValues: expected))
        }
    }

    @Test func newAppsMayRegister() async throws {
        try await withSimulator { simulator in
            #expect(simulator.signingKeyPEM(app: "other") == nil)
            let app = SimulatedApp(name: "other", bundleID: "example.other", keyID: "OTHERKEY01", projectID: "other")
            try simulator.register([app])
            #expect(simulator.signingKeyPEM(app: "other") != simulator.signingKeyPEM(app: "demo"))
            #expect(simulator.serviceAccountJSON(app: "other")?.contains("other.iam") == true)
        }
    }

    @Test func aTakenPortIsAnErrorAndNothingIsLeftBehind() async throws {
        try await withSimulator { simulator in
            var configuration = SimulatorConfiguration()
            configuration.apnsPort = simulator.addresses.apnsPort
            await #expect(throws: SimulatorError.self) { _ = try await Simulator.start(configuration) }
        }
    }

    @Test func stoppingEndsConnections() async throws {
        let simulator = try await Simulator.start()
        let client = try await self.connect(simulator, simulator.addresses.apnsPort)
        await simulator.stop()
        let request = LoopbackClient.Request(template: try Requests.apns(), token: Requests.token(1))
        #expect(try await client.send(request) == .lost)
    }
}
