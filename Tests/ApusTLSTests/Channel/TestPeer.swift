import ApusTLS
import NIOCore
import NIOPosix

/// Records the events of one end of a connection, in order.
enum PeerEvent: Sendable {
    case handshake(TLSHandshakeCompleted)
    case bytes(ByteBuffer)
    case failure(TLSError)
    case otherFailure(String)
    case inactive
}

/// Turns a channel's events into a sequence that a test reads like a trace.
final class PeerRecorder: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let events: AsyncStream<PeerEvent>.Continuation
    private let echoes: Bool

    init(_ events: AsyncStream<PeerEvent>.Continuation, echoes: Bool) {
        self.events = events
        self.echoes = echoes
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if let handshake = event as? TLSHandshakeCompleted { self.events.yield(.handshake(handshake)) }
        context.fireUserInboundEventTriggered(event)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        self.events.yield(.bytes(self.unwrapInboundIn(data)))
        if self.echoes { context.write(data, promise: nil) }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if self.echoes { context.flush() }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        self.events.yield((error as? TLSError).map { .failure($0) } ?? .otherFailure("\(error)"))
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.events.yield(.inactive)
        self.events.finish()
    }
}

/// One end of a connection over loopback.
struct TestPeer {
    let channel: any Channel
    private var events: AsyncStream<PeerEvent>.Iterator

    init(channel: any Channel, events: AsyncStream<PeerEvent>) {
        self.channel = channel
        self.events = events.makeAsyncIterator()
    }

    mutating func next() async -> PeerEvent? { await self.events.next(isolation: #isolation) }

    /// The handshake's result, if that is what comes next.
    mutating func handshake() async -> TLSHandshakeCompleted? {
        if case .handshake(let handshake) = await self.next() { handshake } else { nil }
    }

    /// Plaintext until there is that much, or until something else happens.
    mutating func bytes(_ count: Int) async -> ByteBuffer {
        var all = ByteBuffer()
        while all.readableBytes < count, case .bytes(var bytes) = await self.next() { all.writeBuffer(&bytes) }
        return all
    }

    /// The error, if that is what comes next.
    mutating func failure() async -> TLSError? {
        if case .failure(let error) = await self.next() { error } else { nil }
    }

    /// True when the end comes next.
    mutating func isInactive() async -> Bool {
        if case .inactive = await self.next() { true } else { false }
    }

    func write(_ text: String) async throws { try await self.channel.writeAndFlush(ByteBuffer(string: text)) }

    /// Connects to a port of this machine.
    static func connect(
        port: Int,
        context: TLSContext,
        serverName: String = "localhost",
        limits: TLSHandler.Limits = TLSHandler.Limits(),
    ) async throws -> TestPeer {
        let (events, continuation) = AsyncStream.makeStream(of: PeerEvent.self)
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let handler = try TLSHandler(client: context, serverName: serverName, limits: limits)
                    try channel.pipeline.syncOperations.addHandler(handler)
                    try channel.pipeline.syncOperations.addHandler(PeerRecorder(continuation, echoes: false))
                }
            }
            .connect(host: "127.0.0.1", port: port).get()
        return TestPeer(channel: channel, events: events)
    }
}

/// A server over loopback: each connection comes out as a `TestPeer`.
struct TestListener {
    let channel: any Channel
    private var peers: AsyncStream<TestPeer>.Iterator

    var port: Int { self.channel.localAddress?.port ?? 0 }

    mutating func accept() async -> TestPeer? { await self.peers.next(isolation: #isolation) }

    /// Listens on a free port; without a context as a plain server that says nothing by itself.
    static func start(context: TLSContext?, echoes: Bool = false) async throws -> TestListener {
        let (peers, continuation) = AsyncStream.makeStream(of: TestPeer.self)
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let (events, recorded) = AsyncStream.makeStream(of: PeerEvent.self)
                    if let context {
                        try channel.pipeline.syncOperations.addHandler(TLSHandler(server: context))
                    }
                    try channel.pipeline.syncOperations.addHandler(PeerRecorder(recorded, echoes: echoes))
                    continuation.yield(TestPeer(channel: channel, events: events))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        return TestListener(channel: channel, peers: peers.makeAsyncIterator())
    }
}
