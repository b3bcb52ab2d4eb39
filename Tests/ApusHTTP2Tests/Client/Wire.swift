import ApusHTTP2
import NIOCore

/// A client and a server engine joined back to back, no socket between.
final class Wire {
    var client: HTTP2ClientSession
    var server: HTTP2ServerSession
    var now: UInt64 = 1_000

    init(
        client: HTTP2ClientConfiguration = HTTP2ClientConfiguration(),
        server: HTTP2ServerConfiguration = HTTP2ServerConfiguration(),
    ) throws {
        self.client = try HTTP2ClientSession(configuration: client)
        self.server = try HTTP2ServerSession(configuration: server)
    }

    var inFlight: Int { self.client.inFlight }
    var streamsMax: Int { self.client.streamsMax }
    var isOpen: Bool { self.client.isOpen }
    var nextDeadline: UInt64? { self.client.nextDeadline }
    var isFinished: Bool { self.client.isFinished }
    var isServerFinished: Bool { self.server.isFinished }
    var serverStreams: Int { self.server.openStreams }
    var serverStreamsMax: Int { self.server.streamsOpenMax }

    /// Client to server, all of it.
    func clientSpeaks() {
        while self.client.wantsWrite {
            var buffer = ByteBuffer()
            _ = self.client.drainOutbound(into: &buffer, limit: 16_384, now: self.now)
            guard buffer.readableBytes > 0 else { return }
            self.server.receive(buffer.readableBytesUInt8Span)
        }
    }

    /// Server to client, all of it.
    func serverSpeaks() {
        while self.server.wantsWrite {
            var buffer = ByteBuffer()
            _ = self.server.drainOutbound(into: &buffer, limit: 16_384)
            guard buffer.readableBytes > 0 else { return }
            self.client.receive(buffer.readableBytesUInt8Span, now: self.now)
        }
    }

    /// Back and forth until both are silent.
    func settle() {
        for _ in 0..<1_000 where self.client.wantsWrite || self.server.wantsWrite {
            self.clientSpeaks()
            self.serverSpeaks()
        }
    }

    func submit(
        _ template: RequestTemplate = Samples.template,
        tag: UInt64,
        deadline: UInt64 = 1_000_000,
        validUntil: UInt64 = .max,
    ) -> HTTP2Submission {
        let token = Samples.token
        return self.client.submit(
            template,
            authorization: Samples.authorization,
            token: token.span,
            id: RequestID(high: 1, low: tag),
            tag: tag,
            deadline: deadline,
            validUntil: validUntil,
        )
    }

    /// All requests that wait at the server.
    func requests() -> [HTTP2Request] {
        var requests: [HTTP2Request] = []
        while let event = self.server.nextEvent() {
            if case .requested(let request) = event { requests.append(request) }
        }
        return requests
    }

    /// Returns the client's events as words.
    func events() -> [ClientEvent] { self.client.events() }

    /// Returns ``events()``, answers and other ends of requests only.
    func ends() -> [ClientEvent] {
        self.events().filter {
            switch $0 {
            case .answered, .refused, .unsent, .reset, .timedOut: true
            case .goAway, .settings, .ping, .closed: false
            }
        }
    }
}

/// An event in comparable form.
enum ClientEvent: Hashable {
    case answered(UInt64, status: Int)
    case refused(UInt64)
    case unsent(UInt64, isOverdue: Bool)
    case reset(UInt64, HTTP2ErrorCode?)
    case timedOut(UInt64)
    case goAway(HTTP2ErrorCode, last: Int32, debug: String)
    case settings(UInt32)
    case ping(UInt64)
    case closed(HTTP2CloseReason)
}

extension HTTP2ClientSession {
    mutating func events() -> [ClientEvent] {
        var events: [ClientEvent] = []
        while let event = self.nextEvent() { events.append(ClientEvent(event)) }
        return events
    }

    mutating func outbound() -> [UInt8] {
        var buffer = ByteBuffer()
        while self.wantsWrite {
            let before = buffer.readableBytes
            _ = self.drainOutbound(into: &buffer, limit: 16_384, now: 1_000)
            if buffer.readableBytes == before { break }
        }
        return Array(buffer.readableBytesView)
    }
}

extension ClientEvent {
    init(_ event: HTTP2ClientEvent) {
        switch event {
        case .answered(let answer): self = .answered(answer.tag, status: answer.status)
        case .refused(let tag): self = .refused(tag)
        case .unsent(let tag, let isOverdue): self = .unsent(tag, isOverdue: isOverdue)
        case .reset(let tag, let code): self = .reset(tag, code)
        case .timedOut(let tag): self = .timedOut(tag)
        case .goAway(let code, let last, let debug):
            self = .goAway(code, last: last, debug: String(decoding: debug, as: UTF8.self))
        case .settingsChanged(let streams): self = .settings(streams)
        case .pingAcknowledged(let roundTrip): self = .ping(roundTrip)
        case .closed(let reason): self = .closed(reason)
        }
    }
}

/// Builds the requests of these tests.
enum Samples {
    static let token = [UInt8](repeating: 0xab, count: 32)
    static let body = Array(#"{"aps":{"alert":"Hello"}}"#.utf8)
    static let authorization = try? HeaderValue("bearer " + String(repeating: "x", count: 200))
    static let template = make(body: .shared(body))

    static func make(
        path: RequestTemplate.Path = .token(prefix: "/3/device/", form: .hexadecimal),
        body: RequestTemplate.Body,
    ) -> RequestTemplate {
        do {
            return try RequestTemplate(
                authority: "api.push.apple.com",
                path: path,
                headers: [
                    HeaderField("apns-push-type", "alert"), HeaderField("apns-topic", "com.example.app"),
                    HeaderField("apns-priority", "10"), HeaderField("apns-expiration", "0"),
                ],
                body: body,
            )
        } catch {
            preconditionFailure("\(error)")
        }
    }
}

/// Frames written by hand, for what a decent engine never says.
enum Frames {
    static func frame(_ type: UInt8, flags: UInt8 = 0, stream: UInt32 = 0, _ payload: [UInt8] = []) -> [UInt8] {
        let count = UInt32(payload.count)
        let length = [UInt8(count >> 16 & 0xff), UInt8(count >> 8 & 0xff), UInt8(count & 0xff)]
        return length + [type, flags] + self.bigEndian(stream) + payload
    }

    static func bigEndian(_ value: UInt32) -> [UInt8] {
        [UInt8(value >> 24), UInt8(value >> 16 & 0xff), UInt8(value >> 8 & 0xff), UInt8(value & 0xff)]
    }

    static let settings = frame(4)

    static func settings(_ identifier: UInt8, _ value: UInt32) -> [UInt8] {
        self.frame(4, [0, identifier] + self.bigEndian(value))
    }

    static func literal(_ name: String, _ value: String) -> [UInt8] {
        // HPACK: literal without indexing, new name, no Huffman; lengths below 127.
        [0, UInt8(name.utf8.count)] + Array(name.utf8) + [UInt8(value.utf8.count)] + Array(value.utf8)
    }

    /// HPACK's entry 8.
    static let status200: [UInt8] = [0x88]
}
