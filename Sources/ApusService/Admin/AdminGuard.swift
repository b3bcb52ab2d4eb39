internal import HTTPTypes
internal import NIOCore
internal import NIOHTTPTypes
internal import Synchronization

/// Names the limits of the admin endpoints. They stand in nobody's way who scrapes and probes, so no setting changes them.
enum AdminLimits {
    /// The maximum of open connections; one more is closed at once.
    static let connectionsMax = 256
    /// The maximum bytes of one header field.
    static let headerFieldBytesMax = 8 * 1_024
    /// The maximum bytes of all header fields of a request.
    static let headerBytesMax = 16 * 1_024
    /// The maximum number of header fields of a request.
    static let headerFieldsMax = 64
    /// The maximum bytes of a request's content, which is not read.
    static let contentBytesMax = 16 * 1_024
    /// The time in which a request must arrive, from its first byte, the first one from when the connection is made.
    static let requestTime = TimeAmount.seconds(10)
    /// The time for which a connection may take nothing of an answer.
    static let answerTime = TimeAmount.seconds(10)
    /// The time that a connection may be silent between two requests: longer than scrapes are apart.
    static let idleTime = TimeAmount.minutes(5)
}

/// Counts the open connections to the admin endpoints.
final class AdminConnections: Sendable {
    private let count = Atomic(0)

    /// Counts a connection until it is closed; closes it if there are too many.
    func enter(_ channel: any Channel) {
        let isOneTooMany = self.count.add(1, ordering: .relaxed).newValue > AdminLimits.connectionsMax
        channel.closeFuture.whenComplete { _ in self.count.subtract(1, ordering: .relaxed) }
        if isOneTooMany { channel.close(promise: nil) }
    }
}

/// Closes a connection to the admin endpoints whose request takes too long to arrive or has too much content, whose answer nobody reads, or that
/// is silent for long.
final class AdminGuard: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    /// True from a request's first byte to its last one; the first request is awaited from the beginning.
    private var isArriving = true
    private var contentBytes = 0
    /// Runs while a request arrives, and between two.
    private var timer: Scheduled<Void>?
    /// Runs while the connection takes no more of an answer.
    private var answerTimer: Scheduled<Void>?

    func handlerAdded(context: ChannelHandlerContext) { self.wait(AdminLimits.requestTime, context) }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.timer?.cancel()
        self.answerTimer?.cancel()
        (self.timer, self.answerTimer) = (nil, nil)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch self.unwrapInboundIn(data) {
        case .head:
            self.begin(context)
            self.contentBytes = 0
        case .body(let bytes):
            self.contentBytes += bytes.readableBytes
            if self.contentBytes > AdminLimits.contentBytesMax { return context.close(promise: nil) }
        case .end:
            self.isArriving = false
            self.timer?.cancel()
        }
        context.fireChannelRead(data)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if case .end = self.unwrapOutboundIn(data), !self.isArriving { self.wait(AdminLimits.idleTime, context) }
        context.write(data, promise: promise)
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        self.answerTimer?.cancel()
        self.answerTimer =
            context.channel.isWritable ? nil : self.scheduleClose(context, in: AdminLimits.answerTime)
        context.fireChannelWritabilityChanged()
    }

    /// Returns the handler that sees each byte before anything decodes it.
    func makeByteHandler() -> some ChannelHandler { ByteHandler(self) }

    /// Begins the time of a request, unless it has begun.
    private func begin(_ context: ChannelHandlerContext) {
        guard !self.isArriving else { return }
        self.isArriving = true
        self.wait(AdminLimits.requestTime, context)
    }

    private func wait(_ time: TimeAmount, _ context: ChannelHandlerContext) {
        self.timer?.cancel()
        self.timer = self.scheduleClose(context, in: time)
    }

    private func scheduleClose(_ context: ChannelHandlerContext, in time: TimeAmount) -> Scheduled<Void> {
        context.eventLoop.assumeIsolated().scheduleTask(in: time) { context.close(promise: nil) }
    }

    /// Begins the time of a request with its first byte: what decodes it says nothing before its head is complete.
    private final class ByteHandler: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias InboundOut = ByteBuffer

        private let adminGuard: AdminGuard

        init(_ adminGuard: AdminGuard) { self.adminGuard = adminGuard }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            self.adminGuard.begin(context)
            context.fireChannelRead(data)
        }
    }
}
