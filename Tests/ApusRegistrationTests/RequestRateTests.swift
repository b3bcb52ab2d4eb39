import ApusCore
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusStore
import ApusStreams
import ApusTestKit
import NIOCore
import Testing

@testable import ApusRegistration

@Suite struct RequestRateTests {
    /// The requests of a hundred that pass.
    private static func passed(_ check: () throws -> Void) -> Int {
        var passed = 0
        for _ in 0..<100 where (try? check()) != nil { passed += 1 }
        return passed
    }

    @Test func `Users, backends and homeservers take nothing from each other's rate of an app`() throws {
        let rates = RequestRates(.init(perApp: 1, perPushKey: 1_000))
        let shop = try AppID("shop")
        let (ann, bob) = (Caller.user(try UserID("ann")), Caller.user(try UserID("bob")))
        #expect((2...3).contains(Self.passed { try rates.check(shop, ann) }))
        #expect(Self.passed { try rates.check(shop, bob) } <= 1, "users have one rate together")
        #expect((2...3).contains(Self.passed { try rates.checkPushKey(of: "d", shop) }))
        let backend = Caller.backend(key: "k", role: .register)
        #expect((2...3).contains(Self.passed { try rates.check(shop, backend) }))
        #expect((2...3).contains(Self.passed { try rates.checkPushKey(of: "d", try AppID("news")) }))
    }

    @Test func `Homeservers are limited by their address and by push key`() throws {
        let rates = RequestRates(.init(perHomeserver: 1, perPushKey: 1))
        let shop = try AppID("shop")
        for address in ["192.0.2.1", "192.0.2.2"] {
            let client = AddressCounts.Address(try SocketAddress(ipAddress: address, port: 1))
            #expect((2...3).contains(Self.passed { try rates.checkHomeserver(client) }))
        }
        #expect(Self.passed { try rates.checkHomeserver(nil) } == 100)
        for device in ["a", "b"] {
            #expect((2...3).contains(Self.passed { try rates.checkPushKey(of: device, shop) }))
        }
    }

    @Test func `Each device of a homeserver's request counts, and so does each push key that nobody has`() throws {
        let rates = RequestRates(.init(perHomeserver: 1, perPushKey: 1))
        let client = try #require(AddressCounts.Address(try SocketAddress(ipAddress: "192.0.2.1", port: 1)))
        try rates.checkHomeserver(client)
        try rates.checkDevices(100, of: client)
        let refusal = #expect(throws: ProblemDetails.self) { try rates.checkHomeserver(client) }
        #expect(refusal?.kind == .tooManyRequests && (50...99).contains(refusal?.retryAfterSeconds ?? 0))
        #expect(throws: ProblemDetails.self) { try rates.checkDevices(2, of: client) }
        #expect(Self.passed { try rates.checkDevices(100, of: nil) } == 100)

        // An app without a rate has one for invented keys all the same, which costs a device nothing.
        let (shop, news) = (try AppID("shop"), try AppID("news"))
        #expect(Self.passed { try rates.checkUnknownPushKey(of: shop) } == 100)
        let isLimited = (0..<100_000).contains { _ in (try? rates.checkUnknownPushKey(of: shop)) == nil }
        #expect(isLimited)
        try rates.checkPushKey(of: "a", shop)
        try rates.checkUnknownPushKey(of: news)
        let slow = RequestRates(.init(perApp: 1))
        #expect((2...3).contains(Self.passed { try slow.checkUnknownPushKey(of: shop) }))
        #expect((2...3).contains(Self.passed { try slow.checkPushKey(of: "a", shop) }))
    }

    @Test func `The devices of one request pass together, however many, while the app uses nothing else`() throws {
        let shop = try AppID("shop")
        let rates = RequestRates(.init(perApp: 1, perPushKey: 1_000))
        for index in 0..<MatrixBody.devicesMax { try rates.checkPushKey(of: "d\(index)", shop, counted: index) }
        let refusal = #expect(throws: ProblemDetails.self) { try rates.checkPushKey(of: "e", shop) }
        #expect((50...99).contains(refusal?.retryAfterSeconds ?? 0))
    }

    @Test func `A user may ask to be forgotten a few times, and then ever so often`() throws {
        let rates = RequestRates(.init())
        let shop = try AppID("shop")
        for name in ["ann", "bob"] {
            let user = Caller.user(try UserID(name))
            #expect(Self.passed { try rates.checkRemoval(shop, user) } == APILimits.userRemovalsAtOnce)
        }
        let refusal = #expect(throws: ProblemDetails.self) { try rates.checkRemoval(shop, .user(UserID("ann"))) }
        #expect((9...10).contains(refusal?.retryAfterSeconds ?? 0))
        #expect(Self.passed { try rates.checkRemoval(shop, .backend(key: "k", role: .admin)) } == 100)
    }

    @Test func `Users who ask to be forgotten again and again are told to wait`() async throws {
        try await Fixture.with { fixture in
            let key = try Fixture.token("anna")
            var statuses: [Int] = []
            for _ in 0...APILimits.userRemovalsAtOnce {
                statuses.append(Int(try await fixture.ask("DELETE", "/v1/apps/shop/users/anna", key: key).status))
            }
            #expect(statuses == [204, 204, 204, 429])
            #expect(try await fixture.ask("DELETE", "/v1/apps/shop/users/anna").status == 204)
        }
    }

    @Test func `Users who use up their rate leave their app's backends theirs`() async throws {
        try await Fixture.with(settings: "  app_rate_per_second: 1") { fixture in
            var statuses: [Int] = []
            for index in 0..<200 where statuses.last != 429 {
                let key = try Fixture.token("user-\(index)")
                statuses.append(try await Int(fixture.ask("GET", Fixture.path("d1"), key: key).status))
            }
            #expect(statuses.last == 429)
            #expect(try await fixture.ask("GET", Fixture.path("d1")).status == 404)
        }
    }

    @Test func aUserWhoAsksTooOftenWaitsAndNobodyElse() async throws {
        try await Fixture.with(settings: "  client_rate_per_second: 1") { fixture in
            let (anna, bert) = (try Fixture.token("anna"), try Fixture.token("bert"))
            var refused: Answer?
            for _ in 0..<200 where refused == nil {
                let answer = try await fixture.ask("GET", Fixture.path("d1"), key: anna)
                if answer.status != 404 { refused = answer }
            }
            let answer = try #require(refused)
            #expect(answer.status == 429)
            #expect(answer.header("retry-after") == "1")
            #expect(try member(answer, "type") == "urn:apus:problem:too-many-requests")
            #expect(try await fixture.ask("GET", Fixture.path("d1"), key: bert).status == 404)
            for _ in 0..<20 { #expect(try await fixture.ask("GET", Fixture.path("d1")).status == 404) }
            #expect(try await fixture.metrics.contains("apus_registration_rejected_total{cause=\"rate\"} 1\n"))
            try await eventually("the user may ask again") {
                try await fixture.ask("GET", Fixture.path("d1"), key: anna).status == 404
            }
        }
    }

    @Test func anAppThatAsksTooOftenHoldsNoOther() async throws {
        try await Fixture.with(settings: "  app_rate_per_second: 1") { fixture in
            var statuses: [Int] = []
            for _ in 0..<200 where statuses.last != 429 {
                statuses.append(try await fixture.ask("GET", Fixture.path("d1")).status)
            }
            #expect(statuses.last == 429)
            let news = try await fixture.ask("GET", Fixture.path("d1", app: "news"), key: Fixture.newsKey)
            #expect(news.status == 404)
        }
    }
}
