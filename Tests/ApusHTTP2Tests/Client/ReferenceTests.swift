import ApusCore
import ApusHTTP2
import NIOCore
import Testing

/// Checks the client's frames against nghttp2, whose session is the server here, and what it reads against a model.
@Suite struct ReferenceTests {
    @Test("nghttp2's server reads the requests that were submitted, whatever its settings", arguments: 0..<6)
    func requests(seed: UInt64) throws {
        let wire = try Wire(
            client: HTTP2ClientConfiguration(streamsMax: 50),
            server: HTTP2ServerConfiguration(
                connectionWindow: 1_000_000,
                bodyBytesMax: 300_000,
                headerListBytesMax: 64 * 1_024
            ),
        )
        var load = RandomLoad(seed: seed)
        try load.run(on: wire)
        // A server that lowers its limit may refuse streams that are under way, and nobody sends them again here.
        #expect(load.received.count > 300, "seed \(seed)")
        for (key, request) in load.received { #expect(request == load.submitted[key], "seed \(seed)") }
    }

    @Test("the client reads whatever a decent peer sends, however it is cut", arguments: 0..<200)
    func answers(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let answers = RandomAnswers()
        let peer = try Peer()
        peer.receive(Frames.settings(3, 1_000))
        for tag: UInt64 in 1...40 { peer.submit(tag) }
        _ = peer.outbound()
        var script: [UInt8] = []
        var expected = [EventRecord(event: .settings(1_000))]
        for tag: UInt64 in 1...40 {
            let (bytes, record) = answers.answer(to: tag, &generator)
            script += bytes + answers.controlFrame(&generator)
            expected.append(record)
        }
        script += Frames.frame(7, Frames.bigEndian(79) + Frames.bigEndian(0))
        expected.append(EventRecord(event: .goAway(.noError, last: 79, debug: "")))
        expected.append(EventRecord(event: .closed(.goAway(.noError))))
        var records: [EventRecord] = []
        while !script.isEmpty {
            let count = min(script.count, Int.random(in: 1...400, using: &generator))
            peer.receive(Array(script.prefix(count)))
            _ = peer.outbound()
            records += peer.eventRecords()
            script.removeFirst(count)
        }
        #expect(records == expected, "seed \(seed)")
    }
}

/// Requests of all kinds, answered and cancelled, against settings that change; the same for the same seed.
private struct RandomLoad {
    /// A request without the order of its headers.
    struct Request: Hashable {
        let fields: Set<String>
        let body: [UInt8]
    }

    private var generator: SeededGenerator
    private let templates: [(template: RequestTemplate, hasToken: Bool, request: Request)]
    private let authorizations: [HeaderValue?]
    private var tag: UInt64 = 0
    /// Requests by their id or path: as submitted, and as the server received them.
    private(set) var submitted: [String: Request] = [:]
    private(set) var received: [String: Request] = [:]

    init(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let jwts = (0..<3).map { number -> HeaderValue? in
            try? HeaderValue("bearer \(number)" + String(repeating: "j", count: 250))
        }
        self.authorizations = jwts + [nil]
        self.templates = (0..<40).map { number in
            let hasToken = Bool.random(using: &generator)
            let count = number == 9 ? 70_000 : [0, 1, 200, 300, 400, 20_000].randomElement(using: &generator) ?? 0
            // Two of them are more than a frame, and more than any table.
            let isLong = number == 8 || number == 14
            let long = isLong ? 8_192 : Int.random(in: 1...300, using: &generator)
            let path: RequestTemplate.Path =
                hasToken ? .token(prefix: "/3/device/", form: .hexadecimal) : .constant("/v1/p\(number % 3)/send")
            let authority = number.isMultiple(of: 5) ? "b.example" : "a.example:443"
            let body = number.isMultiple(of: 7) ? [] : (0..<count).map { UInt8(truncatingIfNeeded: $0) }
            let headers = [
                ("apns-topic", "com.example.\(number % 4)"), ("apns-collapse-id", "\(number)"),
                ("x-long", String(repeating: "l", count: long)),
                ("x-more", String(repeating: "m", count: isLong ? 8_192 : 3)), ("content-type", "application/json"),
            ]
            var fields = Set(headers.map { "\($0.0): \($0.1)" })
            fields.formUnion([":method: POST", ":scheme: https", ":authority: \(authority)"])
            if case .constant(let path) = path { fields.insert(":path: \(path)") }
            do {
                let template = try RequestTemplate(
                    authority: authority,
                    path: path,
                    headers: headers.map { try HeaderField($0.0, $0.1) },
                    body: number.isMultiple(of: 7) ? .none : .shared(body),
                )
                return (template, hasToken, Request(fields: fields, body: body))
            } catch {
                preconditionFailure("\(error)")
            }
        }
        self.generator = generator
    }

