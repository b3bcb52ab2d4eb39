import ApusCore
import ApusHTTP2
import ApusSimulator
import NIOCore
import NIOPosix
import Testing

/// Says one HTTP/1.1 request and reads until the server closes.
enum ControlClient {
    struct Answer: Sendable {
        let status: Int
        let head: String
        let body: String

        var lines: [Substring] { self.body.split(separator: "\n") }
    }

    /// `connection: close` ends the answer; the pieces of a chunked one are put together.
    static func request(_ method: String, _ path: String, body: String = "", port: Int?) async throws -> Answer {
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .connect(host: "127.0.0.1", port: try #require(port)) { channel in
                channel.eventLoop.makeCompletedFuture {
                    try NIOAsyncChannel<ByteBuffer, ByteBuffer>(wrappingChannelSynchronously: channel)
                }
            }
        var text = ""
        try await channel.executeThenClose { inbound, outbound in
            let head =
                "\(method) \(path) HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
                + "content-length: \(body.utf8.count)\r\n\r\n"
            try await outbound.write(ByteBuffer(string: head + body))
            for try await bytes in inbound { text += String(buffer: bytes) }
        }
        let parts = text.split(separator: "\r\n\r\n", maxSplits: 1, omittingEmptySubsequences: false)
        let head = String(parts[0])
        let status = Int(head.split(separator: " ")[1]) ?? 0
        let raw = parts.count == 2 ? String(parts[1]) : ""
        let isChunked = head.lowercased().contains("transfer-encoding: chunked")
        return Answer(status: status, head: head, body: isChunked ? Self.joined(raw) : raw)
    }

    private static func joined(_ chunked: String) -> String {
        var rest = Array(chunked.utf8)[...]
        var body: [UInt8] = []
        while let end = rest.firstIndex(of: 0x0d),
            let count = Int(String(decoding: rest[..<end], as: UTF8.self), radix: 16), count > 0
        {
            body += rest[(end + 2)..<(end + 2 + count)]
            rest = rest[(end + 2 + count + 2)...]
        }
        return String(decoding: body, as: UTF8.self)
    }
}

@Suite struct ControlTests {
    private static let now = SystemClock().now().seconds

    private func ask(
        _ simulator: Simulator,
        _ method: String,
        _ path: String,
        _ body: String = "",
    ) async throws -> ControlClient.Answer {
        try await ControlClient.request(method, path, body: body, port: simulator.addresses.controlPort)
    }

    @Test func theLedgerIsStreamedWhole() async throws {
        try await withSimulator(configured { $0.isBlind = true }) { simulator in
            let client = try await LoopbackClient.connect(
                port: try #require(simulator.addresses.apnsPort),
                authorityPEM: simulator.authorityPEM,
            )
            let template = try Requests.apns(send: "s1")
            let requests = (0..<10_000).map { LoopbackClient.Request(template: template, token: Requests.token($0)) }
            #expect(try await client.send(requests).allSatisfy { $0.status == 200 })
            try await client.close()

            let ledger = try await self.ask(simulator, "GET", "/ledger")
            #expect(ledger.status == 200)
            #expect(ledger.lines.count == 10_000)
            let tokens = try ledger.lines.map { line in
                try JSONValue(parsing: Array(line.utf8), bytesMax: 1_000)["token"]?.string ?? ""
            }
            #expect(Set(tokens) == Set((0..<10_000).map { Hexadecimal.encode(Requests.token($0)) }))
            let one = Hexadecimal.encode(Requests.token(77))
            #expect(try await self.ask(simulator, "GET", "/ledger?provider=apns&token=\(one)").lines.count == 1)
            #expect(try await self.ask(simulator, "GET", "/ledger?send=s2").lines.isEmpty)
            #expect(try await self.ask(simulator, "GET", "/ledger?limit=3").lines.count == 3)

            let sends = try await self.ask(simulator, "GET", "/sends")
            #expect(sends.lines.count == 1)
            #expect(sends.body.hasPrefix(#"{"send":"s1","requests":10000,"accepted":10000,"repeated":0,"#))
            let summary = try await self.ask(simulator, "GET", "/summary")
            #expect(summary.body.hasPrefix(#"{"entries":10000,"apns":{"200":10000},"#))

            #expect(try await self.ask(simulator, "POST", "/reset").status == 200)
            #expect(try await self.ask(simulator, "GET", "/ledger").body.isEmpty)
        }
    }

    @Test func tokensAreDeclaredAndFaultsOrdered() async throws {
        try await withSimulator { simulator in
            let order = """
                {"provider": "fcm", "dead": [{"token": "d", "at": 5}], "bad": ["b"], "foreign": ["f"], "alive": ["a"],
                 "share": 1, "seed": 3}
                """
            #expect(try await self.ask(simulator, "POST", "/dead", order).status == 200)
            #expect(["d", "b", "f", "x"].allSatisfy { simulator.isDead($0, provider: .fcm) })
            #expect(!simulator.isDead("a", provider: .fcm))

            let faults = #"{"scripts":[{"route":"oauth","count":1,"fault":{"status":502,"body":"<html>"}}]}"#
            #expect(try await self.ask(simulator, "POST", "/faults", faults).status == 200)
            let client = try await LoopbackClient.connect(
                port: try #require(simulator.addresses.fcmPort),
                authorityPEM: simulator.authorityPEM,
            )
            let request = LoopbackClient.Request(template: try Requests.oauth(simulator, now: Self.now))
            #expect(try await client.send(request) == .answered(status: 502, body: "<html>", retryAfter: nil))
            #expect(try await client.send(request).status == 200)
            try await client.close()

            #expect(try await self.ask(simulator, "POST", "/reset").status == 200)
            #expect(!simulator.isDead("d", provider: .fcm) || DeadShare(1, seed: 3).contains("d", provider: .fcm))
        }
    }

    @Test func nonsenseIsRefused() async throws {
        try await withSimulator { simulator in
            let table = [
                ("GET", "/", "", 404), ("PUT", "/summary", "", 405), ("GET", "/ledger?status=x", "", 400),
                ("GET", "/ledger?limit=%", "", 400), ("POST", "/faults", "{", 400), ("POST", "/dead", "[]", 400),
                ("POST", "/dead", #"{"dead":[]}"#, 400), ("POST", "/dead", #"{"provider":"fcm","dead":["t"]}"#, 400),
                ("POST", "/dead", #"{"provider":"fcm","bad":[5]}"#, 400), ("POST", "/dead", #"{"share":2}"#, 400),
                ("POST", "/dead", #"{"typo":1}"#, 400), ("POST", "/faults", #"{"apns":{"drop":2}}"#, 400),
            ]
            for (method, path, body, status) in table {
                let answer = try await self.ask(simulator, method, path, body)
                #expect(answer.status == status, "\(method) \(path) \(body)")
            }
        }
    }

    @Test func theAuthorityIsHandedOut() async throws {
        try await withSimulator { simulator in
            let answer = try await self.ask(simulator, "GET", "/ca.pem")
            #expect(answer.body == simulator.authorityPEM)
        }
    }
}
