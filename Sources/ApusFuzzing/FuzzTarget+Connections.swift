internal import ApusHTTP2
internal import ApusRedis
internal import NIOCore

/// The targets for what arrives on connections: from Redis, from providers, and from clients of the simulator.
extension FuzzTarget {
    static let connections = [
        FuzzTarget(
            "resp",
            words: [
                "\r\n", "$-1\r\n", "*-1\r\n", "*2\r\n", "$3\r\nabc\r\n", ":1\r\n", "+OK\r\n", "-ERR x\r\n",
                "$0\r\n\r\n",
            ],
            seeds: [
                "+OK\r\n".bytes, "-MOVED 3999 127.0.0.1:6381\r\n".bytes, ":42\r\n:-7\r\n".bytes,
                "$5\r\nhello\r\n".bytes,
                "*2\r\n*1\r\n$1\r\na\r\n*-1\r\n".bytes, "*3\r\n$-1\r\n:1\r\n+x\r\n".bytes, "*0\r\n$0\r\n\r\n".bytes,
            ],
            Self.parseReplies
        ),
        FuzzTarget(
            "cluster-nodes",
            words: [
                "master", "slave", "myself,master", "fail", "noaddr", " connected ", "0-5460", "[1->-",
                "127.0.0.1:6379@16379", ",host",
            ],
            seeds: [
                """
                07c37dfeb235213a872192d90877d0cd55635b91 127.0.0.1:30004@31004,hostname4 slave \
                e7d1eecce10fd6bb5eb35b9f99a514335d9ba9ca 0 1426238317239 4 connected
                e7d1eecce10fd6bb5eb35b9f99a514335d9ba9ca 127.0.0.1:30001@31001,hostname1 myself,master - 0 0 1 connected 0-5460 [93-<-07c37dfeb235213a872192d90877d0cd55635b91]

                """.bytes
            ]
        ) { input in
            guard let text = input.validText else { return }
            guard let nodes = try? ClusterNodes(text, from: .host("127.0.0.1", port: 6_379)).nodes else { return }
            for slots in nodes.flatMap(\.slots) {
                try require((0..<16_384).contains(slots.lowerBound) && slots.upperBound < 16_384, "slots \(slots)")
            }
        },
        FuzzTarget(
            "http2-client",
            words: Self.frameWords,
            seeds: [
                [255] + Self.settings + Self.frame(1, 4, 1, [0x88]) + Self.frame(0, 1, 1, "{}".bytes),
                [3] + Self.settings + Self.frame(1, 5, 3, [0x8d]) + Self.frame(3, 0, 5, [0, 0, 0, 7])
                    + Self.frame(7, 0, 0, [0, 0, 0, 3, 0, 0, 0, 0]),
                [255] + Self.settings + Self.frame(6, 0, 0, [0, 1, 2, 3, 4, 5, 6, 7])
                    + Self.frame(8, 0, 0, [0, 0, 1, 0])
                    + Self.frame(1, 1, 1, [0x88]) + Self.frame(9, 4, 1, [0x0f, 0x26, 1, 0x35]),
                [255] + Self.frame(4, 0, 0, [0, 3, 0, 0, 0, 0])
                    + Self.frame(4, 0, 0, [0, 1, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0]),
            ],
            Self.answerClient
        ),
        FuzzTarget(
            "http2-headers",
            words: ["content-length", "apns-id", "retry-after", "\u{48}\u{3}200", ":status"],
            seeds: [
                [0x88], [0x8d, 0x5c, 1, 0x32], [0x48, 3, 0x34, 0x31, 0x30, 0x0f, 0x26, 2, 0x36, 0x30],
                [0x88, 0x40, 7] + "apns-id".bytes + [3] + "a-b".bytes, [0x3f, 0xe1, 0x1f, 0x88],
            ]
        ) { input in
            try Self.answerClient([255] + Self.settings + Self.frame(1, 5, 1, input))
        },
        FuzzTarget(
            "http2-server",
            words: Self.frameWords,
            seeds: [
                Self.settings
                    + Self.frame(1, 5, 1, [0x83, 0x87, 0x84, 0x41, 1, 0x61])
                    + Self.frame(1, 4, 3, [0x82, 0x87, 0x85, 0xc0]),
                Self.settings + Self.frame(1, 4, 1, [0x83, 0x87, 0x84, 0x41, 1, 0x61]) + Self.frame(0, 1, 1, "{}".bytes)
                    + Self.frame(3, 0, 1, [0, 0, 0, 8]),
                Self.settings + Self.frame(4, 1, 0, []) + Self.frame(6, 0, 0, [1, 2, 3, 4, 5, 6, 7, 8])
                    + Self.frame(2, 0, 3, [0, 0, 0, 0, 9]),
            ],
            Self.requestServer
        ),
    ]

