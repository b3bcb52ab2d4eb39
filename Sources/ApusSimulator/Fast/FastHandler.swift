internal import ApusCore
internal import NIOCore

/// Connects a ``FastConnection`` with a channel.
final class FastHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = Never
    typealias OutboundOut = ByteBuffer

    /// The length from which answers are written at once; shorter ones are written together after a turn of reading.
    private static let writeBytes = 32 * 1_024

    private var connection: FastConnection
    private let clock: any WallClock
    private var outbound = ByteBuffer()

    init(connection: consuming FastConnection, clock: any WallClock) {
        self.connection = connection
        self.clock = clock
    }

    func handlerAdded(context: ChannelHandlerContext) { if context.channel.isActive { self.start(context) } }

    func channelActive(context: ChannelHandlerContext) {
        self.start(context)
        context.fireChannelActive()
    }

    private func start(_ context: ChannelHandlerContext) {
        self.connection.start(&self.outbound)
        self.flush(context)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let bytes = self.unwrapInboundIn(data)
        self.connection.receive(
            bytes.readableBytesUInt8Span,
            nanoseconds: self.clock.nanosecondsSince1970(),
            &self.outbound,
        )
        if self.outbound.readableBytes >= Self.writeBytes { self.flush(context) }
        for millisecond in self.connection.takeNewDue() { self.schedule(millisecond, context) }
        if self.connection.end != nil {
            // A connection that breaks loses the bytes that were not sent yet.
            if self.connection.end != .drop { self.flush(context) }
            context.close(promise: nil)
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        self.flush(context)
        context.fireChannelReadComplete()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    private func schedule(_ millisecond: Int64, _ context: ChannelHandlerContext) {
        let delay = max(0, millisecond * 1_000_000 - self.clock.nanosecondsSince1970())
        let bound = NIOLoopBound(context, eventLoop: context.eventLoop)
        context.eventLoop.assumeIsolated().scheduleTask(in: .nanoseconds(delay)) {
            self.connection.release(millisecond, &self.outbound)
            if bound.value.channel.isActive { self.flush(bound.value) }
        }
    }

    private func flush(_ context: ChannelHandlerContext) {
        guard self.outbound.readableBytes > 0 else { return }
        context.writeAndFlush(self.wrapOutboundOut(self.outbound), promise: nil)
        self.outbound = context.channel.allocator.buffer(capacity: Self.writeBytes)
    }
}
