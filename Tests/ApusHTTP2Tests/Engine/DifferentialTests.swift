import ApusCore
import ApusHTTP2
import NIOCore
import Testing

/// The lean engine against nghttp2: its frames are read by nghttp2's server, its ears hear what nghttp2's client hears.
@Suite struct DifferentialTests {
    @Test("both engines' requests are the same to nghttp2's server, whatever it allows", arguments: 0..<6)
    func requests(seed: UInt64) throws {
        let wires = try HTTP2Engine.allCases.map { engine -> Wire in
            try Wire(
                engine,
                client: HTTP2ClientConfiguration(streamsMax: 50),
                server: HTTP2ServerConfiguration(
                    connectionWindow: 1_000_000,
                    bodyBytesMax: 300_000,
                    headerListBytesMax: 64 * 1_024
                ),
            )
        }
        let seen = try wires.map { wire -> [String: Play.Seen] in
            var play = Play(seed: seed)
            try play.perform(on: wire)
            return play.seen
        }
        // A server that lowers its limit may refuse streams that are under way, and nobody sends them again here.
        let (lean, reference) = (seen[0], seen[1])
        #expect(lean.count > 300 && reference.count > 300, "seed \(seed)")
        let different = reference.keys.filter { lean[$0] != nil && lean[$0] != reference[$0] }
        #expect(different.isEmpty, "seed \(seed)")
    }

    @Test("both engines hear the same in whatever a decent peer says, however it is cut", arguments: 0..<200)
    func answers(seed: UInt64) throws {
        let told = try HTTP2Engine.allCases.map { engine -> [Heard] in
            var generator = SeededGenerator(seed: seed)
            var speaker = Speaker()
            let peer = try Peer(engine)
            peer.say(Frames.settings(3, 1_000))
            for tag: UInt64 in 1...40 { peer.submit(tag) }
            _ = peer.heard()
            var script: [UInt8] = []
            for stream in stride(from: UInt32(1), through: 79, by: 2) {
                script += speaker.answer(stream, &generator)
                script += speaker.smallTalk(&generator)
            }
            script += Frames.frame(7, Frames.bigEndian(79) + Frames.bigEndian(0))
            var told: [Heard] = []
            while !script.isEmpty {
                let count = min(script.count, Int.random(in: 1...400, using: &generator))
                peer.say(Array(script.prefix(count)))
                _ = peer.heard()
                told += peer.heardEvents()
                script.removeFirst(count)
            }
            _ = peer.heard()
            return told + peer.heardEvents()
        }
        #expect(told[0].count >= 41, "seed \(seed)")
        // A stream that we reset ends here at once, there when the reset has left: the order may differ.
        #expect(Set(told[0]) == Set(told[1]), "seed \(seed)")
        #expect(told[0].count == told[1].count, "seed \(seed)")
    }
}

/// Requests of all kinds, answered and cancelled, against settings that change; the same for the same seed.
private struct Play {
    /// A request as the server saw it: pseudo headers first, the rest sorted, for the order is the engine's.
    struct Seen: Hashable {
        let fields: [String]
        let body: [UInt8]
    }

    private var generator: SeededGenerator
    private let templates: [RequestTemplate]
    private let authorizations: [HeaderValue?]
    private var tag: UInt64 = 0
    private(set) var seen: [String: Seen] = [:]

    init(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let jwts = (0..<3).map { number -> HeaderValue? in
            try? HeaderValue("bearer \(number)" + String(repeating: "j", count: 250))
        }
        self.authorizations = jwts + [nil]
        self.templates = (0..<40).map { number -> RequestTemplate in
            let hasToken = Bool.random(using: &generator)
            let count = number == 9 ? 70_000 : [0, 1, 200, 300, 400, 20_000].randomElement(using: &generator) ?? 0
            // Two of them are more than a frame, and more than any table.
            let isLong = number == 8 || number == 14
            let long = isLong ? 8_192 : Int.random(in: 1...300, using: &generator)
            let path: RequestTemplate.Path =
                hasToken ? .token(prefix: "/3/device/", form: .hexadecimal) : .constant("/v1/p\(number % 3)/send")
            do {
                return try RequestTemplate(
                    authority: number.isMultiple(of: 5) ? "b.example" : "a.example:443",
                    path: path,
                    headers: [
                        HeaderField("apns-topic", "com.example.\(number % 4)"),
                        HeaderField("apns-collapse-id", "\(number)"),
                        HeaderField("x-long", String(repeating: "l", count: long)),
                        HeaderField("x-more", String(repeating: "m", count: isLong ? 8_192 : 3)),
                        HeaderField("content-type", "application/json"),
                    ],
                    body: number.isMultiple(of: 7) ? .none : .shared((0..<count).map { UInt8(truncatingIfNeeded: $0) }),
                )
            } catch {
                preconditionFailure("\(error)")
            }
        }
        self.generator = generator
    }

