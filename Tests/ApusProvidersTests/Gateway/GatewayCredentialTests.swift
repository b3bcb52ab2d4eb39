import ApusAPNs
import ApusCore
import ApusFCM
import ApusHTTP2
import ApusProviders
import ApusTLS
import ApusTestKit
import NIOCore
import NIOPosix
import Synchronization
import Testing

/// Credentials and gateways together.
@Suite(.timeLimit(.minutes(2))) struct GatewayCredentialTests {
    /// Holds one token, as Redis does, and counts.
    final class Store: SharedTokenStore {
        let token: Mutex<String?>
        let writes = Tally()

        init(_ token: String? = nil) { self.token = Mutex(token) }

        func read(_ key: String) async -> String? {
            #expect(key == "apus:jwt:DEF123GHIJ:ABC123DEFG")
            return self.token.withLock { $0 }
        }

        func write(_ key: String, _ token: String, after seen: String?, milliseconds: Int64) async -> String? {
            #expect((1...3_600_000).contains(milliseconds))
            return self.token.withLock { held in
                guard held == nil || held == seen else { return held }
                self.writes.add()
                held = token
                return nil
            }
        }
    }

    private static func key() throws -> APNsProviderKey {
        try APNsProviderKey(keyID: "ABC123DEFG", teamID: "DEF123GHIJ", key: .generate(.p256))
    }

    private static func credential(_ key: APNsProviderKey, _ store: Store) -> APNsCredential {
        APNsCredential(key: key, store: store, clock: TestClock(), logger: quiet)
    }

    @Test("one token for all event loops, left where other dispatchers find it")
    func oneToken() async throws {
        let seen = Mutex(Set<String>())
        let provider = try await FakeProvider.start { connection, request in
            _ = seen.withLock { $0.insert(request.value(of: "authorization") ?? "") }
            connection.respond(request, 200)
        }
        let store = Store()
        let credential = try Self.credential(Self.key(), store)
        var gateways: [TestGateway] = []
        for _ in 0..<4 {
            gateways.append(try await TestGateway.start(provider, credential: credential, total: 50))
        }
        for gateway in gateways {
            try await gateway.finished.get()
            try await gateway.look { #expect($0.isExact && $0.count(.accepted) == 50) }
            try await gateway.drain()
        }
        let shared = try #require(store.token.withLock { $0 })
        #expect(seen.withLock { $0 } == ["bearer \(shared)"])
        #expect(store.writes.count == 1)
        try await provider.stop()
    }

    @Test(
        "dispatchers that start together, or find the token expired together, use one token all",
        arguments: [nil, 1_300_000] as [Int64?]
    )
    func together(age: Int64?) async throws {
        let key = try Self.key()
        let old = try age.map { try key.sign(issuedAt: TestClock().now().advanced(byMilliseconds: -$0)).text }
        let store = Store(old)
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let credentials = (0..<20).map { _ in Self.credential(key, store) }
        let headers = try await withThrowingTaskGroup(of: String?.self) { group in
            for credential in credentials {
                group.addTask {
                    var grant = try await credential.grant(on: loop).get()
                    // A dispatcher that comes after another has renewed it begins with the new one.
                    if let old, case .usable(let stale, _) = grant, stale.text == "bearer \(old)" {
                        grant = try await credential.rejected(stale, on: loop).get()
                    }
                    guard case .usable(let header, _) = grant else { return nil }
                    return header.text
                }
            }
            var headers: [String?] = []
            for try await header in group { headers.append(header) }
            return headers
        }
        let left = try #require(store.token.withLock { $0 })
        #expect(left != old && store.writes.count == 1)
        #expect(headers.count == 20 && Set(headers) == ["bearer \(left)"])
    }

    @Test("another key of the same id does not push out the token that dispatchers share")
    func candidate() async throws {
        let shared = try Self.key().sign(issuedAt: TestClock().now()).text
        let store = Store(shared)
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let grant = try await Self.credential(Self.key(), store).grant(on: loop).get()
        guard case .usable(let header, _) = grant else {
            Issue.record("no token")
            return
        }
        #expect(header.text != "bearer \(shared)")
        #expect(store.writes.count == 0 && store.token.withLock { $0 } == shared)
    }

    @Test("a token that another dispatcher signed is used, and none is signed")
    func sharedToken() async throws {
        let key = try Self.key()
        let shared = try key.sign(issuedAt: TestClock().now().advanced(byMilliseconds: -60_000)).text
        let provider = try await FakeProvider.start { connection, request in
            connection.respond(request, request.value(of: "authorization") == "bearer \(shared)" ? 200 : 400)
        }
        let store = Store(shared)
        let gateway = try await TestGateway.start(provider, credential: Self.credential(key, store), total: 10)
        try await gateway.finished.get()
        try await gateway.look { #expect($0.count(.accepted) == 10 && $0.isExact) }
        #expect(store.writes.count == 0)
        try await gateway.drain()
        try await provider.stop()
    }

    @Test("D10 a hundred answers ExpiredProviderToken on many loops bring one new token, and all is sent again")
    func expired() async throws {
        let key = try Self.key()
        let old = try key.sign(issuedAt: TestClock().now().advanced(byMilliseconds: -1_300_000)).text
        let expired = Tally()
        let seen = Mutex(Set<String>())
        let provider = try await FakeProvider.start { connection, request in
            let header = request.value(of: "authorization") ?? ""
            _ = seen.withLock { $0.insert(header) }
            guard header == "bearer \(old)" else { return connection.respond(request, 200) }
            // The first ones are accepted, so that many are on the wire when the token expires.
            guard connection.requests > 1 else { return connection.respond(request, 200) }
            expired.add()
            connection.respond(request, 403, #"{"reason":"ExpiredProviderToken"}"#)
        }
        let store = Store(old)
        let credential = Self.credential(key, store)
        var gateways: [TestGateway] = []
        for _ in 0..<4 { gateways.append(try await TestGateway.start(provider, credential: credential, total: 200)) }
        for gateway in gateways {
            try await gateway.finished.get()
            try await gateway.look { #expect($0.count(.accepted) == 200 && $0.isExact) }
            try await gateway.drain()
        }
        #expect(expired.count >= 100)
        #expect(store.writes.count == 1)
        #expect(seen.withLock { $0.count } == 2)
        try await provider.stop()
    }

    @Test func `A token from the future stays shared, because our own clock may be slow`() async throws {
        let key = try Self.key()
        let shared = try key.sign(issuedAt: TestClock().now().advanced(byMilliseconds: 7_200_000)).text
        let store = Store(shared)
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        guard case .usable(let header, _) = try await Self.credential(key, store).grant(on: loop).get() else {
            Issue.record("no token")
            return
        }
        #expect(header.text != "bearer \(shared)")
        #expect(store.writes.count == 0 && store.token.withLock { $0 } == shared)
    }

    @Test("D11 a fresh token called expired holds this gateway and no other dispatcher's: no second one, and no storm")
    func expiredAgain() async throws {
        let requests = Tally()
        let provider = try await FakeProvider.start { connection, request in
            requests.add()
            connection.respond(request, 403, #"{"reason":"ExpiredProviderToken"}"#)
        }
        let store = Store()
        let gateway = try await TestGateway.start(
            provider,
            credential: try Self.credential(Self.key(), store),
            total: 3_000
        )
        try await gateway.until { !$0.faults.isEmpty && $0.gateway.inFlight == 0 }
        try await gateway.look { traffic in
            // All go out again when the clock is right.
            #expect(traffic.outcomes.isEmpty && traffic.isExact && traffic.holds.isEmpty)
            #expect(traffic.faults.allSatisfy { $0.hasPrefix(CredentialGrant.wrongClock) })
            #expect(traffic.gateway.fault?.detail.hasPrefix(CredentialGrant.wrongClock) == true)
            #expect(!traffic.gateway.hasRoom(.bulk) && !traffic.gateway.status.isHeld)
        }
        #expect(store.writes.count == 1)
        #expect(requests.count <= 10)
        try await gateway.drain()
        try await provider.stop()
    }

    @Test("D12 with a refused key nothing goes out until somebody has fixed it; then one request at first")
    func refusedKey() async throws {
        let isFixed = Atomic(false)
        let refused = Tally()
        let provider = try await FakeProvider.start { connection, request in
            if isFixed.load(ordering: .acquiring) { return connection.respond(request, 200) }
            refused.add()
            connection.respond(request, 403, #"{"reason":"InvalidProviderToken"}"#)
        }
        let gateway = try await TestGateway.start(provider, credential: FixedCredential(), total: 500)
        try await gateway.until { $0.gateway.status.isHeld && $0.gateway.inFlight == 0 }
        try await gateway.look { traffic in
            #expect(traffic.holds == ["InvalidProviderToken"] && traffic.isExact)
            #expect(traffic.count(.misconfigured(.credential)) == traffic.outcomes.count)
        }
        #expect(refused.count <= 4)
        // Let go on too early it is held again, after a request or two.
        try await gateway.look { $0.gateway.restored() }
        try await gateway.until { $0.gateway.status.isHeld && $0.gateway.inFlight == 0 && $0.holds.count == 2 }
        #expect(refused.count <= 8)
        isFixed.store(true, ordering: .releasing)
        let refusedBefore = try await gateway.look { traffic in
            traffic.gateway.restored()
            return traffic.outcomes.count
        }
        try await gateway.until { $0.outcomes.count == 500 && $0.gateway.inFlight == 0 }
        try await gateway.look { #expect($0.count(.accepted) == 500 - refusedBefore && $0.isExact) }
        try await gateway.drain()
        try await provider.stop()
    }

    @Test("D35 two teams in one process: no connection ever sees tokens of both")
    func twoTeams() async throws {
        let seen = Mutex<[Int: Set<String>]>([:])
        let provider = try await FakeProvider.start { connection, request in
            let header = request.value(of: "authorization") ?? ""
            let claims = header.split(separator: ".").dropFirst().first.flatMap { Base64URL.decode($0) } ?? []
            let team = (try? JSONValue(parsing: claims, bytesMax: 1_000))?["iss"]?.string ?? "none"
            _ = seen.withLock { $0[connection.number, default: []].insert(team) }
            connection.respond(request, 200)
        }
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        var gateways: [TestGateway] = []
        for team in ["TEAM00000A", "TEAM00000B"] {
            let key = try APNsProviderKey(keyID: "ABC123DEFG", teamID: team, key: .generate(.p256))
            let credential = APNsCredential(key: key, store: nil, clock: TestClock(), logger: quiet)
            gateways.append(try await TestGateway.start(provider, credential: credential, total: 1_000, loop: loop))
        }
        for gateway in gateways {
            try await gateway.finished.get()
            try await gateway.look { #expect($0.count(.accepted) == 1_000 && $0.isExact) }
            try await gateway.drain()
        }
        let teams = seen.withLock { $0 }
        #expect(teams.values.allSatisfy { $0.count == 1 })
        #expect(Set(teams.values.joined()) == ["TEAM00000A", "TEAM00000B"])
        try await provider.stop()
    }

    // MARK: FCM

    private static func account(tokenPort: Int) throws -> ServiceAccount {
        let key = Vectors.rsaKeyPEM.replacing("\n", with: "\\n")
        let json = """
            {"type":"service_account","project_id":"example-project","private_key_id":"test-key-1",\
            "private_key":"\(key)","client_email":"push@example-project.iam.gserviceaccount.com",\
            "token_uri":"https://127.0.0.1:\(tokenPort)/token"}
            """
        return try ServiceAccount(json: Array(json.utf8))
    }

    private static func credential(_ tokens: FakeProvider) throws -> FCMCredential {
        let account = try Self.account(tokenPort: tokens.port)
        let address = try #require(WebAddress(https: account.tokenURI))
        let client = AccessTokenClient(
            address: address,
            eventLoop: MultiThreadedEventLoopGroup.singleton.next(),
            tls: tokens.trust,
            logger: quiet,
        )
        return FCMCredential(account: account, source: client, clock: TestClock(), logger: quiet)
    }

    @Test("D75 a thousand waiting requests on many loops bring one question to the token endpoint")
    func singleFlight() async throws {
        let questions = Tally()
        let provider = try await FakeProvider.start { connection, request in
            guard request.path == "/token" else {
                let isRight = request.value(of: "authorization") == "Bearer ya29.token"
                return connection.respond(request, isRight ? 200 : 401)
            }
            questions.add()
            #expect(request.value(of: "content-type") == "application/x-www-form-urlencoded")
            let body = Array(#"{"access_token":"ya29.token","expires_in":3599,"token_type":"Bearer"}"#.utf8)
            connection.handler?.respond(
                to: request.streamID,
                HTTP2Response(status: 200, body: body),
                after: .milliseconds(50),
            )
        }
        let credential = try Self.credential(provider)
        var gateways: [TestGateway] = []
        for _ in 0..<4 {
            gateways.append(try await TestGateway.start(provider, credential: credential, total: 250, as: .fcm))
        }
        for gateway in gateways {
            try await gateway.finished.get()
            try await gateway.look { #expect($0.count(.accepted) == 250 && $0.isExact) }
            try await gateway.drain()
        }
        #expect(questions.count == 1)
        try await provider.stop()
    }

    @Test("D58 UNAUTHENTICATED brings one new token; a second time it pauses")
    func unauthenticated() async throws {
        let questions = Tally()
        let provider = try await FakeProvider.start { connection, request in
            guard request.path == "/token" else {
                return connection.respond(request, 401, #"{"error":{"code":401,"status":"UNAUTHENTICATED"}}"#)
            }
            connection.respond(request, 200, #"{"access_token":"t\#(questions.add())","expires_in":3599}"#)
        }
        let gateway = try await TestGateway.start(
            provider,
            credential: try Self.credential(provider),
            total: 500,
            as: .fcm,
        )
        try await gateway.until { $0.gateway.status.isHeld && $0.gateway.inFlight == 0 }
        try await gateway.look { traffic in
            #expect(traffic.count(.misconfigured(.credential)) == traffic.outcomes.count && traffic.isExact)
            #expect(traffic.holds == ["FCM accepts no token of this account"])
        }
        #expect(questions.count == 2)
        try await gateway.drain()
        try await provider.stop()
    }

    @Test("D76 an account that the token endpoint refuses is paused")
    func refusedAccount() async throws {
        let questions = Tally()
        let provider = try await FakeProvider.start { connection, request in
            questions.add()
            connection.respond(
                request,
                400,
                #"{"error":"invalid_grant","error_description":"Invalid JWT Signature."}"#,
            )
        }
        let gateway = try await TestGateway.start(
            provider,
            credential: try Self.credential(provider),
            total: 50,
            as: .fcm,
        )
        try await gateway.until { $0.gateway.status.isHeld }
        try await gateway.look { traffic in
            #expect(
                traffic.submissions == 0 && traffic.holds.count == 1
                    && traffic.holds[0].contains("Invalid JWT Signature.")
            )
        }
        #expect(questions.count == 1)
        // Mended, the account is asked for anew.
        try await gateway.look { $0.gateway.restored() }
        try await gateway.until { $0.holds.count == 2 }
        #expect(questions.count == 2)
        try await gateway.drain()
        try await provider.stop()
    }

    @Test("D76 a clock that Google calls wrong pauses no account: the gateway says so, and asks again by itself")
    func wrongClock() async throws {
        let corrections = Tally()
        let provider = try await FakeProvider.start { connection, request in
            guard request.path == "/token" else { return connection.respond(request, 200) }
            guard corrections.count > 0 else {
                return connection.respond(
                    request,
                    400,
                    #"{"error":"invalid_grant","error_description":"Invalid JWT: Token must be a short-lived token."}"#,
                )
            }
            connection.respond(request, 200, #"{"access_token":"t","expires_in":3599}"#)
        }
        let gateway = try await TestGateway.start(
            provider,
            credential: try Self.credential(provider),
            total: 20,
            as: .fcm,
        )
        try await gateway.until { $0.gateway.status.connections.open == 2 && $0.gateway.fault != nil }
        let fault = try #require(try await gateway.look { $0.gateway.fault })
        #expect(fault.detail.contains(CredentialGrant.wrongClock) && fault.detail.contains("short-lived"), "\(fault)")
        #expect(try await gateway.look { $0.holds.isEmpty && $0.submissions == 0 })
        corrections.add()
        try await gateway.finished.get()
        try await gateway.look { #expect($0.count(.accepted) == 20 && $0.isExact && $0.gateway.fault == nil) }
        try await gateway.drain()
        try await provider.stop()
    }

    @Test("a token endpoint in trouble is asked again, and requests wait for it: the gateway says why and since when")
    func tokenTrouble() async throws {
        let (questions, corrections) = (Tally(), Tally())
        let provider = try await FakeProvider.start { connection, request in
            guard request.path == "/token" else { return connection.respond(request, 200) }
            questions.add()
            guard corrections.count > 0 else { return connection.respond(request, 503, "<html>") }
            connection.respond(request, 200, #"{"access_token":"t","expires_in":3599}"#)
        }
        let gateway = try await TestGateway.start(
            provider,
            credential: try Self.credential(provider),
            total: 20,
            as: .fcm,
        )
        // Its connections are open.
        try await gateway.until { $0.gateway.status.connections.open == 2 && $0.gateway.fault != nil }
        let first = try #require(try await gateway.look { $0.gateway.fault })
        #expect(first.detail.hasPrefix("no access token: ") && first.detail.contains("503"), "\(first)")
        try await gateway.until { $0.faults.count >= 2 }
        #expect(try await gateway.look { $0.gateway.fault?.since } == first.since)
        #expect(try await gateway.look { $0.gateway.connectFault == nil && $0.submissions == 0 })
        corrections.add()
        try await gateway.finished.get()
        try await gateway.look { #expect($0.count(.accepted) == 20 && $0.isExact && $0.gateway.fault == nil) }
        #expect(questions.count >= 3)
        try await gateway.drain()
        try await provider.stop()
    }
}
