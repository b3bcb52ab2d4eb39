import ApusTLS
import NIOCore
import NIOPosix
import Testing

/// The handler over real sockets of this machine.
@Suite(.timeLimit(.minutes(1))) struct LoopbackTests {
    private let client: TLSContext
    private let server: TLSContext

    init() throws {
        let root = try TestCertificates.authority()
        self.client = try .client(trust: .pem(root.certificatePEM), alpn: ["h2"])
        self.server = try .server(identity: root.issue(TestCertificates.profile()), alpn: ["h2"])
    }

    @Test func aConversationReadsLikeThis() async throws {
        var listener = try await TestListener.start(context: self.server)
        var client = try await TestPeer.connect(port: listener.port, context: self.client)
        var server = try #require(await listener.accept())

        let seen = try #require(await client.handshake())
        #expect(seen.alpn == "h2")
        #expect(seen.version == "TLSv1.3")
        #expect(await server.handshake()?.serverName == "localhost")

        try await client.write("ping")
        #expect(String(buffer: await server.bytes(4)) == "ping")
        try await server.write("pong")
        #expect(String(buffer: await client.bytes(4)) == "pong")

        try await client.channel.close()
        #expect(await client.isInactive())
        // A clean close: no error before the end.
        #expect(await server.isInactive())
        try await listener.channel.close()
    }

    @Test func whatIsWrittenBeforeTheHandshakeWaits() async throws {
        var listener = try await TestListener.start(context: self.server)
        let client = try await TestPeer.connect(port: listener.port, context: self.client)
        try await client.write("early")
        var server = try #require(await listener.accept())
        #expect(await server.handshake() != nil)
        #expect(String(buffer: await server.bytes(5)) == "early")
        try await client.channel.close()
        try await listener.channel.close()
    }

    @Test func muchTravelsBothWays() async throws {
        let listener = try await TestListener.start(context: self.server, echoes: true)
        var client = try await TestPeer.connect(port: listener.port, context: self.client)
        #expect(await client.handshake() != nil)
        let count = 8 * 1_024 * 1_024
        let sent = ByteBuffer(bytes: (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 9) })
        client.channel.writeAndFlush(sent, promise: nil)
        #expect(await client.bytes(count) == sent)
        try await client.channel.close()
        try await listener.channel.close()
    }

    @Test func whatWasFlushedArrivesBeforeTheClose() async throws {
        var listener = try await TestListener.start(context: self.server)
        var client = try await TestPeer.connect(port: listener.port, context: self.client)
        var server = try #require(await listener.accept())
        #expect(await client.handshake() != nil)
        #expect(await server.handshake() != nil)
        let count = 4 * 1_024 * 1_024
        client.channel.writeAndFlush(ByteBuffer(repeating: 7, count: count), promise: nil)
        async let closed: Void = client.channel.close()
        #expect(await server.bytes(count).readableBytes == count)
        #expect(await server.isInactive())
        try await closed
        try await listener.channel.close()
    }

    @Test func aServerOfAnotherNameIsRefusedOnBothSides() async throws {
        var listener = try await TestListener.start(context: self.server)
        var client = try await TestPeer.connect(port: listener.port, context: self.client, serverName: "example.com")
        var server = try #require(await listener.accept())
        let error = try #require(await client.failure())
        #expect(error.verification == .nameMismatch)
        #expect(await client.isInactive())
        #expect(await server.failure()?.code == .peerAlert)
        #expect(await server.isInactive())
        try await listener.channel.close()
    }

    @Test func aCutConnectionIsNotAClose() async throws {
        var listener = try await TestListener.start(context: self.server)
        var client = try await TestPeer.connect(port: listener.port, context: self.client)
        let server = try #require(await listener.accept())
        #expect(await client.handshake() != nil)
        try await server.write("half of")
        #expect(await client.bytes(7).readableBytes == 7)
        // Around the handler: the socket closes, and nothing says so before.
        let channel = server.channel
        try await channel.eventLoop.submit {
            try channel.pipeline.syncOperations.context(handlerType: TLSHandler.self).close(promise: nil)
        }.get()
        #expect(await client.failure()?.code == .closedWithoutCloseNotify)
        #expect(await client.isInactive())
        try await listener.channel.close()
    }

    @Test func aSilentServerIsGivenUp() async throws {
        let listener = try await TestListener.start(context: nil)
        var limits = TLSHandler.Limits()
        limits.handshakeTimeout = .milliseconds(50)
        var client = try await TestPeer.connect(port: listener.port, context: self.client, limits: limits)
        #expect(await client.failure()?.code == .handshakeTimedOut)
        #expect(await client.isInactive())
        try await listener.channel.close()
    }

    @Test func aServerThatLeavesDuringTheHandshakeIsAnError() async throws {
        var listener = try await TestListener.start(context: nil)
        // On a busy machine the server may leave late.
        var limits = TLSHandler.Limits()
        limits.handshakeTimeout = .seconds(120)
        var client = try await TestPeer.connect(port: listener.port, context: self.client, limits: limits)
        var server = try #require(await listener.accept())
        // The first message has come; a close that leaves bytes unread would be a reset instead.
        _ = await server.next()
        try await server.channel.close()
        #expect(await client.failure()?.code == .closedDuringHandshake)
        #expect(await client.isInactive())
        try await listener.channel.close()
    }

    @Test func aServerThatSpeaksNoTLSIsRefused() async throws {
        var listener = try await TestListener.start(context: nil)
        var client = try await TestPeer.connect(port: listener.port, context: self.client)
        let server = try #require(await listener.accept())
        try await server.write("-ERR unknown command\r\n")
        #expect(await client.failure()?.code == .protocolViolation)
        #expect(await client.isInactive())
        try await listener.channel.close()
    }

    @Test func theLastAnswerArrivesBeforeTheEnd() async throws {
        var listener = try await TestListener.start(context: self.server)
        var client = try await TestPeer.connect(port: listener.port, context: self.client)
        var server = try #require(await listener.accept())
        #expect(await client.handshake() != nil)
        #expect(await server.handshake() != nil)
        try await server.write("all of it")
        try await server.channel.close()
        #expect(String(buffer: await client.bytes(9)) == "all of it")
        #expect(await client.isInactive())
        try await listener.channel.close()
    }
}