    mutating func perform(on wire: Wire) throws {
        while self.tag < 400 {
            for _ in 0..<Int.random(in: 1...60, using: &self.generator) { try self.submit(to: wire) }
            if Int.random(in: 0..<3, using: &self.generator) == 0 { self.change(wire) }
            wire.settle()
            self.answer(wire)
            wire.settle()
            _ = wire.told()
            #expect(!wire.isServerFinished && !wire.isFinished)
        }
        for _ in 0..<100 where wire.inFlight > 0 {
            self.answer(wire)
            wire.settle()
            _ = wire.told()
        }
        #expect(wire.inFlight == 0)
    }

    private mutating func submit(to wire: Wire) throws {
        let isPlain = Int.random(in: 0..<20, using: &self.generator) == 0
        let template = self.templates[Int.random(in: self.templates.indices, using: &self.generator)]
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
            _ = wire.told()
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
            let pseudo = fields.prefix { $0.hasPrefix(":") }.sorted()
            let seen = Seen(fields: pseudo + fields.dropFirst(pseudo.count).sorted(), body: request.body)
            #expect(pseudo.count == 4)
            self.seen[request.value(of: "apns-id") ?? request.path] = seen
            wire.server.respond(to: request.streamID, HTTP2Response(status: 200))
        }
    }
}

/// What a decent server says, in all the ways it may be said.
private struct Speaker {
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

    private func fields(_ generator: inout SeededGenerator) -> [UInt8] {
        Self.fields.shuffled(using: &generator).prefix(Int.random(in: 0...5, using: &generator))
            .flatMap { name, value -> [UInt8] in
                let literal = Frames.literal(name, value)
                // With incremental indexing now and then: both decoders keep the table.
                return Bool.random(using: &generator) ? [0x40] + literal.dropFirst() : literal
            }
    }

    mutating func answer(_ stream: UInt32, _ generator: inout SeededGenerator) -> [UInt8] {
        switch Int.random(in: 0..<8, using: &generator) {
        case 0, 1: return Frames.frame(1, flags: 5, stream: stream, Frames.status200)
        case 2:
            let code = [0, 1, 7, 8, 99].randomElement(using: &generator) ?? 0
            return Frames.frame(3, stream: stream, Frames.bigEndian(UInt32(code)))
        default: break
        }
        var bytes: [UInt8] = []
        if Int.random(in: 0..<4, using: &generator) == 0 {
            bytes += self.headers(Frames.literal(":status", "103"), isEnd: false, stream: stream, &generator)
        }
        let status = ["200", "400", "410", "429", "503", "304"].randomElement(using: &generator) ?? "200"
        let body = [UInt8](repeating: 0x7b, count: Int.random(in: 0...600, using: &generator))
        var block = Frames.literal(":status", status) + self.fields(&generator)
        let isWhole = Int.random(in: 0..<8, using: &generator) != 0
        if status != "304", Bool.random(using: &generator) {
            block += Frames.literal("content-length", "\(body.count + (isWhole ? 0 : 1))")
        }
        let hasTrailers = Int.random(in: 0..<4, using: &generator) == 0
        if body.isEmpty, !hasTrailers { return bytes + self.headers(block, isEnd: true, stream: stream, &generator) }
        bytes += self.headers(block, isEnd: false, stream: stream, &generator)
        let cut = Int.random(in: 0...body.count, using: &generator)
        bytes += self.frame(0, flags: 0, stream: stream, Array(body[..<cut]), &generator)
        bytes += self.frame(0, flags: hasTrailers ? 0 : 1, stream: stream, Array(body[cut...]), &generator)
        if hasTrailers {
            bytes += self.headers(Frames.literal("x-checksum", "1"), isEnd: true, stream: stream, &generator)
        }
        return bytes
    }

    func smallTalk(_ generator: inout SeededGenerator) -> [UInt8] {
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
