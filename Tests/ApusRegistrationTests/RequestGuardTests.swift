import ApusMetrics
import HTTPTypes
import NIOCore
import NIOEmbedded
import NIOHTTPTypes
import Testing

@testable import ApusRegistration

/// Connections whose time the test moves.
@Suite struct RequestGuardTests {
    private static let timeout = TimeAmount.seconds(10)
    private static let pause = TimeAmount(APILimits.importPause)

    /// A connection on which an import has begun.
    private static func connection(idleTimeout: TimeAmount? = nil) throws -> EmbeddedChannel {
        var catalogue = MetricCatalogue()
        let metrics = catalogue.declare { RegistrationMetrics() }
        let requestGuard = RequestGuard(
            requestTimeout: Self.timeout,
            idleTimeout: idleTimeout,
            anybody: MemoryBudget(limit: 1 << 20),
            metrics: metrics,
            shared: MetricRegistry(catalogue).shared,
        )
        let channel = EmbeddedChannel()
        try channel.pipeline.syncOperations.addHandler(requestGuard)
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        try Self.begin(on: channel)
        return channel
    }

    private static func begin(on channel: EmbeddedChannel) throws {
        let path = "/v1/apps/shop/devices:import"
        let head = HTTPRequest(method: .post, scheme: nil, authority: "localhost", path: path)
        try channel.writeInbound(HTTPRequestPart.head(head))
    }

    private static func receive(_ count: Int, on channel: EmbeddedChannel) throws {
        try channel.writeInbound(HTTPRequestPart.body(ByteBuffer(repeating: 0x20, count: count)))
    }

    private static func answer(_ status: HTTPResponse.Status, on channel: EmbeddedChannel) throws {
        try channel.writeOutbound(HTTPResponsePart.head(HTTPResponse(status: status)))
    }

    @Test func `An import that is accepted may be of any length and take as long as it goes on`() throws {
        let channel = try Self.connection()
        try Self.answer(.ok, on: channel)
        for _ in 0..<20 {
            try Self.receive(APILimits.discardedBytesMax, on: channel)
            channel.embeddedEventLoop.advanceTime(by: Self.pause - .milliseconds(1))
            #expect(channel.isActive)
        }
        channel.embeddedEventLoop.advanceTime(by: .milliseconds(1))
        #expect(!channel.isActive)
    }

    @Test func `A connection may be silent between requests for its own time, and an import pause for longer`() throws {
        let idleTimeout = TimeAmount.seconds(5)
        let channel = try Self.connection(idleTimeout: idleTimeout)
        try Self.answer(.ok, on: channel)
        for _ in 0..<2 {
            channel.embeddedEventLoop.advanceTime(by: Self.pause - .milliseconds(1))
            #expect(channel.isActive)
            try Self.receive(1, on: channel)
        }
        try channel.writeInbound(HTTPRequestPart.end(nil))
        // It is still being answered.
        channel.embeddedEventLoop.advanceTime(by: Self.pause)
        #expect(channel.isActive)
        try channel.writeOutbound(HTTPResponsePart.end(nil))
        channel.embeddedEventLoop.advanceTime(by: idleTimeout - .milliseconds(1))
        #expect(channel.isActive)

        try Self.begin(on: channel)
        channel.embeddedEventLoop.advanceTime(by: Self.pause - .milliseconds(1))
        #expect(channel.isActive)
        // It is answered before it has arrived.
        try Self.answer(.ok, on: channel)
        try channel.writeOutbound(HTTPResponsePart.end(nil))
        try channel.writeInbound(HTTPRequestPart.end(nil))
        channel.embeddedEventLoop.advanceTime(by: idleTimeout - .milliseconds(1))
        #expect(channel.isActive)
        channel.embeddedEventLoop.advanceTime(by: .milliseconds(1))
        #expect(!channel.isActive)
    }

    @Test(arguments: [401, 403, 415, 503])
    func `Of an import that is refused no more is read than of any other request`(_ status: Int) throws {
        let long = try Self.connection()
        try Self.receive(4 * APILimits.discardedBytesMax, on: long)
        try Self.answer(.init(code: status), on: long)
        try Self.receive(APILimits.discardedBytesMax, on: long)
        #expect(long.isActive)
        try Self.receive(1, on: long)
        #expect(!long.isActive)

        let slow = try Self.connection()
        try Self.answer(.init(code: status), on: slow)
        for _ in 0..<9 {
            slow.embeddedEventLoop.advanceTime(by: .seconds(1))
            try Self.receive(1, on: slow)
        }
        slow.embeddedEventLoop.advanceTime(by: .milliseconds(999))
        #expect(slow.isActive)
        slow.embeddedEventLoop.advanceTime(by: .milliseconds(1))
        #expect(!slow.isActive)
    }

    @Test func `A refusal of the request before it leaves an import its limits`() throws {
        let channel = try Self.connection()
        try channel.writeInbound(HTTPRequestPart.end(nil))
        try Self.begin(on: channel)
        try Self.answer(.unsupportedMediaType, on: channel)
        try channel.writeOutbound(HTTPResponsePart.end(nil))
        try Self.answer(.ok, on: channel)
        try Self.receive(2 * APILimits.discardedBytesMax, on: channel)
        channel.embeddedEventLoop.advanceTime(by: Self.pause - .milliseconds(1))
        #expect(channel.isActive)
    }

    @Test func `Answers of an import may lie unread as long as its body arrives, and no longer`() throws {
        let channel = try Self.connection()
        try Self.answer(.ok, on: channel)
        channel.isWritable = false
        channel.pipeline.fireChannelWritabilityChanged()
        for _ in 0..<20 {
            channel.embeddedEventLoop.advanceTime(by: Self.pause - .milliseconds(1))
            #expect(channel.isActive)
            try Self.receive(1, on: channel)
        }
        try channel.writeInbound(HTTPRequestPart.end(nil))
        channel.embeddedEventLoop.advanceTime(by: Self.pause - .milliseconds(1))
        #expect(channel.isActive)
        channel.embeddedEventLoop.advanceTime(by: .milliseconds(1))
        #expect(!channel.isActive)
    }
}
