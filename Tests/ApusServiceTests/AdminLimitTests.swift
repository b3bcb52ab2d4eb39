import HTTPTypes
import NIOCore
import NIOEmbedded
import NIOHTTPTypes
import NIOPosix
import Testing

@testable import ApusService

/// The limits of the admin endpoints, each with one more.
@Suite struct AdminLimitTests {
    private static let request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"

    /// Stands for the decoder: H is a head, E the end of a request, B one byte of content, and anything else a part of a head.
    private final class Decoder: ChannelInboundHandler, Sendable {
        typealias InboundIn = ByteBuffer
        typealias InboundOut = HTTPRequestPart

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            let bytes = self.unwrapInboundIn(data)
            let content = bytes.readableBytesView.filter { $0 == UInt8(ascii: "B") }
            if bytes.readableBytesView.contains(UInt8(ascii: "H")) {
                let head = HTTPRequest(method: .get, scheme: nil, authority: "localhost", path: "/healthz")
                context.fireChannelRead(self.wrapInboundOut(.head(head)))
            }
            if !content.isEmpty { context.fireChannelRead(self.wrapInboundOut(.body(ByteBuffer(bytes: content)))) }
            if bytes.readableBytesView.contains(UInt8(ascii: "E")) {
                context.fireChannelRead(self.wrapInboundOut(.end(nil)))
            }
        }
    }

    /// A connection whose time the test moves.
    private static func connection() throws -> EmbeddedChannel {
        let channel = EmbeddedChannel()
        let adminGuard = AdminGuard()
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHandlers([adminGuard.makeByteHandler(), Decoder(), adminGuard])
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        return channel
    }

    private static func write(_ text: String, to channel: EmbeddedChannel) throws {
        try channel.writeInbound(ByteBuffer(string: text))
    }

    @Test func `Whoever says nothing, or a byte now and then, has ten seconds for a request`() throws {
        let silent = try Self.connection()
        silent.embeddedEventLoop.advanceTime(by: AdminLimits.requestTime - .milliseconds(1))
        #expect(silent.isActive)
        silent.embeddedEventLoop.advanceTime(by: .milliseconds(1))
        #expect(!silent.isActive)

        let dripping = try Self.connection()
        try Self.write("HE", to: dripping)
        // The first request is there: what follows has a time of its own.
        dripping.embeddedEventLoop.advanceTime(by: .seconds(30))
        #expect(dripping.isActive)
        for _ in 0..<9 {
            try Self.write("G", to: dripping)
            dripping.embeddedEventLoop.advanceTime(by: .seconds(1))
            #expect(dripping.isActive)
        }
        try Self.write("G", to: dripping)
        dripping.embeddedEventLoop.advanceTime(by: .seconds(1))
        #expect(!dripping.isActive)
    }

    @Test func `An answer that nobody reads ends after ten seconds, and one that goes on does not`() throws {
        let channel = try Self.connection()
        try Self.write("HE", to: channel)
        for isWritable in [false, true, false] {
            channel.isWritable = isWritable
            channel.pipeline.fireChannelWritabilityChanged()
            channel.embeddedEventLoop.advanceTime(by: AdminLimits.answerTime - .milliseconds(1))
            #expect(channel.isActive)
        }
        channel.embeddedEventLoop.advanceTime(by: .milliseconds(1))
        #expect(!channel.isActive)
    }

    @Test func `The content of a request, which nobody needs, has a limit`() throws {
        let channel = try Self.connection()
        try Self.write("H", to: channel)
        try Self.write(String(repeating: "B", count: AdminLimits.contentBytesMax), to: channel)
        #expect(channel.isActive)
        try Self.write("B", to: channel)
        #expect(!channel.isActive)
    }

    @Test func `A connection may be silent for five minutes between two requests`() throws {
        let channel = try Self.connection()
        for _ in 0..<2 {
            try Self.write("HE", to: channel)
            try channel.writeOutbound(HTTPResponsePart.end(nil))
            channel.embeddedEventLoop.advanceTime(by: AdminLimits.idleTime - .milliseconds(1))
            #expect(channel.isActive)
        }
        channel.embeddedEventLoop.advanceTime(by: .milliseconds(1))
        #expect(!channel.isActive)
    }

    @Test func `Headers have limits of size and number`() async throws {
        try await withChassis { port, _, _ in
            let long = String(repeating: "x", count: AdminLimits.headerFieldBytesMax)
            let third = "x: " + String(repeating: "y", count: AdminLimits.headerBytesMax / 3)
            // Two are the client's own.
            let most = (0..<AdminLimits.headerFieldsMax - 2).map { "x-\($0): y" }
            for (headers, status) in [
                (["x: " + long.dropLast(64)], 200), (["x: y" + long], 400), ([third, third], 200),
                ([third, third, third], 400), (most, 200), (most + ["one-more: y"], 400),
            ] {
                let answer = try await PlainHTTP.ask(port: port, "/healthz", headers)
                #expect(answer.status == status, "\(headers.count) headers, \(headers[0].utf8.count) bytes the first")
            }
        }
    }

    @Test func `One connection more than there may be is closed, and one that ends makes room`() async throws {
        try await withChassis { port, _, _ in
            var open: [any Channel] = []
            while open.count < AdminLimits.connectionsMax {
                let channel = try await Self.connect(port)
                // It is counted when it was answered, and may be silent from then on.
                #expect(await Self.isAnswered(channel))
                open.append(channel)
            }
            let surplus = try await Self.connect(port)
            #expect(await !Self.isAnswered(surplus))
            #expect(open.count { !$0.isActive } == 0)
            try await open.removeLast().close()
            _ = try await until {
                let answer = try? await PlainHTTP.ask(port: port, "/healthz")
                return answer?.status == 200 ? true : nil
            }
            for channel in open { try await channel.close() }
        }
    }

    private static func connect(_ port: Int) async throws -> any Channel {
        try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(FirstBytes(channel.eventLoop))
                }
            }
            .connect(host: "127.0.0.1", port: port).get()
    }

    /// Returns true when a request on a connection is answered, false when the connection ends instead.
    private static func isAnswered(_ channel: any Channel) async -> Bool {
        do {
            try await channel.writeAndFlush(ByteBuffer(string: Self.request))
            return try await channel.pipeline.handler(type: FirstBytes.self).get().arrived.get()
        } catch {
            return false
        }
    }

    /// Tells whether something has arrived, or nothing will.
    private final class FirstBytes: ChannelInboundHandler, Sendable {
        typealias InboundIn = ByteBuffer

        private let promise: EventLoopPromise<Bool>
        var arrived: EventLoopFuture<Bool> { self.promise.futureResult }

        init(_ loop: any EventLoop) { self.promise = loop.makePromise() }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) { self.promise.succeed(true) }
        func channelInactive(context: ChannelHandlerContext) { self.promise.succeed(false) }
    }
}