    // MARK: Redis

    @Sendable
    private static func parseReplies(_ input: [UInt8]) throws {
        func parse(_ pieces: [ArraySlice<UInt8>]) throws -> (replies: [String], isBroken: Bool) {
            var parser = RESPParser()
            var isBroken = false
            var replies: [String] = []
            for piece in pieces where !isBroken {
                do throws(RedisError) { try parser.receive(Array(piece).span) } catch { isBroken = true }
                while let reply = parser.nextReply() { replies.append(Self.text(of: reply.root, depth: 0)) }
            }
            return (replies, isBroken)
        }
        let whole = try parse([input[...]])
        let pieces = try parse(input.indices.map { input[$0...$0] })
        try require(whole == pieces, "other replies in pieces: \(whole) \(pieces)")
    }

    /// Reads every value of a reply in every way.
    private static func text(of node: RESPNode, depth: Int) -> String {
        _ = try? node.number()
        _ = try? node.blob()
        _ = node.element(0)
        if let elements = try? node.elements() {
            return "[" + elements.map { Self.text(of: $0, depth: depth + 1) }.joined(separator: ",") + "]"
        }
        return (try? node.text()) ?? "\((try? node.blob()) ?? [])"
    }

    // MARK: HTTP/2

    private static let frameWords = [
        "\u{0}\u{0}\u{0}\u{4}\u{1}\u{0}\u{0}\u{0}\u{0}", "\u{0}\u{0}\u{1}\u{1}\u{5}\u{0}\u{0}\u{0}\u{1}",
        "\u{0}\u{0}\u{4}\u{3}\u{0}\u{0}\u{0}\u{0}\u{1}", "\u{0}\u{0}\u{8}\u{6}\u{0}\u{0}\u{0}\u{0}\u{0}",
        "\u{0}\u{0}\u{8}\u{7}\u{0}\u{0}\u{0}\u{0}\u{0}", "\u{0}\u{0}\u{4}\u{8}\u{0}\u{0}\u{0}\u{0}\u{0}",
        "\u{0}\u{0}\u{1}\u{9}\u{4}\u{0}\u{0}\u{0}\u{1}",
    ]
    private static let settings = Self.frame(4, 0, 0, [0, 3, 0, 0, 0, 100])
    private static let tags: ClosedRange<UInt64> = 1...6

    private static func frame(_ type: UInt8, _ flags: UInt8, _ stream: UInt8, _ payload: [UInt8]) -> [UInt8] {
        let count = payload.count
        return [
            UInt8(truncatingIfNeeded: count >> 16), UInt8(truncatingIfNeeded: count >> 8),
            UInt8(truncatingIfNeeded: count),
        ]
            + [type, flags, 0, 0, 0, stream] + payload
    }

    private static let template = try? RequestTemplate(
        authority: "push.example",
        path: .token(prefix: "/3/device/", form: .hexadecimal),
        headers: [HeaderField("apns-topic", "a")],
        body: .shared("{}".bytes)
    )

