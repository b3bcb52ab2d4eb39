import ApusHTTP2
import NIOCore
import Testing

/// Tests what the protocol allows a peer, up to each limit and one past it.
@Suite struct LimitTests {
    /// A client with three requests on the wire, its opening taken.
    private func client(
        _ configuration: HTTP2ClientConfiguration = HTTP2ClientConfiguration(),
    ) throws -> Peer {
        let peer = try Peer(configuration)
        peer.receive(Frames.settings)
        for tag: UInt64 in 1...3 { peer.submit(tag) }
        _ = peer.outbound()
        _ = peer.events()
        return peer
    }

    private func isViolation(_ events: ClientEvent?) -> Bool {
        if case .closed(.protocolViolation) = events { true } else { false }
    }

    private static let breaches: [[UInt8]] = [
        // DATA and HEADERS on no stream, on a server's, on one that was never opened.
        Frames.frame(0, flags: 1, stream: 0, [1]), Frames.frame(0, flags: 1, stream: 2, [1]),
        Frames.frame(0, flags: 1, stream: 7, [1]), Frames.frame(1, flags: 5, stream: 0, Frames.status200),
        Frames.frame(1, flags: 5, stream: 2, Frames.status200),
        Frames.frame(1, flags: 5, stream: 7, Frames.status200),
        // More padding than payload; a priority that is cut off.
        Frames.frame(0, flags: 9, stream: 1, [2, 0]), Frames.frame(1, flags: 13, stream: 1, [2, 0x88]),
        Frames.frame(1, flags: 0x25, stream: 1, [0, 0, 0, 0]),
        // Fixed sizes.
        Frames.frame(3, stream: 1, [0, 0, 0]), Frames.frame(3, stream: 7, Frames.bigEndian(0)),
        Frames.frame(4, [0, 3, 0]), Frames.frame(4, flags: 1, [0, 3, 0, 0, 0, 1]),
        Frames.frame(4, stream: 1), Frames.frame(6, [0]), Frames.frame(6, stream: 1, [UInt8](repeating: 0, count: 8)),
        Frames.frame(7, [0, 0, 0, 0]), Frames.frame(7, stream: 1, [UInt8](repeating: 0, count: 8)),
        Frames.frame(8, [0, 0, 1]), Frames.frame(8, stream: 7, Frames.bigEndian(1)),
        // Settings beyond their ranges; what a server must not say.
        Frames.settings(2, 1), Frames.settings(4, 0x8000_0000), Frames.settings(5, 0x3fff),
        Frames.settings(5, 0x100_0000),
        Frames.frame(4, flags: 1) + Frames.frame(5, flags: 4, stream: 1, Frames.bigEndian(2) + [0x82]),
        // Windows: zero, and beyond 2^31-1.
        Frames.frame(8, Frames.bigEndian(0)), Frames.frame(8, Frames.bigEndian(0x7fff_ffff)),
        // CONTINUATION out of place; a header block that is interrupted, one of another stream.
        Frames.frame(9, flags: 4, stream: 1, Frames.status200),
        Frames.frame(1, stream: 1, Frames.status200) + Frames.frame(6, [UInt8](repeating: 0, count: 8)),
        Frames.frame(1, stream: 1, Frames.status200) + Frames.frame(9, flags: 4, stream: 3, []),
        // An index into nothing.
        Frames.frame(1, flags: 5, stream: 1, [0xff, 0x7f]),
        // A last stream that is a server's.
        Frames.frame(7, Frames.bigEndian(2) + Frames.bigEndian(0)),
    ]

    @Test("frames that break the protocol end the connection", arguments: Self.breaches)
    func violations(frames: [UInt8]) throws {
        let peer = try self.client()
        peer.receive(frames)
        let goodbye = peer.outbound()
        let events = peer.events()
        #expect(self.isViolation(events.last), "\(events)")
        #expect(peer.isFinished)
        // GOAWAY, with a code that is not "no error".
        #expect(goodbye.count >= 17 && goodbye.dropFirst(3).first == 7 && goodbye.suffix(1) != [0], "\(goodbye)")
        #expect(Set(events).isSuperset(of: [.reset(1, nil)]) || events.contains(.refused(3)))
    }

