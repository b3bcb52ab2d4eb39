import ApusTestKit
import NIOCore
import Testing

/// Answers that clients ask for and do not read: they count to `registration.memory_limit`.
@Suite struct UnreadAnswerTests {
    private static let request = "GET /openapi.json HTTP/1.1\r\nhost: a\r\n\r\n"

    @Test func `Unread answers take the share of those who have no credentials, and leave that of others`() async throws
    {
        // A quarter is for those without credentials: 4 MiB.
        try await Fixture.with(settings: "  memory_limit: 16777216") { fixture in
            let size = try await fixture.ask("GET", "/openapi.json", key: nil).body.count
            var unread: [HTTPConnection] = []
            var status: Int?
            // Each holds up to the buffer of its connection and one answer more; what sockets take does not count.
            while unread.count < 400, status != 503 {
                let connection = try await HTTPConnection.open(port: fixture.port, isRaw: true) { channel in
                    try channel.syncOptions?.setOption(.autoRead, value: false)
                }
                try? await connection.write(String(repeating: Self.request, count: (16 << 20) / size))
                unread.append(connection)
                status = Int(try await fixture.ask("GET", "/openapi.json", key: nil).status)
            }
            #expect(status == 503, "\(unread.count) connections")
            let refused = try await fixture.ask("GET", "/openapi.json", key: nil)
            #expect(refused.header("retry-after") != nil && refused.text.contains("left unread"))
            #expect(try await fixture.ask("GET", Fixture.path("d1")).status == 404)
            let user = try Fixture.token("ada")
            #expect(try await fixture.ask("GET", Fixture.path("d1"), key: user).status == 404)
            for connection in unread { await connection.close() }
            try await eventually("what they held is given back") {
                try await fixture.ask("GET", "/openapi.json", key: nil).status == 200
            }
        }
    }
}