    /// Submits requests to a client and feeds it with the answers, in pieces of the first byte's length.
    @Sendable
    private static func answerClient(_ input: [UInt8]) throws {
        var input = input
        let pieceBytes = Int(input.takeFirst()) + 1
        guard let template else { throw FuzzFailure("the template is not allowed") }
        var client = try HTTP2ClientSession(configuration: HTTP2ClientConfiguration(streamsMax: 8))
        var open: Set<UInt64> = []
        var written = 0
        var isClosed = false
        func drain() {
            while client.wantsWrite {
                var buffer = ByteBuffer()
                _ = client.drainOutbound(into: &buffer, limit: 16_384, now: 10)
                guard buffer.readableBytes > 0 else { return }
                written += buffer.readableBytes
            }
        }
        func takeEvents() throws {
            while let event = client.nextEvent() {
                try require(!isClosed, "an event after the end: \(event)")
                switch event {
                case .answered(let answer):
                    try require(open.remove(answer.tag) != nil, "a second event for \(answer.tag)")
                    try require((200...999).contains(answer.status), "status \(answer.status)")
                    _ = client.body(of: answer)
                    for field in HTTP2AnswerField.allCases { _ = client.value(of: field, in: answer) }
                case .refused(let tag), .unsent(let tag, _), .reset(let tag, _), .timedOut(let tag):
                    try require(open.remove(tag) != nil, "a second event for \(tag)")
                case .goAway(_, _, let debug):
                    try require(debug.count <= HTTP2Limits.goAwayDebugBytesMax, "\(debug.count) bytes of debug data")
                case .settingsChanged, .pingAcknowledged: break
                case .closed: isClosed = true
                }
            }
        }
        let token: [UInt8] = [0xab, 0xcd]
        for tag in Self.tags {
            let result = client.submit(
                template,
                authorization: nil,
                token: token.span,
                id: RequestID(high: 1, low: tag),
                tag: tag,
                deadline: 1_000
            )
            if result == .submitted { open.insert(tag) }
        }
        _ = client.ping(now: 1, deadline: 2_000)
        drain()
        var rest = input[...]
        while !rest.isEmpty {
            let piece = Array(rest.prefix(pieceBytes))
            rest = rest.dropFirst(pieceBytes)
            client.receive(piece.span, now: 10)
            try takeEvents()
            drain()
        }
        client.hitDeadline(now: 1_000)
        try takeEvents()
        drain()
        client.close()
        try takeEvents()
        drain()
        try require(isClosed && open.isEmpty, "requests without an event: \(open)")
        // Preface, requests and cancellations are below 4 KiB; each frame of the peer's makes us write two of 17 bytes at most.
        try require(written <= 4_096 + 4 * input.count, "\(written) bytes written for \(input.count)")
    }

    /// Feeds a server with frames, answers every request, and reads all that it writes.
    @Sendable
    private static func requestServer(_ input: [UInt8]) throws {
        var server = try HTTP2ServerSession(
            configuration: HTTP2ServerConfiguration(maxConcurrentStreams: 8)
        )
        var answered: Set<Int32> = []
        var isClosed = false
        func step() throws {
            while let event = server.nextEvent() {
                try require(!isClosed, "an event after the end: \(event)")
                switch event {
                case .requested(let request):
                    try require(answered.insert(request.streamID).inserted, "stream \(request.streamID) twice")
                    _ = (request.method, request.path, request.authority, request.fields.count)
                    server.respond(to: request.streamID, HTTP2Response(status: 200, body: "ok".bytes))
                case .closed: isClosed = true
                case .cancelled, .settingsAcknowledged, .pingAcknowledged, .goAway: break
                }
            }
            while server.wantsWrite {
                var buffer = ByteBuffer()
                _ = server.drainOutbound(into: &buffer, limit: 16_384)
                guard buffer.readableBytes > 0 else { return }
            }
        }
        server.receive("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".bytes.span)
        try step()
        server.receive(input.span)
        try step()
        try step()
        try require(server.openStreams <= 8, "\(server.openStreams) streams")
    }
}
