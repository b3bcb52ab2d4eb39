import ApusCore
import ApusHTTP2
import ApusProviders
import NIOCore
import Testing

/// The gateway against a provider over TLS on this machine. Every test counts that each submission has exactly one answer.
@Suite(.timeLimit(.minutes(2))) struct GatewayTests {
    @Test("thousands of requests are accepted, with path, id, credential and body as they should be")
    func happyPath() async throws {
        let wrong = Tally()
        let provider = try await FakeProvider.start { connection, request in
            let hex = String(repeating: "ab", count: 32)
            let isRight =
                request.path == "/3/device/\(hex)" && request.value(of: "authorization") == "bearer token"
                && request.value(of: "apns-id")?.hasPrefix("00000000-0000-0001-0000-") == true
                && request.value(of: "apns-topic") == "com.example.app" && request.authority == "localhost"
                && String(decoding: request.body, as: UTF8.self).contains("Hello")
            if !isRight { wrong.add() }
            connection.respond(request, 200)
        }
        let gateway = try await TestGateway.start(provider, credential: FixedCredential(), total: 5_000)
        try await gateway.finished.get()
        try await gateway.look { traffic in
            #expect(traffic.count(.accepted) == 5_000)
            #expect(traffic.isExact)
            #expect(traffic.gateway.status.counts.accepted == 5_000)
            #expect(traffic.gateway.status.isReady)
            #expect(traffic.gateway.inFlight == 0)
        }
        #expect(wrong.count == 0)
        try await gateway.drain()
        try await provider.stop()
    }

    @Test("D1 D2 D3 the id that the answer names is kept, and Apple's own of the sandbox behind it")
    func ids() async throws {
        let provider = try await FakeProvider.start { connection, request in
            var headers: [HeaderField] = []
            let id = request.value(of: "apns-id") ?? ""
            switch id.suffix(1) {
            case "1": headers = [try? HeaderField("apns-id", id)].compactMap(\.self)
            case "2":
                headers = [try? HeaderField("apns-id", id), try? HeaderField("apns-unique-id", "aaaa-bb")]
                    .compactMap(\.self)
            default: break
            }
            connection.handler?.respond(to: request.streamID, HTTP2Response(status: 200, headers: headers))
        }
        let gateway = try await TestGateway.start(provider, credential: FixedCredential(), total: 4)
        try await gateway.finished.get()
        try await gateway.look { traffic in
            #expect(traffic.count(.accepted) == 4 && traffic.isExact)
            let ids = Set(traffic.ids.values)
            #expect(ids.contains(""))
            #expect(ids.contains { $0.hasSuffix("1") && $0.utf8.count == 36 })
            #expect(ids.contains { $0.hasSuffix("2/aaaa-bb") && $0.utf8.count == 44 })
        }
        try await gateway.drain()
        try await provider.stop()
    }

    @Test("FCM: the token stands in the body, and the message's name is the id")
    func fcm() async throws {
        let provider = try await FakeProvider.start { connection, request in
            let isRight =
                request.path == "/v1/projects/example-project/messages:send"
                && String(decoding: request.body, as: UTF8.self).contains(#""token":"token:1""#)
            connection.respond(request, isRight ? 200 : 400, #"{"name":"projects/example-project/messages/7"}"#)
        }
        let gateway = try await TestGateway.start(
            provider,
            credential: FixedCredential(),
            total: 10,
            lane: .express,
            as: .fcm,
        )
        try await gateway.finished.get()
        try await gateway.look { traffic in
            #expect(traffic.count(.accepted) == 10)
            #expect(traffic.ids[3] == "projects/example-project/messages/7")
            #expect(traffic.isExact)
        }
        try await gateway.drain()
        try await provider.stop()
    }
}