    mutating func run(on wire: Wire) throws {
        while self.tag < 400 {
            for _ in 0..<Int.random(in: 1...60, using: &self.generator) { try self.submit(to: wire) }
            if Int.random(in: 0..<3, using: &self.generator) == 0 { self.change(wire) }
            wire.settle()
            self.answer(wire)
            wire.settle()
            _ = wire.events()
            #expect(!wire.isServerFinished && !wire.isFinished)
        }
        for _ in 0..<100 where wire.inFlight > 0 {
            self.answer(wire)
            wire.settle()
            _ = wire.events()
        }
        #expect(wire.inFlight == 0)
    }

    private mutating func submit(to wire: Wire) throws {
        let isPlain = Int.random(in: 0..<20, using: &self.generator) == 0
        let (template, hasToken, constant) = self.templates[
            Int.random(in: self.templates.indices, using: &self.generator)
        ]
        let authorization = self.authorizations[Int.random(in: self.authorizations.indices, using: &self.generator)]
        let token = (0..<Int.random(in: 1...40, using: &self.generator)).map { _ in
            UInt8.random(in: 0...255, using: &self.generator)
        }
        let id = RequestID(high: self.tag, low: 0)
        self.tag += 1
        let number = try HeaderField("x-tag", "\(self.tag)")
        let plain = try PlainRequest(
            method: "GET",
            authority: "c.example",
            path: "/\(self.tag)",
            headers: [number],
            body: token,
        )
        if isPlain {
            let fields: Set = [
                ":method: GET", ":scheme: https", ":authority: c.example", ":path: /\(self.tag)", "x-tag: \(self.tag)",
            ]
            self.submitted["/\(self.tag)"] = Request(fields: fields, body: token)
        } else {
            var fields = constant.fields.union(["apns-id: \(id)"])
            if let authorization { fields.insert("authorization: \(authorization.text)") }
            let digits = token.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
            if hasToken { fields.insert(":path: /3/device/\(digits)") }
            self.submitted["\(id)"] = Request(fields: fields, body: constant.body)
        }
        for _ in 0..<1_000 {
            let result: HTTP2Submission
            if isPlain {
                result = wire.client.submitPlain(plain, tag: self.tag, deadline: .max)
            } else {
                result = wire.client.submit(
                    template,
                    authorization: authorization,
                    token: token.span,
                    id: id,
                    tag: self.tag,
                    deadline: .max,
                )
            }
            guard result == .full else {
                #expect(result == .submitted)
                return
            }
            wire.settle()
            self.answer(wire)
            wire.settle()
            _ = wire.events()
        }
        Issue.record("no room")
    }

    private mutating func change(_ wire: Wire) {
        for _ in 0..<Int.random(in: 1...3, using: &self.generator) {
            switch Int.random(in: 0..<3, using: &self.generator) {
            case 0:
                wire.server.updateSettings(
                    headerTableBytes: [0, 100, 300, 1_000, 4_096, 65_536].randomElement(using: &self.generator)
                )
            case 1:
                wire.server.updateSettings(
                    streamWindow: [1_000, 65_535, 300_000].randomElement(using: &self.generator)
                )
            default:
                wire.server.updateSettings(
                    maxConcurrentStreams: [1, 10, 1_000].randomElement(using: &self.generator)
                )
            }
        }
    }

    private mutating func answer(_ wire: Wire) {
        for request in wire.requests() {
            let fields = request.fields.map { "\($0.name): \($0.value)" }
            #expect(fields.prefix { $0.hasPrefix(":") }.count == 4 && Set(fields).count == fields.count)
            let received = Request(fields: Set(fields), body: request.body)
            self.received[request.value(of: "apns-id") ?? request.path] = received
            wire.server.respond(to: request.streamID, HTTP2Response(status: 200))
        }
    }
}

/// The answers of a decent server, in all the forms that the protocol allows.
private struct RandomAnswers {
    private static let fields = [
        ("apns-id", "11111111-2222-4333-8444-555555555555"), ("retry-after", "30"),
        ("content-type", "application/json"),
        ("x-unknown", "value"), ("server", "sink"),
    ]

    private func frame(
        _ type: UInt8,
        flags: UInt8,
        stream: UInt32,
        _ payload: [UInt8],
        _ generator: inout SeededGenerator,
    ) -> [UInt8] {
        guard Int.random(in: 0..<3, using: &generator) == 0 else {
            return Frames.frame(type, flags: flags, stream: stream, payload)
        }
        let padding = [UInt8](repeating: 0, count: Int.random(in: 0...20, using: &generator))
        return Frames.frame(type, flags: flags | 8, stream: stream, [UInt8(padding.count)] + payload + padding)
    }

