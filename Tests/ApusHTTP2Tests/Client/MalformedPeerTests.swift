import ApusCore
import ApusHTTP2
import NIOCore
import Testing

/// Peers that do what they must not: always a clear end, never a crash.
@Suite struct MalformedPeerTests {
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

    @Test(
        "an HTTP/1.1 answer to the preface is recognised",
        arguments: ["HTTP/1.1 400 Bad Request\r\n\r\n", "SSH-2.0-OpenSSH_9.2p1\r\n"]
    )
    func notHTTP2(answer: String) throws {
        let peer = try Peer()
        peer.submit(1)
        _ = peer.outbound()
        peer.receive(Array(answer.utf8))
        _ = peer.outbound()
        #expect(peer.events() == [.reset(1, nil), .closed(.notHTTP2)])
    }

    @Test("an HTTP/1.1 answer before anything left refuses all")
    func notHTTP2Early() throws {
        let peer = try Peer()
        peer.submit(1)
        peer.receive(Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8))
        _ = peer.outbound()
        #expect(peer.events() == [.refused(1), .closed(.notHTTP2)])
    }

    @Test("random bytes after the preface", arguments: 0..<100)
    func randomBytes(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let peer = try self.client()
        for _ in 0..<200 where !peer.isFinished {
            peer.receive(
                (0..<Int.random(in: 1...500, using: &generator)).map { _ in .random(in: 0...255, using: &generator) }
            )
            _ = peer.outbound()
        }
        self.expectEnd(peer, "seed \(seed)")
    }

    @Test("decent frames with a few bits turned", arguments: 0..<300)
    func turnedBits(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let peer = try self.client()
        var script = Frames.settings(3, 100)
        for stream: UInt32 in [1, 3, 5] {
            script += Frames.frame(1, flags: 4, stream: stream, Frames.status200 + Frames.literal("apns-id", "x"))
            script += Frames.frame(0, flags: 1, stream: stream, Array("{}".utf8))
        }
        script += Frames.frame(6, [UInt8](repeating: 1, count: 8))
        script += Frames.frame(7, Frames.bigEndian(5) + Frames.bigEndian(0))
        for _ in 0..<Int.random(in: 1...4, using: &generator) {
            script[Int.random(in: script.indices, using: &generator)] ^= 1 << UInt8.random(in: 0...7, using: &generator)
        }
        while !script.isEmpty {
            let count = Int.random(in: 1...script.count, using: &generator)
            peer.receive(Array(script.prefix(count)))
            _ = peer.outbound()
            script.removeFirst(count)
        }
        peer.close()
        self.expectEnd(peer, "seed \(seed)")
    }

    @Test("frames byte by byte")
    func byteByByte() throws {
        let peer = try self.client()
        let script =
            Frames.settings(3, 7)
            + Frames.frame(1, flags: 4, stream: 1, Frames.status200 + Frames.literal("apns-id", "x"))
            + Frames.frame(0, flags: 1, stream: 1, [1, 2])
            + Frames.frame(1, flags: 4, stream: 3, Frames.status200)
            + Frames.frame(0, flags: 1, stream: 3)
            + Frames.frame(1, flags: 5, stream: 5, [0x8b])
        for byte in script { peer.receive([byte]) }
        // 0x8b is HPACK's entry 11: status 304.
        #expect(
            peer.events() == [
                .settings(7), .answered(1, status: 200), .answered(2, status: 200), .answered(3, status: 304),
            ]
        )
    }

    @Test("a header block in two frames")
    func continuation() throws {
        // Not byte by byte: the library takes a CONTINUATION header in more than eight pieces for a flood.
        let peer = try self.client()
        peer.receive(Frames.frame(1, flags: 1, stream: 1, Frames.status200))
        peer.receive(Frames.frame(9, flags: 4, stream: 1, Frames.literal("retry-after", "9")))
        #expect(peer.answer()?.status == 200)
        #expect(peer.retryAfter == "9")
    }

    @Test("a header list up to the limit is taken, one field more ends the connection")
    func headerBomb() throws {
        // Each field counts 1 + 100 + 32.
        let field = Frames.literal("x", String(repeating: "y", count: 100))
        let status = 7 + 3 + 32
        for (fields, isTooMuch) in [(10, false), (11, true)] {
            let peer = try self.client(HTTP2ClientConfiguration(headerListBytesMax: status + 10 * 133))
            let block = Frames.status200 + (0..<fields).flatMap { _ in field }
            peer.receive(Frames.frame(1, flags: 5, stream: 1, block))
            if isTooMuch {
                #expect(peer.events().last == .closed(.limitExceeded(.headerList)))
                let goodbye = peer.outbound()
                #expect(goodbye == Frames.frame(7, Frames.bigEndian(0) + Frames.bigEndian(0xb)))
            } else {
                #expect(peer.events() == [.answered(1, status: 200)])
            }
        }
    }

    @Test("an HPACK bomb ends the connection")
    func indexedBomb() throws {
        // 3 KB into the table, then pointed at 5,000 times by one byte each.
        let value = [UInt8](repeating: 0x61, count: 3_000)
        let entry: [UInt8] = [0x40, 1, 0x78, 0x7f] + [0xb9, 0x16] + value
        let peer = try self.client()
        peer.receive(
            Frames.frame(1, flags: 4, stream: 1, Frames.status200 + entry + [UInt8](repeating: 0xbe, count: 5_000))
        )
        #expect(peer.events().last == .closed(.limitExceeded(.headerList)))
    }

    @Test("CONTINUATION without end ends the connection")
    func continuationFlood() throws {
        let peer = try self.client()
        peer.receive(Frames.frame(1, stream: 1, Frames.status200))
        for _ in 0..<10_000 where !peer.isFinished { peer.receive(Frames.frame(9, stream: 1, [])) }
        _ = peer.outbound()
        #expect(peer.isFinished)
        self.expectEnd(peer)
    }

    @Test("PINGs whose acknowledgements pile up end the connection")
    func pingFlood() throws {
        let peer = try self.client()
        let ping = Frames.frame(6, [UInt8](repeating: 0, count: 8))
        peer.receive(Array(repeatElement(ping, count: HTTP2Limits.acknowledgementsMax).joined()))
        #expect(!peer.isFinished)
        peer.receive(ping + ping)
        #expect(peer.events().last == .closed(.limitExceeded(.acknowledgements)))
    }

    @Test("SETTINGS whose acknowledgements pile up end the connection")
    func settingsFlood() throws {
        let peer = try self.client()
        let settings = Frames.frame(4, [])
        peer.receive(Array(repeatElement(settings, count: HTTP2Limits.acknowledgementsMax).joined()))
        #expect(!peer.isFinished)
        peer.receive(settings + settings)
        #expect(peer.events().last == .closed(.limitExceeded(.acknowledgements)))
    }

    @Test(
        "frames that bring nothing forward end the connection, however politely they are taken",
        arguments: [
            Frames.frame(6, [UInt8](repeating: 0, count: 8)), Frames.frame(4, []), Frames.frame(8, Frames.bigEndian(1)),
            Frames.frame(8, stream: 1, Frames.bigEndian(1)), Frames.frame(2, stream: 1, [0, 0, 0, 0, 1]),
            Frames.frame(0, stream: 1, []), Frames.frame(0xbe, [1]),
        ]
    )
    func controlFlood(frame: [UInt8]) throws {
        let peer = try self.client()
        var taken = 0
        while !peer.isFinished, taken < 2 * HTTP2Limits.controlFramesMax {
            peer.receive(Array(repeatElement(frame, count: 100).joined()))
            _ = peer.outbound()
            taken += 100
        }
        #expect(peer.events().last == .closed(.limitExceeded(.controlFrames)))
        #expect(taken <= HTTP2Limits.controlFramesMax + 100, "\(taken)")
    }

    @Test("SETTINGS with too many entries end the connection")
    func settingsBomb() throws {
        let entry: [UInt8] = [0xff, 0xf0, 0, 0, 0, 1]
        let most = HTTP2Limits.settingsEntriesMax
        let decent = try self.client()
        decent.receive(Frames.frame(4, Array(repeatElement(entry, count: most).joined())))
        #expect(!decent.isFinished)
        let peer = try self.client()
        peer.receive(Frames.frame(4, Array(repeatElement(entry, count: most + 1).joined())))
        _ = peer.outbound()
        #expect(peer.isFinished)
    }

    @Test("GOAWAYs without end end the connection")
    func goAwayFlood() throws {
        let peer = try self.client()
        let goAway = Frames.frame(7, Frames.bigEndian(5) + Frames.bigEndian(0))
        for _ in 0..<HTTP2Limits.goAwaysMax { peer.receive(goAway) }
        #expect(!peer.isFinished)
        peer.receive(goAway)
        #expect(peer.events().last == .closed(.limitExceeded(.goAways)))
    }

    @Test("GOAWAY's debug data is cut")
    func goAwayDebug() throws {
        for count in [HTTP2Limits.goAwayDebugBytesMax, HTTP2Limits.goAwayDebugBytesMax + 1] {
            let peer = try self.client()
            let debug = [UInt8](repeating: 0x61, count: count)
            peer.receive(Frames.frame(7, Frames.bigEndian(5) + Frames.bigEndian(2) + debug))
            let kept = String(repeating: "a", count: HTTP2Limits.goAwayDebugBytesMax)
            #expect(peer.events() == [.goAway(.internalError, last: 5, debug: kept)])
        }
    }

    @Test(
        "an answer without a status, and one with an impossible status, reset the stream only"
    )
    func badStatus() throws {
        let peer = try self.client()
        peer.receive(Frames.frame(1, flags: 5, stream: 1, Frames.literal("apns-id", "x")))
        peer.receive(Frames.frame(1, flags: 5, stream: 3, Frames.literal(":status", "2x0")))
        peer.receive(Frames.frame(1, flags: 5, stream: 5, Frames.status200))
        _ = peer.outbound()
        #expect(
            Set(peer.events()) == [.reset(1, .protocolError), .reset(2, .protocolError), .answered(3, status: 200)]
        )
    }

    @Test("interim answers and trailers do not count")
    func interim() throws {
        let peer = try self.client()
        peer.receive(
            Frames.frame(1, flags: 4, stream: 1, Frames.literal(":status", "103") + Frames.literal("retry-after", "1"))
        )
        peer.receive(Frames.frame(1, flags: 4, stream: 1, Frames.literal(":status", "503")))
        peer.receive(Frames.frame(0, stream: 1, [1, 2, 3]))
        peer.receive(Frames.frame(1, flags: 5, stream: 1, Frames.literal("retry-after", "2")))
        let answer = peer.answer()
        #expect(answer?.status == 503)
        #expect(answer?.bodyCount == 3)
        #expect(peer.retryAfter == nil)
    }

    @Test("a server survives a client that does not speak HTTP/2", arguments: 0..<50)
    func badClient(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        var server = try HTTP2ServerSession()
        var script = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
        if seed.isMultiple(of: 2) { script = [] }
        script += (0..<2_000).map { _ in .random(in: 0...255, using: &generator) }
        server.receive(script.span)
        var buffer = ByteBuffer()
        while server.wantsWrite, server.drainOutbound(into: &buffer, limit: 1_000) {}
        var isClosed = false
        while let event = server.nextEvent() {
            if case .closed = event { isClosed = true }
        }
        #expect(isClosed, "seed \(seed)")
    }

    /// Every tag had exactly one event, and the end came last, once.
    private func expectEnd(_ peer: Peer, _ comment: Comment = "") {
        let events = peer.events()
        var tags: [UInt64] = []
        var ends = 0
        for event in events {
            switch event {
            case .answered(let tag, _), .refused(let tag), .unsent(let tag, _), .reset(let tag, _), .timedOut(let tag):
                tags.append(tag)
            case .closed: ends += 1
            case .goAway, .settings, .ping: break
            }
        }
        #expect(tags.sorted() == [1, 2, 3], comment)
        #expect(ends == 1, comment)
        if case .closed = events.last {} else { Issue.record("\(events)") }
    }
}
