import ApusRedis
import Testing

@Suite("RESP parser")
struct RESPParserTests {
    /// All replies in those bytes, fed in pieces of that size.
    private func parse(_ text: String, pieces: Int = .max) throws -> [RESPReply] {
        try self.parse(Array(text.utf8), pieces: pieces)
    }

    private func parse(_ bytes: [UInt8], pieces: Int = .max) throws -> [RESPReply] {
        var parser = RESPParser()
        var replies: [RESPReply] = []
        var start = 0
        while start < bytes.count {
            let end = start + min(pieces, bytes.count - start)
            try parser.receive(bytes.span.extracting(start..<end))
            while let reply = parser.nextReply() { replies.append(reply) }
            start = end
        }
        return replies
    }

    private func expectViolation(_ bytes: [UInt8], _ text: String, sourceLocation: SourceLocation = #_sourceLocation) {
        do {
            _ = try self.parse(bytes)
            Issue.record("nothing thrown", sourceLocation: sourceLocation)
        } catch {
            let error = error as? RedisError
            #expect(error?.code == .protocolViolation, sourceLocation: sourceLocation)
            #expect(error?.message.contains(text) == true, "\(error?.message ?? "")", sourceLocation: sourceLocation)
        }
    }

    @Test("every kind of reply is read")
    func kinds() throws {
        let replies = try self.parse("+OK\r\n-ERR no\r\n:-42\r\n$5\r\na\r\nb\0\r\n$-1\r\n*-1\r\n*0\r\n$0\r\n\r\n")
        #expect(replies.map(\.root.kind) == [.status, .error, .integer, .bulk, .null, .null, .array, .bulk])
        #expect(replies[0].root.string == "OK")
        #expect(replies[1].root.errorText == "ERR no")
        #expect(replies[2].root.integer == -42)
        #expect(replies[3].root.bytes == Array("a\r\nb\0".utf8))
        #expect(replies[4].root.isNull && replies[5].root.isNull)
        #expect(replies[6].root.count == 0 && Array(replies[6].root.children).isEmpty)
        #expect(replies[7].root.bytes == [])
    }

    @Test("a nested reply is a table in the order of reading", arguments: [1, 2, 3, 7, 1_000])
    func nested(pieces: Int) throws {
        let text = "*3\r\n*2\r\n$3\r\n1-0\r\n*2\r\n$1\r\nm\r\n$4\r\nbody\r\n:7\r\n*1\r\n-BAD thing\r\n+NEXT\r\n"
        let replies = try self.parse(text, pieces: pieces)
        #expect(replies.count == 2)
        let root = replies[0].root
        #expect(root.count == 3)
        #expect(replies[0].nodeCount == 9)
        #expect(root[0][0].string == "1-0")
        #expect(root[0][1].children.map(\.string) == ["m", "body"])
        #expect(root[1].integer == 7)
        #expect(root[2][0].errorText == "BAD thing")
        #expect(replies[0].end(at: 1) == 6)
        #expect(replies[0].withBytes(at: 5) { $0.count } == 4)
        #expect(root.element(3) == nil)
        #expect(replies[1].root.string == "NEXT")
    }

    @Test("numbers in texts are read strictly")
    func decimals() throws {
        let texts = [
            "0", "-1", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "", "-", "1x", " 1",
        ]
        let values = try texts.map { text in
            try self.parse("$\(text.utf8.count)\r\n\(text)\r\n")[0].root.integer
        }
        #expect(values == [0, -1, .max, .min, nil, nil, nil, nil, nil])
    }

    @Test("bytes that are not UTF-8 are no string")
    func notUTF8() throws {
        let reply = try self.parse(Array("$2\r\n".utf8) + [0xff, 0xfe] + Array("\r\n".utf8))[0]
        #expect(reply.root.string == nil)
        #expect(reply.root.bytes == [0xff, 0xfe])
    }

