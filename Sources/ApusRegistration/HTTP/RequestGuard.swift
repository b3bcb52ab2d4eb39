internal import ApusMetrics
internal import HTTPTypes
internal import NIOCore
internal import NIOHTTPTypes

/// Closes a connection whose request takes too long to arrive or goes on far beyond any limit, and counts connections.
///
/// A timer is set only for a request that did not arrive in one piece. An import has a limit of its own, and may take as long as it makes
/// progress.
final class RequestGuard: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart

    private let requestTimeout: TimeAmount
    private let metrics: RegistrationMetrics
    private let shared: SharedMetrics
    private var isArriving = false
    private var isCut = false
    private var isImport = false
    private var bodyBytes = 0
    private var timer: Scheduled<Void>?

    init(requestTimeout: TimeAmount, metrics: RegistrationMetrics, shared: SharedMetrics) {
        self.requestTimeout = requestTimeout
        self.metrics = metrics
        self.shared = shared
    }

    func handlerAdded(context: ChannelHandlerContext) { self.shared.add(1, to: self.metrics.connections) }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.shared.add(-1, to: self.metrics.connections)
        self.timer?.cancel()
        self.timer = nil
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch self.unwrapInboundIn(data) {
        case .head(let head):
            self.isArriving = true
            self.isImport = head.method == .post && APIPath(head.path ?? "")?.route == .devicesImport
            self.bodyBytes = 0
        case .body(let bytes):
            self.bodyBytes += bytes.readableBytes
            let most = self.isImport ? APILimits.importBytesMax : APILimits.discardedBytesMax
            if self.bodyBytes > most { return self.cut(context) }
            if self.isImport {
                self.timer?.cancel()
                self.timer = nil
            }
        case .end:
            self.isArriving = false
            self.timer?.cancel()
            self.timer = nil
        }
        context.fireChannelRead(data)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if self.isArriving, self.timer == nil {
            let importPause = max(self.requestTimeout, TimeAmount(APILimits.importPause))
            let pause = self.isImport ? importPause : self.requestTimeout
            self.timer = context.eventLoop.assumeIsolated().scheduleTask(in: pause) {
                self.timer = nil
                self.cut(context)
            }
        }
        context.fireChannelReadComplete()
    }

    private func cut(_ context: ChannelHandlerContext) {
        guard !self.isCut else { return }
        self.isCut = true
        self.shared.add(to: self.metrics.connectionsCut)
        context.close(promise: nil)
    }
}
