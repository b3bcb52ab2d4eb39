import ApusCore
import ApusTLS
import ApusTestKit
import NIOCore
import NIOEmbedded
import Testing

@testable import ApusRedis

/// Tests when commands leave, on a loop whose time stands still.
@Suite struct RedisChannelHandlerTests {
    private final class Wire {
        let channel = EmbeddedChannel()
        let handler: RedisChannelHandler

        init() throws {
            self.handler = RedisChannelHandler(
                limits: .init(pendingMax: 10, outboundBytesMax: 1_000, keepAlive: .hours(1), pingTimeout: .seconds(1)),
                eventLoop: self.channel.embeddedEventLoop,
                observer: nil,
            )
            try self.channel.pipeline.syncOperations.addHandler(self.handler)
        }

        func send(_ name: String, mayWait: Bool) -> EventLoopFuture<RESPReply> {
            let reply = self.channel.embeddedEventLoop.makePromise(of: RESPReply.self)
            self.handler.submit(
                RedisCommand(name),
                timeout: .seconds(5),
                mayBlock: false,
                mayWait: mayWait,
                reply.receive
            )
            self.channel.embeddedEventLoop.run()
            return reply.futureResult
        }

        /// Returns what has left since the last call, one text for each write.
        func left() throws -> [String] {
            var writes: [String] = []
            while let bytes = try self.channel.readOutbound(as: ByteBuffer.self) {
                writes.append(String(buffer: bytes))
            }
            return writes
        }
    }

    private static func encoded(_ name: String) -> String { "*1\r\n$\(name.utf8.count)\r\n\(name)\r\n" }

    @Test func `Commands are refused while the socket has not taken a thousand bytes, and go on when it has`() throws {
        let wire = try Wire()
        let name = String(repeating: "A", count: 400)
        // While the socket takes everything, any number may follow.
        for _ in 0..<4 { _ = wire.send(name, mayWait: false) }
        wire.channel.isWritable = false
        let accepted = (0..<2).map { _ in wire.send(name, mayWait: false) }
        let refused = wire.send(name, mayWait: false)
        #expect(throws: RedisError.self) { try refused.wait() }
        wire.channel.isWritable = true
        wire.channel.pipeline.fireChannelWritabilityChanged()
        let next = wire.send(name, mayWait: false)
        try wire.channel.writeInbound(ByteBuffer(string: String(repeating: ":1\r\n", count: 7)))
        for reply in accepted + [next] { #expect(try reply.wait().root.integer == 1) }
    }

    @Test func `A command that may wait leaves with the next one, before it`() throws {
        let wire = try Wire()
        let first = wire.send("SAVED", mayWait: true)
        var left = try wire.left()
        #expect(left.isEmpty)
        let second = wire.send("ASKED", mayWait: false)
        left = try wire.left()
        #expect(left == [Self.encoded("SAVED") + Self.encoded("ASKED")])
        try wire.channel.writeInbound(ByteBuffer(string: ":1\r\n:2\r\n"))
        #expect(try first.wait().root.integer == 1)
        #expect(try second.wait().root.integer == 2)
        wire.channel.embeddedEventLoop.advanceTime(by: .milliseconds(10))
        left = try wire.left()
        #expect(left.isEmpty, "its own time leads to no second write")
    }

    @Test func `A command that may wait leaves alone when no other follows`() throws {
        let wire = try Wire()
        _ = wire.send("SAVED", mayWait: true)
        _ = wire.send("AGAIN", mayWait: true)
        wire.channel.embeddedEventLoop.advanceTime(by: TimeAmount(RedisLimits.waitMax) - .microseconds(1))
        var left = try wire.left()
        #expect(left.isEmpty)
        wire.channel.embeddedEventLoop.advanceTime(by: .microseconds(1))
        left = try wire.left()
        #expect(left == [Self.encoded("SAVED") + Self.encoded("AGAIN")])
    }

    @Test func `A command that waits when the connection ends fails with the reason`() throws {
        let wire = try Wire()
        let reply = wire.send("SAVED", mayWait: true)
        wire.handler.close(RedisError(.disconnected, "lost"))
        wire.channel.embeddedEventLoop.run()
        #expect(throws: RedisError.self) { try reply.wait() }
    }

    /// Takes nothing any more once it is full, as a socket does whose peer does not read.
    private final class Socket: ChannelOutboundHandler {
        typealias OutboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer

        var isFull = false
        private var waiting: [EventLoopPromise<Void>] = []

        func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
            guard self.isFull else { return context.write(data, promise: promise) }
            if let promise { self.waiting.append(promise) }
        }

        func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
            for write in self.waiting { write.fail(ChannelError.ioOnClosedChannel) }
            self.waiting = []
            context.close(mode: mode, promise: promise)
        }
    }

    @Test func `A command that is not answered in time fails over TLS, too, although the peer reads nothing`() throws {
        let validity = CertificateValidity(days: 1, from: SystemClock().now())
        let authority = try CertificateAuthority(name: "Apus test", validity: validity)
        let profile = CertificateProfile(.server, commonName: "redis", ipAddresses: ["127.0.0.1"], validity: validity)
        let folder = try TemporaryFolder()
        let file = try folder.write("ca.pem", authority.certificatePEM)
        let (client, server, socket) = (EmbeddedChannel(), EmbeddedChannel(), Socket())
        let handler = RedisChannelHandler(
            limits: .init(pendingMax: 10, outboundBytesMax: 1_000, keepAlive: .hours(1), pingTimeout: .seconds(1)),
            eventLoop: client.embeddedEventLoop,
            observer: nil,
        )
        try client.pipeline.syncOperations.addHandler(socket)
        try RedisSecurity(RedisConfiguration(url: "rediss://127.0.0.1?ca=\(file)")).addHandler(
            to: client,
            host: "127.0.0.1"
        )
        try client.pipeline.syncOperations.addHandler(handler)
        let context = try TLSContext.server(identity: try authority.issue(profile))
        try server.pipeline.syncOperations.addHandler(try TLSHandler(server: context))
        let address = try SocketAddress(ipAddress: "127.0.0.1", port: 1)
        try client.connect(to: address).wait()
        try server.connect(to: address).wait()
        var moved = true
        while moved {
            moved = false
            while let bytes = try client.readOutbound(as: ByteBuffer.self) {
                try server.writeInbound(bytes)
                moved = true
            }
            while let bytes = try server.readOutbound(as: ByteBuffer.self) {
                try client.writeInbound(bytes)
                moved = true
            }
        }

        socket.isFull = true
        var failure: RedisError?
        handler.submit(RedisCommand("GET"), timeout: .seconds(5), mayBlock: false, mayWait: false) { result in
            if case .failure(let error) = result { failure = error }
        }
        client.embeddedEventLoop.advanceTime(by: .seconds(5))
        client.embeddedEventLoop.advanceTime(by: .milliseconds(100))
        #expect(failure?.code == .timedOut)
        _ = try? client.finish(acceptAlreadyClosed: true)
        _ = try? server.finish(acceptAlreadyClosed: true)
        withExtendedLifetime(folder) {}
    }
}
