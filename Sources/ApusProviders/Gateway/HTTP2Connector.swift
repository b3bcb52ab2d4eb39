internal import ApusHTTP2
internal import ApusTLS
internal import NIOCore
internal import NIOPosix

/// Makes connections that speak HTTP/2 over TLS. The name is looked up anew each time.
enum HTTP2Connector {
    /// Bytes that may wait in a channel before it stops being writable, and from which on it is again.
    private static let waterMark = ChannelOptions.Types.WriteBufferWaterMark(low: 128 * 1_024, high: 512 * 1_024)

    /// Connects and shakes hands. `handler` is in the pipeline when the future succeeds: with how long the handshake took, in
    /// nanoseconds.
    static func connect(
        host: String,
        port: Int,
        tls: TLSContext,
        handler: HTTP2ClientHandler,
        timeout: TimeAmount,
        on eventLoop: any EventLoop,
    ) -> EventLoopFuture<Int64> {
        eventLoop.preconditionInEventLoop()
        let established = eventLoop.makePromise(of: Int64.self)
        let box = NIOLoopBound(handler, eventLoop: eventLoop)
        var limits = TLSHandler.Limits()
        limits.handshakeTimeout = timeout
        ClientBootstrap(group: eventLoop)
            .connectTimeout(timeout)
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelOption(.writeBufferWaterMark, value: Self.waterMark)
            .channelInitializer { [limits] channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    try pipeline.addHandler(TLSHandler(client: tls, serverName: host, limits: limits))
                    try pipeline.addHandler(HandshakeWatcher(next: box.value, established: established))
                }
            }
            .connect(host: host, port: port)
            .whenFailure { established.fail($0) }
        return established.futureResult
    }
}

/// Waits for the end of the handshake, puts the next handler in its own place and is gone.
private final class HandshakeWatcher: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer

    private let next: HTTP2ClientHandler
    private let established: EventLoopPromise<Int64>
    private var startedAt = NIODeadline.now()

    init(next: HTTP2ClientHandler, established: EventLoopPromise<Int64>) {
        self.next = next
        self.established = established
    }

    func channelActive(context: ChannelHandlerContext) {
        self.startedAt = .now()
        context.fireChannelActive()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard event is TLSHandshakeCompleted else { return context.fireUserInboundEventTriggered(event) }
        do {
            // In this very call: the server's first bytes may come right behind it.
            try context.pipeline.syncOperations.addHandler(self.next, position: .after(context.handler))
            context.pipeline.syncOperations.removeHandler(context: context, promise: nil)
            self.established.succeed((NIODeadline.now() - self.startedAt).nanoseconds)
        } catch {
            self.established.fail(error)
            context.close(promise: nil)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        self.established.fail(error)
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.established.fail(ChannelError.eof)
        context.fireChannelInactive()
    }
}