    @Test(
        "RESP3 and nonsense are refused, and what was complete before is still there",
        arguments: ["%1\r\n", "_\r\n", "HTTP"]
    )
    func nonsense(text: String) {
        var parser = RESPParser()
        let bytes = Array("+OK\r\n\(text)".utf8)
        #expect(throws: RedisError.self) { try parser.receive(bytes.span) }
        let first = parser.nextReply()
        #expect(first?.root.string == "OK")
        let second = parser.nextReply()
        #expect(second == nil)
        #expect(throws: RedisError.self) { try parser.receive(bytes.span) }
    }

    @Test("unread bytes are bounded")
    func unreadBytes() throws {
        let head = Array("$\(RedisLimits.unreadBytesMax * 2)\r\n".utf8)
        let body = [UInt8](repeating: 0x61, count: RedisLimits.unreadBytesMax - head.count + 1)
        var parser = RESPParser()
        // One byte is the type, which hiredis has read already.
        try parser.receive((head + body).span)
        #expect(parser.unreadCount == RedisLimits.unreadBytesMax)
        #expect(throws: RedisError(.protocolViolation, "a reply of more than 16777216 unread bytes")) {
            try parser.receive([0x61].span)
        }
    }

    @Test("a line without an end is bounded")
    func lineBytes() throws {
        let line = [0x2b] + [UInt8](repeating: 0x61, count: RedisLimits.lineBytesMax)
        let reply = try self.parse(line + [0x0d, 0x0a], pieces: 1_000)
        #expect(reply[0].root.count == RedisLimits.lineBytesMax)
        self.expectViolation(line + [0x61], "a line of more than 65536 bytes")
    }

    @Test("elements of an array are bounded before they come")
    func arrayElements() throws {
        let longest =
            "*\(RedisLimits.arrayElementsMax)\r\n" + String(repeating: ":1\r\n", count: RedisLimits.arrayElementsMax)
        let reply = try self.parse(longest)[0]
        #expect(reply.root.count == RedisLimits.arrayElementsMax)
        #expect(reply.root.children.reduce(0) { $0 + ($1.integer ?? 0) } == 100_000)
        self.expectViolation(Array("*\(RedisLimits.arrayElementsMax + 1)\r\n".utf8), "100000 elements")
        self.expectViolation(Array("*2147483647\r\n".utf8), "100000 elements")
    }

    @Test("elements of a reply are bounded")
    func replyElements() throws {
        // Ten arrays and 999,990 elements in them: as many as are allowed.
        let part = "*99999\r\n" + String(repeating: ":1\r\n", count: 99_999)
        let allowed = "*10\r\n" + String(repeating: part, count: 10)
        #expect(try self.parse(allowed)[0].nodeCount == 1_000_001)
        let beyond = "*11\r\n" + String(repeating: part, count: 10) + "*0\r\n"
        self.expectViolation(Array(beyond.utf8), "1000000 elements")
    }

    @Test("bytes of a reply are bounded")
    func replyBytes() throws {
        let body = [UInt8](repeating: 0x61, count: 8 * 1_024 * 1_024)
        let element = Array("$\(body.count)\r\n".utf8) + body + [0x0d, 0x0a]
        var parser = RESPParser()
        try parser.receive(Array("*9\r\n".utf8).span)
        for _ in 0..<8 { try parser.receive(element.span) }
        #expect(throws: RedisError(.protocolViolation, "a reply of more than 67108864 bytes")) {
            try parser.receive(Array("$1\r\na\r\n".utf8).span)
        }
    }

    @Test("nesting is bounded")
    func depth() throws {
        let deepest = String(repeating: "*1\r\n", count: RedisLimits.replyDepthMax) + ":1\r\n"
        #expect(try self.parse(deepest)[0].nodeCount == 9)
        self.expectViolation(
            Array((String(repeating: "*1\r\n", count: RedisLimits.replyDepthMax + 1) + ":1\r\n").utf8),
            "depth"
        )
    }

    @Test("hiredis is a version whose layouts the shim knows")
    func hiredisVersion() {
        #expect(
            RESPParser.hiredisVersion.major == 0 && RESPParser.hiredisVersion.minor == 14
                || RESPParser.hiredisVersion.major == 1
        )
    }
}
