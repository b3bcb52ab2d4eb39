import ApusHTTP2
import NIOCore
import NIOEmbedded
import Testing

/// A client's handler behind a bridge, and a server of HTTP/1.1 that the test plays.
@Suite struct HTTP1BridgeTests {
    /// Keeps what the client's handler reports.
    private final class Reports: HTTP2ClientDelegate {
        var events: [String] = []

        func http2(_ handler: HTTP2ClientHandler, received event: HTTP2ClientEvent) {
            switch event {
            case .answered(let answer):
                let body = String(decoding: handler.body(of: answer), as: UTF8.self)
                let location = handler.value(of: .location, in: answer) ?? ""
                self.events.append(
                    "\(answer.tag): \(answer.status) \(body.count < 20 ? body : "\(body.count)")\(location)"
                )
            case .refused(let tag): self.events.append("\(tag): refused")
            case .reset(let tag, _): self.events.append("\(tag): reset")
            case .timedOut(let tag): self.events.append("\(tag): timed out")
            case .unsent(let tag, _): self.events.append("\(tag): unsent")
            case .goAway: self.events.append("no more")
            case .settingsChanged(let count): self.events.append("\(count) at a time")
            case .pingAcknowledged: self.events.append("ping")
            case .closed: self.events.append("closed")
            }
        }

        func http2CapacityAvailable(_ handler: HTTP2ClientHandler) { self.events.append("room") }

        func take() -> [String] {
            defer { self.events = [] }
            return self.events
        }
    }

    private let channel = EmbeddedChannel()
    private let reports = Reports()
    private let handler: HTTP2ClientHandler

    init() throws {
        self.handler = try HTTP2ClientHandler(delegate: self.reports)
        let below = Below()
        try self.channel.pipeline.syncOperations.addHandler(below)
        try HTTP1Bridge.add(to: self.channel.pipeline.syncOperations, after: below)
        try self.channel.pipeline.syncOperations.addHandler(self.handler)
        try self.channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 443)).wait()
    }

    /// Stands where TLS does.
    private final class Below: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
    }

    private func submit(_ tag: UInt64, _ body: String = "") throws -> HTTP2Submission {
        let request = try PlainRequest(
            method: "POST",
            authority: "push.example",
            path: "/p/\(tag)",
            headers: [HeaderField("ttl", "60")],
            body: Array(body.utf8),
        )
        return self.handler.submitPlain(request, tag: tag, deadline: .now() + .seconds(600))
    }

    /// Returns the bytes that the server has received since the last call.
    private func received() throws -> String {
        self.channel.embeddedEventLoop.run()
        var text = ""
        while let bytes = try self.channel.readOutbound(as: ByteBuffer.self) { text += String(buffer: bytes) }
        return text
    }

    private func answer(_ text: String) throws {
        try self.channel.writeInbound(ByteBuffer(string: text.replacing("\n", with: "\r\n")))
        self.channel.embeddedEventLoop.run()
    }

    @Test func `A request becomes text, and its answer comes back with the headers that matter`() throws {
        #expect(try self.submit(1, "hello") == .submitted)
        let expected = "POST /p/1 HTTP/1.1\r\nhost: push.example\r\nttl: 60\r\ncontent-length: 5\r\n\r\nhello"
        #expect(try self.received() == expected)
        #expect(self.reports.take() == ["1 at a time"])
        try self.answer("HTTP/1.1 201 Created\nLocation: /m/7\nServer: x\nContent-Length: 2\n\nok")
        #expect(self.reports.take() == ["1: 201 ok/m/7"])
        #expect(try self.submit(2) == .submitted)
        #expect(try self.received().hasSuffix("content-length: 0\r\n\r\n"))
        try self.answer("HTTP/1.1 100 Continue\n\nHTTP/1.1 404 Not Found\nTransfer-Encoding: chunked\n\n3\nabc\n0\n\n")
        #expect(self.reports.take() == ["2: 404 abc"])
    }

    @Test func `Requests go one after another, those before the limit is known too`() throws {
        #expect(try self.submit(1) == .submitted && self.submit(2) == .submitted && self.submit(3) == .submitted)
        #expect(try self.received().hasPrefix("POST /p/1 "))
        #expect(try self.submit(4) == .full)
        for tag in 1...3 {
            try self.answer("HTTP/1.1 201 Created\nContent-Length: 0\n\n")
            let next = try self.received()
            #expect(tag == 3 ? next.isEmpty : next.hasPrefix("POST /p/\(tag + 1) "))
        }
        #expect(self.reports.take() == ["1 at a time", "1: 201 ", "2: 201 ", "3: 201 ", "room"])
    }

    @Test func `What the server did not get when it ends the connection may be sent again`() throws {
        #expect(try self.submit(1) == .submitted && self.submit(2) == .submitted)
        _ = try self.received()
        try self.answer("HTTP/1.1 201 Created\nConnection: close\nContent-Length: 0\n\n")
        #expect(self.reports.take().filter { $0.contains(":") } == ["1: 201 ", "2: refused"])
        #expect(!self.channel.isActive)
    }

    @Test func `A connection that ends in the middle of an answer leaves its request unknown`() throws {
        #expect(try self.submit(1) == .submitted && self.submit(2) == .submitted)
        _ = try self.received()
        try self.answer("HTTP/1.1 201 Created\nContent-Length: 10\n\nhalf")
        try self.channel.close().wait()
        let events = self.reports.take().filter { $0.contains(":") }
        #expect(events.contains("1: reset") && events.count == 2)
    }

    @Test func `What is no HTTP ends the connection`() throws {
        #expect(try self.submit(1) == .submitted)
        _ = try self.received()
        try self.answer("no answer at all\n\n")
        #expect(self.reports.take().contains("1: reset"))
        #expect(!self.channel.isActive)
    }

    @Test("D108 a body is read up to a limit, and the connection ends without its rest")
    func longBody() throws {
        #expect(try self.submit(1) == .submitted && self.submit(2) == .submitted)
        _ = try self.received()
        try self.answer("HTTP/1.1 500 Oops\nContent-Length: 100000000\n\n\(String(repeating: "x", count: 65_536))")
        #expect(self.reports.take() == ["1 at a time"])
        try self.answer("x")
        #expect(Set(self.reports.take().filter { $0.contains(":") }) == ["1: 500 65536", "2: refused"])
        #expect(!self.channel.isActive)
    }
}
