internal import ApusCore
internal import ApusHTTP2
internal import ApusNetwork
internal import ApusTLS
internal import NIOCore

/// Opens HTTP/2 connections over TLS, or HTTP/1.1 behind a bridge where the server agrees to no better. The host's name is looked up for each.
enum HTTP2Connector {
    /// The limits of a channel's buffered bytes: above `high` it stops being writable, below `low` it is writable again.
    private static let waterMark = ChannelOptions.Types.WriteBufferWaterMark(low: 128 * 1_024, high: 512 * 1_024)

    /// Connects and performs the handshake. `handler` is in the pipeline when the future succeeds with the duration of
    /// the handshake in nanoseconds.
    ///
    /// - Parameters:
    ///   - host: the host to connect to, for which the certificate must be valid.
    ///   - address: the address to connect to instead; nil for the host's own.
    ///   - names: looks up the host's name when that must lead to addresses of the public internet; nil when it may lead to any.
    static func connect(
        host: String,
        port: Int,
        over address: WebAddress? = nil,
        names: PublicNames? = nil,
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
        var dialer = Dialer(timeout: timeout)
        dialer.resolver = names?.resolver(on: eventLoop)
        dialer.hasNoDelay = true
        dialer.waterMark = Self.waterMark
        dialer.connect(to: .host(address?.host ?? host, port: address?.port ?? port), on: eventLoop) {
            [limits] channel in
            channel.eventLoop.makeCompletedFuture {
                let pipeline = channel.pipeline.syncOperations
                if channel.eventLoop is any VirtualNetworkLoop {
                    try pipeline.addHandler(PlaintextHandshake())
                } else {
                    try pipeline.addHandler(TLSHandler(client: tls, serverName: host, limits: limits))
                }
                try pipeline.addHandler(HandshakeWatcher(next: box.value, established: established))
            }
        }
        .whenFailure { established.fail($0) }
        return established.futureResult
    }
}

/// Stands in the place of TLS in a network that nobody else can see.
private final class PlaintextHandshake: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    func channelActive(context: ChannelHandlerContext) {
        context.fireChannelActive()
        context.fireUserInboundEventTriggered(TLSHandshakeCompleted(alpn: "h2"))
    }
}

/// Waits for the end of the handshake, then replaces itself by the next handler.
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
        guard let handshake = event as? TLSHandshakeCompleted else {
            return context.fireUserInboundEventTriggered(event)
        }
        do {
            // The handler is added within this call, because the server's first bytes may follow immediately.
            let pipeline = context.pipeline.syncOperations
            if handshake.alpn != "h2" { try HTTP1Bridge.add(to: pipeline, after: context.handler) }
            try pipeline.addHandler(self.next)
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
