import ApusCore
import ApusTLS
import ApusTestKit
import Testing

@testable import ApusRegistration

/// Web pages of other origins call the API, and read the key that browsers subscribe with.
@Suite struct CrossOriginTests {
    private static let page = "https://shop.example"
    private static let key = "BA1Hxzyi1RUM1b5wjxsn7nGxAszw2u61m164i3MrAIxHF6YK5h4SDYic-dRuU_RCPCfA5aq9ojSwk5Y2EmClBPs"

    private static func with(_ body: @escaping @Sendable (Fixture) async throws -> Void) async throws {
        let key = try PrivateKey.generate(.p256).pem
        let folder = try TemporaryFolder()
        try folder.write("vapid.pem", key)
        try await Fixture.with(
            shop: """
                    cors_origins: ["\(Self.page)", "http://localhost:3000"]
                    webpush:
                      key_file: \(folder.path)/vapid.pem
                      public_key: \(Self.key)
                      subject: "mailto:push@shop.example"
                      hosts: [push.example]
                """,
            body
        )
        _ = folder
    }

    private static func preflight(_ fixture: Fixture, _ origin: String, _ path: String) async throws -> Answer {
        try await fixture.ask(
            "OPTIONS",
            path,
            key: nil,
            [
                ("origin", origin), ("access-control-request-method", "PUT"),
                ("access-control-request-headers", "authorization,content-type"),
            ]
        )
    }

    @Test func `A page of a named origin may call the API of its app, and no other page may`() async throws {
        try await Self.with { fixture in
            for origin in [Self.page, "http://localhost:3000"] {
                let answer = try await Self.preflight(fixture, origin, Fixture.path("d1"))
                #expect(answer.status == 204)
                #expect(answer.header("access-control-allow-origin") == origin)
                #expect(answer.header("access-control-allow-methods") == "GET, PUT, PATCH, DELETE")
                #expect(answer.header("access-control-allow-headers")?.contains("authorization") == true)
                #expect(answer.header("access-control-allow-credentials") == nil)
                #expect(answer.header("vary") == "Origin")
            }
            let strangers = [
                "https://evil.example", "https://shop.example.evil.example", "http://shop.example", "null",
            ]
            for origin in strangers {
                let answer = try await Self.preflight(fixture, origin, Fixture.path("d1"))
                #expect(answer.status == 204 && answer.header("allow") == "GET, PUT, PATCH, DELETE")
                #expect(answer.header("access-control-allow-origin") == nil)
                #expect(answer.header("access-control-allow-methods") == nil)
                #expect(answer.header("vary") == "Origin")
            }
            // An app without origins, and one that is not there.
            for app in ["news", "nobody"] {
                let answer = try await Self.preflight(fixture, Self.page, Fixture.path("d1", app: app))
                #expect(answer.status == 204 && answer.header("access-control-allow-origin") == nil)
                #expect(answer.header("vary") == nil)
            }
            #expect(try await Self.preflight(fixture, Self.page, "/v1/nothing").status == 404)
        }
    }

    @Test func `Answers and problems can be read by the page that asked`() async throws {
        try await Self.with { fixture in
            let path = Fixture.path("d1")
            let registration = #"{"provider":"fcm","token":"fcm-token-1"}"#
            for (key, origin, status, isReadable, varied) in [
                (Fixture.shopKey, Self.page, 201, true, "Accept, Origin"), ("wrong", Self.page, 401, true, "Origin"),
                (Fixture.shopKey, "https://evil.example", 200, false, "Accept, Origin"),
            ] {
                let answer = try await fixture.ask("PUT", path, registration, key: key, [("origin", origin)])
                #expect(answer.status == status)
                #expect((answer.header("access-control-allow-origin") == origin) == isReadable)
                #expect((answer.header("access-control-expose-headers")?.contains("etag") == true) == isReadable)
                #expect(answer.header("vary") == varied)
            }
            // A cache keeps both reasons for an answer that says nothing new, too.
            let headers = [("origin", Self.page), ("if-none-match", "*")]
            let known = try await fixture.ask("GET", path, nil, headers)
            #expect(known.status == 304 && known.header("vary") == "Accept, Origin")
        }
    }

    @Test func `Anybody gets the key that browsers subscribe with, if the configuration names it`() async throws {
        try await Self.with { fixture in
            let answer = try await fixture.ask("GET", "/v1/apps/shop/webpush/key", key: nil, [("origin", Self.page)])
            #expect(answer.status == 200)
            #expect(answer.text == "{\"application_server_key\":\"\(Self.key)\"}\n")
            #expect(answer.header("cache-control") == "public, max-age=300")
            #expect(answer.header("access-control-allow-origin") == Self.page)
            for app in ["news", "nobody", "UPPER"] {
                #expect(try await fixture.ask("GET", "/v1/apps/\(app)/webpush/key", key: nil).status == 404)
            }
            #expect(try await fixture.ask("PUT", "/v1/apps/shop/webpush/key", "{}").status == 405)
        }
    }

    @Test func `The hosts that an app names are taken for that app alone, on every way in`() async throws {
        let point = try #require(try PrivateKey.generate(.p256).publicKey.uncompressedPoint)
        let body =
            #"{"provider":"webpush","subscription":{"endpoint":"https://push.example/1","keys":{"p256dh":""#
            + Base64URL.encode(point) + #"","auth":""# + Base64URL.encode([UInt8](repeating: 7, count: 16)) + #""}}}"#
        try await Self.with { fixture in
            #expect(try await fixture.ask("PUT", Fixture.path("w1"), body).status == 201)
            let news = try await fixture.ask("PUT", Fixture.path("w1", app: "news"), body, key: Fixture.newsKey)
            #expect(news.status == 422 && news.text.contains("webpush.hosts"))
            let line = body.replacing("{\"provider\"", with: "{\"device\":\"w2\",\"provider\"")
            let lines = try await fixture.ask(
                "POST",
                "/v1/apps/shop/devices:import",
                line + "\n",
                [("content-type", "application/x-ndjson")]
            )
            #expect(lines.status == 200 && lines.text.contains("\"status\":201"), "\(lines.text)")
        }
    }
}
