import ApusCore
import ApusHTTP2
import ApusSimulator
import NIOCore
import NIOPosix
import Testing

/// Sends one HTTP/1.1 request and reads until the server closes.
enum ControlClient {
    struct Answer: Sendable {
        let status: Int
        let head: String
        let body: String

        var lines: [Substring] { self.body.split(separator: "\n") }
    }

    /// `connection: close` ends the answer; the pieces of a chunked one are put together.
    static func request(_ method: String, _ path: String, body: String = "", port: Int?) async throws -> Answer {
        let text = try await Self.exchange(method, path, body: body, port: port)
        let parts = text.split(separator: "\r\n\r\n", maxSplits: 1, omittingEmptySubsequences: false)
        let head = String(parts[0])
        let status = Int(head.split(separator: " ")[1]) ?? 0
        let raw = parts.count == 2 ? String(parts[1]) : ""
        let isChunked = head.lowercased().contains("transfer-encoding: chunked")
        return Answer(status: status, head: head, body: isChunked ? Self.joined(raw) : raw)
    }

    /// All that comes back until the server closes.
    static func exchange(_ method: String, _ path: String, body: String, port: Int?) async throws -> String {
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
        return text
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
        try await withSimulator(configured { $0.isFast = true }) { simulator in
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
            let metrics = try await self.ask(simulator, "GET", "/metrics")
            let lines = metrics.body.split(separator: "\n")
            #expect(metrics.status == 200 && lines.contains("# TYPE apus_simulator_requests_total counter"))
            #expect(lines.contains(#"apus_simulator_requests_total{route="apns",code="200"} 10000"#))
            #expect(lines.contains("apus_simulator_ledger_entries 10000"))
            let connections = lines.first { $0.hasPrefix("apus_simulator_connections_total ") }
            #expect(connections?.split(separator: " ").last.flatMap { Int($0) } ?? 0 >= 1)

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
            #expect(["d", "b", "f", "x"].allSatisfy { !simulator.isDead($0, provider: .fcm) }, "the dead share, too")
        }
    }

    @Test func nonsenseIsRefused() async throws {
        try await withSimulator { simulator in
            let table = [
                ("GET", "/", "", 404), ("PUT", "/summary", "", 405), ("POST", "/metrics", "", 405),
                ("GET", "/ledger?status=x", "", 400),
                ("GET", "/ledger?limit=%", "", 400), ("POST", "/faults", "{", 400), ("POST", "/dead", "[]", 400),
                ("POST", "/dead", #"{"dead":[]}"#, 400), ("POST", "/dead", #"{"provider":"fcm","dead":["t"]}"#, 400),
                ("POST", "/dead", #"{"provider":"fcm","bad":[5]}"#, 400), ("POST", "/dead", #"{"share":2}"#, 400),
                ("POST", "/dead", #"{"typo":1}"#, 400), ("POST", "/faults", #"{"apns":{"drop":2}}"#, 400),
                ("POST", "/faults", #"{"apns":{"go_away_every_ms":0}}"#, 400), ("GET", "/timeline?send=s", "", 400),
                ("GET", "/accepted?provider=x", "", 400), ("GET", "/listeners", "", 405),
                ("POST", "/listeners", "{}", 400), ("POST", "/listeners", #"{"oauth":false}"#, 400),
                ("POST", "/listeners", #"{"fcm":1}"#, 400),
            ]
            for (method, path, body, status) in table {
                let answer = try await self.ask(simulator, method, path, body)
                #expect(answer.status == status, "\(method) \(path) \(body)")
            }
        }
    }

    @Test(arguments: [false, true]) func `Accepted notifications are listed by their time`(isFast: Bool) async throws {
        try await withSimulator(configured { $0.isFast = isFast }) { simulator in
            let client = try await LoopbackClient.connect(
                port: try #require(simulator.addresses.apnsPort),
                authorityPEM: simulator.authorityPEM,
            )
            let authorization = try Requests.authorization(simulator, now: Self.now)
            let template = try Requests.apns(send: "s1")
            func send(_ tokens: Range<Int>) async throws {
                let requests = tokens.map {
                    LoopbackClient.Request(template: template, authorization: authorization, token: Requests.token($0))
                }
                #expect(try await client.send(requests).allSatisfy { $0.status == 200 })
            }
            try await send(0..<30)
            let middle = SystemClock().nanosecondsSince1970()
            try await Task.sleep(for: .milliseconds(30))
            try await send(30..<50)
            try await client.close()

            let snapshot = simulator.ledger.snapshot
            #expect(snapshot.timeline.accepted(from: 0) == 50)
            #expect(snapshot.timeline.accepted(.apns, from: middle) == 20)
            #expect(snapshot.timeline.accepted(.fcm, from: 0) == 0)
            #expect(snapshot.acceptedCount(since: middle) == 20)
            #expect(snapshot.acceptedCount(since: middle, provider: .fcm) == 0)
            #expect(snapshot.acceptedCount(since: 0, send: "s1") == 50)
            #expect(snapshot.acceptedCount(since: 0, send: "s2") == 0)

            let told = try await self.ask(simulator, "GET", "/accepted?since=\(middle)&send=s1&provider=apns")
            #expect(told.body == #"{"accepted":20}"#)
            let lines = try await self.ask(simulator, "GET", "/timeline").lines
            let counts = try lines.map { line in
                try JSONValue(parsing: Array(line.utf8), bytesMax: 1_000)["apns"]?.int64 ?? 0
            }
            #expect(counts.reduce(0, +) == 50 && counts.allSatisfy { $0 > 0 })
        }
    }

    @Test func `A provider that is closed refuses connections until it opens again`() async throws {
        try await withSimulator { simulator in
            let port = try #require(simulator.addresses.fcmPort)
            func connect() async throws -> LoopbackClient {
                try await LoopbackClient.connect(port: port, authorityPEM: simulator.authorityPEM)
            }
            let request = LoopbackClient.Request(template: try Requests.oauth(simulator, now: Self.now))
            let early = try await connect()
            #expect(try await early.send(request).status == 200)
            for _ in 0..<2 {
                #expect(try await self.ask(simulator, "POST", "/listeners", #"{"fcm":false}"#).status == 200)
            }
            #expect(try await early.send(request).status == nil)
            await #expect(throws: (any Error).self) { _ = try await connect() }
            let apple = try await LoopbackClient.connect(
                port: try #require(simulator.addresses.apnsPort),
                authorityPEM: simulator.authorityPEM,
            )
            try await apple.close()
            for _ in 0..<2 {
                #expect(try await self.ask(simulator, "POST", "/listeners", #"{"fcm":true}"#).status == 200)
            }
            let late = try await connect()
            #expect(try await late.send(request).status == 200)
            try await late.close()
        }
    }

    @Test func theAuthorityIsHandedOut() async throws {
        try await withSimulator { simulator in
            let answer = try await self.ask(simulator, "GET", "/ca.pem")
            #expect(answer.body == simulator.authorityPEM)
        }
    }
}
