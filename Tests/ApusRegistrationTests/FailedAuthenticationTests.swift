import ApusCore
import ApusTestKit
import Testing

/// The limit of failed authentications of one client address.
@Suite struct FailedAuthenticationTests {
    private static let limit = "  failed_authentications_per_minute: 1"
    private static let path = Fixture.path("d1")

    /// Asks with a wrong token until the answer is not 401 any more.
    private func exhaust(_ fixture: Fixture) async throws -> Answer {
        for _ in 0..<200 {
            let answer = try await fixture.ask("GET", Self.path, key: "a.b.c")
            if answer.status != 401 { return answer }
        }
        throw Unlimited()
    }

    private struct Unlimited: Error {}

    @Test func `An address that fails too often is told to wait, whatever it shows`() async throws {
        try await Fixture.with(settings: Self.limit) { fixture in
            let refused = try await self.exhaust(fixture)
            #expect(refused.status == 429)
            let seconds = try #require(refused.header("retry-after").flatMap { Int($0) })
            #expect((1...60).contains(seconds))
            #expect(refused.header("www-authenticate") == nil)
            #expect(try member(refused, "type") == "urn:apus:problem:too-many-requests")
            let id = ("x-request-id", "same")
            let new = try Fixture.token("anna")
            for key in ["wrong", "a.b.c", new, try Fixture.token("anna", expiresIn: -600)] {
                _ = try await self.exhaust(fixture)
                let there = try await fixture.ask("GET", Self.path, key: key, [id])
                let notThere = try await fixture.ask("GET", Fixture.path("d1", app: "nowhere"), key: key, [id])
                #expect(there.status == 429, "\(key)")
                #expect(there.text == notThere.text)
            }
            let metrics = try await fixture.metrics
            #expect(!metrics.contains("apus_registration_auth_failures_total{cause=\"limited\"} 0\n"))
            #expect(metrics.contains("apus_registration_rejected_total{cause=\"rate\"} 0\n"))
        }
    }

    @Test func `Keys, and tokens that were accepted before, are not held up by it`() async throws {
        try await Fixture.with(settings: Self.limit) { fixture in
            let (known, new) = (try Fixture.token("anna"), try Fixture.token("bert"))
            #expect(try await fixture.ask("GET", Self.path, key: known).status == 404)
            _ = try await self.exhaust(fixture)
            for _ in 0..<20 { #expect(try await fixture.ask("GET", Self.path).status == 404) }
            #expect(try await fixture.ask("GET", Self.path, key: known).status == 404)
            _ = try await self.exhaust(fixture)
            #expect(try await fixture.ask("GET", Self.path, key: new).status == 429)
            // A key that may not do it is refused as ever, and so is a request that shows nothing.
            #expect(try await fixture.ask("GET", Self.path, key: Fixture.publishKey).status == 403)
            #expect(try await fixture.ask("GET", Self.path, key: nil).status == 401)
        }
    }

    @Test func `Requests without credentials and refused roles are not counted`() async throws {
        try await Fixture.with(settings: Self.limit) { fixture in
            let token = try Fixture.token("anna")
            for _ in 0..<10 {
                #expect(try await fixture.ask("GET", Self.path, key: nil).status == 401)
                #expect(try await fixture.ask("GET", Self.path, key: Fixture.publishKey).status == 403)
            }
            #expect(try await fixture.ask("GET", Self.path, key: token).status == 404)
        }
    }

    @Test func `Behind a proxy no address is limited unless the configuration says so`() async throws {
        try await Fixture.with { fixture in
            let connection = try await fixture.connect()
            var statuses: [Int: Int] = [:]
            for _ in 0..<700 {
                let answer = try await connection.ask("GET", Self.path, [("authorization", "Bearer a.b.c")])
                statuses[answer.status, default: 0] += 1
            }
            #expect(statuses == [401: 700])
            await connection.close()
        }
    }
}
