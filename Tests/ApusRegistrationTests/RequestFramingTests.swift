import ApusTestKit
import NIOCore
import Testing

@testable import ApusRegistration

/// Requests whose end two servers may see in different places, which would let one client speak in another's name behind a proxy.
@Suite struct RequestFramingTests {
    private static let device = #"{"provider":"fcm","token":"t"}"#
    /// A whole request that registers a device, where it is taken for one.
    private static let hidden =
        Self.head("smuggled", "Content-Length: \(Self.device.utf8.count)") + "\r\n" + Self.device

    /// Returns a request line and headers without the empty line at their end.
    private static func head(_ device: String, _ lines: String...) -> String {
        let first = [
            "PUT \(Fixture.path(device)) HTTP/1.1", "Host: localhost", "Content-Type: application/json",
            "Authorization: Bearer \(Fixture.shopKey)",
        ]
        return (first + lines).map { $0 + "\r\n" }.joined()
    }

    /// A request that must be refused; the name says why.
    struct Request: Sendable, CustomTestStringConvertible {
        let name: String
        let text: String
        var testDescription: String { self.name }
    }

    private static let refused: [Request] = {
        func request(_ name: String, _ lines: String..., body: String) -> Request {
            let head = Self.head("outer") + lines.map { $0 + "\r\n" }.joined()
            return Request(name: name, text: head + "\r\n" + body)
        }
        let chunks = "0\r\n\r\n" + Self.hidden
        let (length, whole) = ("Content-Length: ", Self.hidden.utf8.count)
        return [
            request("a length and chunks", length + "\(whole)", "Transfer-Encoding: chunked", body: chunks),
            request("chunks and a length", "Transfer-Encoding: chunked", length + "5", body: chunks),
            request("two lengths", length + "0", length + "\(whole)", body: Self.hidden),
            request("two lengths in one line", length + "0, \(whole)", body: Self.hidden),
            request("a length with a sign", length + "+\(whole)", body: Self.hidden),
            request("a negative length", length + "-1", body: Self.hidden),
            request("a hexadecimal length", length + "0x10", body: Self.hidden),
            request("a length beyond 64 bits", length + "18446744073709551616", body: Self.hidden),
            request("a coding after chunked", "Transfer-Encoding: chunked, identity", body: chunks),
            request("an unknown coding", "Transfer-Encoding: xchunked", body: chunks),
            request("a space before the colon", "Content-Length : \(whole)", body: Self.hidden),
            request("a bare line feed", "X-A: b\n\(length)\(whole)", body: Self.hidden),
            request("a bare carriage return", "X-A: b\r\(length)\(whole)", body: Self.hidden),
            request("a folded line", "X-A: b", " folded", length + "0", body: Self.hidden),
            request("a zero byte in a header", "X-A: \u{0}", length + "0", body: Self.hidden),
            request("a chunk's size with a sign", "Transfer-Encoding: chunked", body: "+0\r\n\r\n" + Self.hidden),
            request("a chunk's size beyond 64 bits", "Transfer-Encoding: chunked", body: "10000000000000000\r\n"),
            request(
                "a chunk that ends with a bare line feed",
                "Transfer-Encoding: chunked",
                body: "0\n\n" + Self.hidden
            ),
        ]
    }()

    @Test
    func `A request whose end is in doubt is refused, its connection closed, and what follows it never carried out`()
        async throws
    {
        try await Fixture.with { fixture in
            for request in Self.refused {
                let connection = RawConnection()
                let channel = try await connection.connect(port: fixture.port)
                try? await channel.writeAndFlush(ByteBuffer(string: request.text))
                do {
                    try await eventually("the connection of a refused request is closed") { connection.isClosed }
                } catch {
                    Issue.record("\(request.name): the connection stays open after \(connection.answer.prefix(80))")
                    try? await channel.close()
                }
                let answers = connection.answer.split(separator: "HTTP/1.1 ").map { String($0.prefix(3)) }
                #expect(answers.allSatisfy { $0.hasPrefix("4") }, "\(request.name): \(answers)")
                #expect(answers.count <= 1, "\(request.name): \(answers)")
                for device in ["smuggled", "outer"] {
                    let status = try await fixture.ask("GET", Fixture.path(device)).status
                    #expect(status == 404, "\(request.name) has registered \(device)")
                }
            }
            // The hidden request is one that is carried out where it stands alone.
            let connection = RawConnection()
            let channel = try await connection.connect(port: fixture.port)
            try await channel.writeAndFlush(ByteBuffer(string: Self.hidden))
            try await eventually("the request alone is answered") { connection.answer.hasPrefix("HTTP/1.1 201") }
            try await channel.close()
        }
    }

    @Test
    func `Headers are taken up to their limits, one more ends the connection, and so do headers without end`()
        async throws
    {
        func request(_ lines: [String]) -> String {
            let all = ["GET /openapi.json HTTP/1.1", "Host: localhost"] + lines
            return all.map { $0 + "\r\n" }.joined() + "\r\n"
        }
        func line(_ bytes: Int) -> String { "X-A: " + String(repeating: "a", count: bytes) }
        func fields(_ count: Int) -> String { request((0..<count - 1).map { "X-\($0): a" }) }
        let (one, all) = (APILimits.headerFieldBytesMax, APILimits.headerBytesMax)
        let rows: [(name: String, fits: String, exceeds: String)] = [
            ("fields", fields(APILimits.headerFieldsMax), fields(APILimits.headerFieldsMax + 1)),
            ("a field", request([line(one - 100)]), request([line(one + 1)])),
            (
                "all fields", request([line(all / 2), line(all / 2 - 200)]),
                request([line(all / 2), line(all / 2 + 1)])
            ),
            ("no end", request([]), "GET /openapi.json HTTP/1.1\r\nX: " + String(repeating: "a", count: 1 << 20)),
        ]
        try await Fixture.with { fixture in
            for row in rows {
                let connection = RawConnection()
                let channel = try await connection.connect(port: fixture.port)
                try await channel.writeAndFlush(ByteBuffer(string: row.fits))
                try await eventually("\(row.name): it is taken") { connection.answer.hasPrefix("HTTP/1.1 200") }
                try? await channel.close()
                let refused = RawConnection()
                let second = try await refused.connect(port: fixture.port)
                try? await second.writeAndFlush(ByteBuffer(string: row.exceeds))
                try await eventually("\(row.name): the connection is closed") { refused.isClosed }
                #expect(!refused.answer.hasPrefix("HTTP/1.1 2"), "\(row.name): \(refused.answer.prefix(80))")
            }
        }
    }
}