    @Test("the largest frame is taken, one byte more ends the connection")
    func frameSize() throws {
        for (count, isTooMuch) in [(16_384, false), (16_385, true)] {
            let peer = try self.client()
            peer.receive(Frames.frame(0xbe, [UInt8](repeating: 0, count: count)))
            _ = peer.outbound()
            #expect(peer.isFinished == isTooMuch)
        }
    }

    @Test(
        "a malformed answer resets its stream and no other",
        arguments: [
            Frames.status200 + Frames.status200, Frames.literal(":path", "/") + Frames.status200,
            Frames.literal("x", "1") + Frames.status200, Frames.status200 + Frames.literal("Upper", "1"),
            Frames.status200 + Frames.literal("connection", "close"),
            Frames.status200 + Frames.literal("transfer-encoding", "chunked"),
            Frames.status200 + Frames.literal("content-length", "1"),
            Frames.status200 + Frames.literal("content-length", "x"),
            Frames.literal(":status", "20"), Frames.literal(":status", "103"),
        ]
    )
    func malformed(block: [UInt8]) throws {
        let peer = try self.client()
        peer.receive(Frames.frame(1, flags: 5, stream: 1, block))
        let reset = peer.outbound()
        peer.receive(Frames.frame(1, flags: 5, stream: 3, Frames.status200))
        #expect(peer.events() == [.reset(1, .protocolError), .answered(2, status: 200)])
        #expect(reset == Frames.frame(3, stream: 1, Frames.bigEndian(1)))
    }

    @Test(
        "a header with characters that have no place there resets the stream",
        arguments: [Frames.literal("x y", "1"), Frames.literal("retry-after", "a\u{0}b")],
    )
    func strangeHeader(field: [UInt8]) throws {
        let peer = try self.client()
        peer.receive(Frames.frame(1, flags: 5, stream: 1, Frames.status200 + field))
        #expect(peer.events() == [.reset(1, .protocolError)])
    }

    @Test("a last stream that rises from one GOAWAY to the next ends the connection")
    func risingGoAway() throws {
        let peer = try self.client()
        peer.receive(Frames.frame(7, Frames.bigEndian(3) + Frames.bigEndian(0)))
        #expect(!peer.isFinished)
        peer.receive(Frames.frame(7, Frames.bigEndian(5) + Frames.bigEndian(0)))
        #expect(self.isViolation(peer.events().last))
    }

    @Test("a body longer or shorter than announced resets its stream", arguments: [1, 2, 3])
    func contentLength(count: Int) throws {
        let peer = try self.client()
        let announced = Frames.status200 + Frames.literal("content-length", "2")
        peer.receive(Frames.frame(1, flags: 4, stream: 1, announced))
        peer.receive(Frames.frame(0, flags: 1, stream: 1, [UInt8](repeating: 1, count: count)))
        _ = peer.outbound()
        #expect(peer.events() == [count == 2 ? .answered(1, status: 200) : .reset(1, .protocolError)])
    }

    @Test("a stream's window is kept to: full is taken, one byte more resets it")
    func streamWindow() throws {
        for (count, isTooMuch) in [(10_000, false), (10_001, true)] {
            // More than half of a window is given back at once: one frame shows the edge.
            let peer = try self.client(HTTP2ClientConfiguration(streamWindow: 10_000))
            peer.receive(Frames.frame(4, flags: 1))
            peer.receive(Frames.frame(1, flags: 4, stream: 1, Frames.status200))
            peer.receive(Frames.frame(0, flags: 1, stream: 1, [UInt8](repeating: 1, count: count)))
            _ = peer.outbound()
            let events = peer.events()
            #expect(events == [isTooMuch ? .reset(1, .flowControlError) : .answered(1, status: 200)])
        }
    }