    private func headers(
        _ block: [UInt8],
        isEnd: Bool,
        stream: UInt32,
        _ generator: inout SeededGenerator
    ) -> [UInt8] {
        let end: UInt8 = isEnd ? 1 : 0
        guard block.count > 3, Bool.random(using: &generator) else {
            return self.frame(1, flags: 4 | end, stream: stream, block, &generator)
        }
        let cut = Int.random(in: 1..<block.count, using: &generator)
        return self.frame(1, flags: end, stream: stream, Array(block[..<cut]), &generator)
            + Frames.frame(9, flags: 4, stream: stream, Array(block[cut...]))
    }

    private func fields(_ generator: inout SeededGenerator) -> (block: [UInt8], kept: [HTTP2AnswerField: String]) {
        var block: [UInt8] = []
        var kept: [HTTP2AnswerField: String] = [:]
        for (name, value) in Self.fields.shuffled(using: &generator).prefix(Int.random(in: 0...5, using: &generator)) {
            let literal = Frames.literal(name, value)
            // With incremental indexing now and then, so that the decoder has a table to keep.
            block += Bool.random(using: &generator) ? [0x40] + literal.dropFirst() : literal
            if let field = HTTP2AnswerField.allCases.first(where: { "\($0.name)" == name }) { kept[field] = value }
        }
        return (block, kept)
    }

    /// The frames of an answer, and the event that they lead to.
    func answer(to tag: UInt64, _ generator: inout SeededGenerator) -> ([UInt8], EventRecord) {
        let stream = UInt32(tag) * 2 - 1
        switch Int.random(in: 0..<8, using: &generator) {
        case 0, 1:
            let bytes = Frames.frame(1, flags: 5, stream: stream, Frames.status200)
            return (bytes, EventRecord(event: .answered(tag, status: 200)))
        case 2:
            let code = HTTP2ErrorCode(rawValue: [0, 1, 7, 8, 99].randomElement(using: &generator) ?? 0)
            let bytes = Frames.frame(3, stream: stream, Frames.bigEndian(code.rawValue))
            return (bytes, EventRecord(event: code == .refusedStream ? .refused(tag) : .reset(tag, code)))
        default: break
        }
        var bytes: [UInt8] = []
        if Int.random(in: 0..<4, using: &generator) == 0 {
            bytes += self.headers(Frames.literal(":status", "103"), isEnd: false, stream: stream, &generator)
        }
        let status = [200, 400, 410, 429, 503, 304].randomElement(using: &generator) ?? 200
        let body = [UInt8](repeating: 0x7b, count: Int.random(in: 0...600, using: &generator))
        let (fields, kept) = self.fields(&generator)
        var block = Frames.literal(":status", "\(status)") + fields
        // An answer whose length is wrong is malformed; 304 never has a body.
        var isWhole = status != 304 || body.isEmpty
        if status != 304, Bool.random(using: &generator) {
            isWhole = Int.random(in: 0..<8, using: &generator) != 0
            block += Frames.literal("content-length", "\(body.count + (isWhole ? 0 : 1))")
        }
        let record =
            isWhole
            ? EventRecord(event: .answered(tag, status: status), fields: kept, body: body)
            : EventRecord(event: .reset(tag, .protocolError))
        let hasTrailers = Int.random(in: 0..<4, using: &generator) == 0
        if body.isEmpty, !hasTrailers {
            return (bytes + self.headers(block, isEnd: true, stream: stream, &generator), record)
        }
        bytes += self.headers(block, isEnd: false, stream: stream, &generator)
        let cut = Int.random(in: 0...body.count, using: &generator)
        bytes += self.frame(0, flags: 0, stream: stream, Array(body[..<cut]), &generator)
        bytes += self.frame(0, flags: hasTrailers ? 0 : 1, stream: stream, Array(body[cut...]), &generator)
        if hasTrailers {
            bytes += self.headers(Frames.literal("x-checksum", "1"), isEnd: true, stream: stream, &generator)
        }
        return (bytes, record)
    }

    /// Now and then a frame that belongs to no answer.
    func controlFrame(_ generator: inout SeededGenerator) -> [UInt8] {
        switch Int.random(in: 0..<10, using: &generator) {
        case 0: Frames.frame(6, [UInt8](repeating: 3, count: 8))
        case 1: Frames.frame(8, Frames.bigEndian(1_000))
        case 2: Frames.settings(3, 1_000)
        case 3: Frames.frame(0xbe, [1, 2, 3])
        case 4: Frames.frame(2, stream: 1, [0, 0, 0, 0, 16])
        case 5: Frames.settings(4, 70_000)
        default: []
        }
    }
}
