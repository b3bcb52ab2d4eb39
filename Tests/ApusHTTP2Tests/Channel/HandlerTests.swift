import ApusHTTP2
import NIOCore
import NIOPosix
import Testing

@Suite struct HandlerTests {
    private static let ok: Answer = { handler, request in
        handler.respond(to: request.streamID, HTTP2Response(status: 200))
    }

    @Test(
        "thousands of requests over a socket are all answered, within the peer's limit"
    )
    func thousands() async throws {
        let configuration = HTTP2ServerConfiguration(maxConcurrentStreams: 50)
        try await withServer(configuration: configuration, answer: Self.ok) { port in
            let connection = try await Connection.open(port: port, total: 5_000)
            try await connection.finished.get()
            try await connection.run { handler, sender in
                #expect(sender.answered.values.allSatisfy { $0 == 200 })
                #expect(sender.fullCount > 0)
                // 100 until the SETTINGS came, 50 after.
                #expect(sender.inFlightMax <= 100)
                #expect(handler.streamsMax == 50)
                #expect(handler.inFlight == 0)
                handler.startDraining()
            }
            #expect(try await connection.ended.get() == .drained)
            try await connection.channel.closeFuture.get()
        }
    }

    @Test("bodies larger than any buffer go through")
    func largeBodies() async throws {
        let echo: Answer = { handler, request in
            let status = request.body.count == 150_000 ? 200 : 400
            handler.respond(to: request.streamID, HTTP2Response(status: status, body: request.body))
        }
        let configuration = HTTP2ServerConfiguration(bodyBytesMax: 200_000)
        try await withServer(configuration: configuration, answer: echo) { port in
            let template = Samples.make(path: .constant("/"), body: .shared([UInt8](repeating: 1, count: 150_000)))
            let connection = try await Connection.open(port: port, total: 100, template: template)
            try await connection.finished.get()
            try await connection.run { handler, sender in
                #expect(sender.answered.values.allSatisfy { $0 == 200 })
                #expect(sender.refusedCount == 0)
                handler.close()
            }
            #expect(try await connection.ended.get() == .closed)
        }
    }

    @Test("a request that is never answered times out, and the connection goes on")
    func timeout() async throws {
        let answer: Answer = { handler, request in
            guard request.path != "/never" else { return }
            handler.respond(to: request.streamID, HTTP2Response(status: 200))
        }
        try await withServer(answer: answer) { port in
            let connection = try await Connection.open(port: port, total: 1)
            try await connection.finished.get()
            try await connection.run { handler, _ in
                let never = try PlainRequest(method: "GET", authority: "a", path: "/never")
                let result = handler.submitPlain(never, tag: 77, deadline: .now() + .milliseconds(20))
                #expect(result == .submitted)
            }
            while try await connection.run({ _, sender in !sender.others.contains(.timedOut(77)) }) {
                await Task.yield()
            }
            try await connection.run { handler, _ in
                #expect(handler.isOpen)
                #expect(handler.ping(deadline: .now() + .seconds(30)))
            }
            while try await connection.run({ handler, sender in
                !sender.others.contains { if case .ping = $0 { true } else { false } } || handler.inFlight > 0
            }) {
                await Task.yield()
            }
            try await connection.run { handler, _ in handler.close() }
        }
    }

    @Test("delayed answers and resets arrive as such")
    func delayedAndReset() async throws {
        let answer: Answer = { handler, request in
            if request.streamID == 1 {
                handler.respond(to: 1, HTTP2Response(status: 410), after: .milliseconds(10))
            } else if request.streamID == 3 {
                handler.reset(3, code: .refusedStream)
            } else {
                handler.goAway(lastStreamID: 5, code: .noError, debug: Array("why".utf8))
                handler.respond(to: 5, HTTP2Response(status: 200))
            }
        }
        try await withServer(answer: answer) { port in
            let connection = try await Connection.open(port: port, total: 3, isResending: false)
            #expect(try await connection.ended.get() == .goAway(.noError))
            try await connection.run { _, sender in
                #expect(sender.answered == [0: 410, 2: 200])
                #expect(
                    Set(sender.others).subtracting([.settings(1_000)]) == [
                        .refused(1), .goAway(.noError, last: 5, debug: "why"),
                    ]
                )
            }
        }
    }

    @Test("a peer that goes away without a word leaves no tag without its event")
    func peerGone() async throws {
        let answer: Answer = { handler, request in if request.streamID == 19 { handler.close() } }
        try await withServer(answer: answer) { port in
            let connection = try await Connection.open(port: port, total: 10)
            let reason = try await connection.ended.get()
            guard case .transport = reason else {
                Issue.record("\(reason)")
                return
            }
            try await connection.run { handler, sender in
                let lost = sender.others.filter { if case .reset(_, nil) = $0 { true } else { false } }
                #expect(Set(lost).count == 10)
                #expect(!handler.isOpen)
            }
        }
    }

    @Test("a peer that stops reading makes the handler say full, not grow")
    func backPressure() async throws {
        // Accepts, opens all windows, and reads nothing any more.
        let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelOption(.autoRead, value: false)
            .childChannelOption(.socketOption(.so_rcvbuf), value: 4_096)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(Opener()) }
            }
            .bind(host: "127.0.0.1", port: 0)
            .get()
        let template = Samples.make(path: .constant("/"), body: .shared([UInt8](repeating: 1, count: 250_000)))
        let connection = try await Connection.open(
            port: server.localAddress?.port ?? 0,
            total: 100_000,
            template: template,
            configuration: HTTP2ClientConfiguration(streamsMax: 100_000, streamsMaxBeforeSettings: 100_000),
        )
        while try await connection.run({ handler, _ in handler.isWritable }) { await Task.yield() }
        try await connection.run { handler, sender in
            #expect(!handler.hasCapacity)
            let inFlight = handler.inFlight
            sender.fill(handler)
            #expect(handler.inFlight == inFlight)
            #expect(handler.isOpen)
        }
        try await connection.channel.close()
        try await server.close()
    }

    @Test("something that is not HTTP/2 is closed")
    func notHTTP2() async throws {
        let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(OldServer()) }
            }
            .bind(host: "127.0.0.1", port: 0)
            .get()
        let connection = try await Connection.open(port: server.localAddress?.port ?? 0, total: 1)
        #expect(try await connection.ended.get() == .notHTTP2)
        try await connection.channel.closeFuture.get()
        try await server.close()
    }
}

/// Permits everything at once.
private final class Opener: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    func channelActive(context: ChannelHandlerContext) {
        let bytes = Frames.settings(4, 0x7fff_ffff) + Frames.frame(8, Frames.bigEndian(0x7000_0000))
        context.writeAndFlush(self.wrapOutboundOut(ByteBuffer(bytes: bytes)), promise: nil)
    }
}

/// Answers whatever comes as servers of the last century do.
private final class OldServer: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let answer = ByteBuffer(string: "HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n")
        context.writeAndFlush(self.wrapOutboundOut(answer), promise: nil)
    }
}