    @Test("the connection's window is kept to, and given back as it is used")
    func connectionWindow() throws {
        let configuration = HTTP2ClientConfiguration(connectionWindow: 65_535, answerBodyBytesMax: 0)
        let data = Frames.frame(0, stream: 1, [UInt8](repeating: 1, count: 16_384))
        let peer = try self.client(configuration)
        peer.receive(Frames.frame(1, flags: 4, stream: 1, Frames.status200))
        // Politely, for ever: what is taken is given back.
        for _ in 0..<20 {
            peer.receive(data)
            _ = peer.events()
            _ = peer.outbound()
        }
        #expect(!peer.isFinished)
    }

    @Test("a stream window that grows by nothing, or beyond 2^31-1, resets the stream", arguments: [0, 0x7fff_ffff])
    func streamWindowOverflow(increment: UInt32) throws {
        let peer = try self.client()
        peer.receive(Frames.frame(8, stream: 1, Frames.bigEndian(increment)))
        _ = peer.outbound()
        #expect(peer.events() == [.reset(1, increment == 0 ? .protocolError : .flowControlError)])
        #expect(!peer.isFinished)
    }

    @Test("CONTINUATION frames of one block: eight are taken, nine end the connection")
    func continuations() throws {
        for (count, isTooMuch) in [(HTTP2Limits.continuationsMax, false), (HTTP2Limits.continuationsMax + 1, true)] {
            let peer = try self.client()
            peer.receive(Frames.frame(1, flags: 1, stream: 1, Frames.status200))
            for _ in 1..<count { peer.receive(Frames.frame(9, stream: 1)) }
            peer.receive(Frames.frame(9, flags: 4, stream: 1))
            let events = peer.events()
            #expect((events == [.answered(1, status: 200)]) == !isTooMuch)
            #expect((events.last == .closed(.limitExceeded(.continuations))) == isTooMuch)
        }
    }

    @Test(
        "an initial window that falls in mid-flight stops bodies, and goes on when it rises"
    )
    func initialWindowFalls() throws {
        let peer = try Peer()
        peer.receive(Frames.settings(4, 1_000))
        let body = [UInt8](repeating: 9, count: 3_000)
        peer.submit(1, Samples.make(path: .constant("/"), body: .shared(body)))
        #expect(self.bodyBytes(peer.outbound()) == 1_000)
        // Now it owes 900.
        peer.receive(Frames.settings(4, 100))
        peer.receive(Frames.frame(8, stream: 1, Frames.bigEndian(900)))
        #expect(self.bodyBytes(peer.outbound()) == 0)
        peer.receive(Frames.frame(8, stream: 1, Frames.bigEndian(1)))
        #expect(self.bodyBytes(peer.outbound()) == 1)
        peer.receive(Frames.settings(4, 5_000))
        #expect(self.bodyBytes(peer.outbound()) == 1_999)
        peer.receive(Frames.frame(1, flags: 5, stream: 1, Frames.status200))
        #expect(peer.events().contains(.answered(1, status: 200)))
    }

    @Test("a connection's window that is used up holds all bodies")
    func connectionWindowUsedUp() throws {
        let peer = try Peer()
        peer.receive(Frames.settings(4, 1_000_000))
        let body = [UInt8](repeating: 9, count: 50_000)
        for tag: UInt64 in 1...3 { peer.submit(tag, Samples.make(path: .constant("/"), body: .shared(body))) }
        #expect(self.bodyBytes(peer.outbound()) == 65_535)
        peer.receive(Frames.frame(8, Frames.bigEndian(40_000)))
        #expect(self.bodyBytes(peer.outbound()) == 40_000)
        peer.receive(Frames.frame(8, Frames.bigEndian(1_000_000)))
        #expect(self.bodyBytes(peer.outbound()) == 150_000 - 105_535)
    }

    /// Bytes of DATA in frames that are complete.
    private func bodyBytes(_ bytes: [UInt8]) -> Int {
        var rest = bytes[...]
        if rest.starts(with: Array("PRI".utf8)) { rest = rest.dropFirst(24) }
        var count = 0
        while rest.count >= 9 {
            let header = Array(rest.prefix(9))
            let length = Int(header[0]) << 16 | Int(header[1]) << 8 | Int(header[2])
            if header[3] == 0 { count += length }
            rest = rest.dropFirst(9 + length)
        }
        #expect(rest.isEmpty)
        return count
    }
}
