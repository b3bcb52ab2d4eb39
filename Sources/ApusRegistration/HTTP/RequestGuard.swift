internal import ApusMetrics
internal import HTTPTypes
internal import NIOCore
internal import NIOHTTPTypes

/// Closes a connection whose request takes too long to arrive or goes on far beyond any limit, or whose answers nobody reads, and counts
/// connections. It tells a client that waits with its content (RFC 9110 §10.1.1) to send it, and holds the bytes of answers, in the share of
/// who asked, until the system has taken them.
///
/// The time of a request runs from its first byte, that of the first one from when the connection was made: so whoever says nothing, or a byte
/// now and then, keeps a connection no longer than whoever is slow. Only a request that did not arrive in one piece costs a timer. An
/// import may be of any length, and may take as long as it goes on, unless it is refused: the rest of it is as any other content from then on.
/// Answers are being read as long as the connection takes more of them within the same time, or an import goes on, whose client may send all
/// of it before it reads.
///
/// Between requests a connection may be silent for a time of its own. Where that is shorter than requests may pause, it is watched here: Hummingbird
/// would close connections whose request pauses, too.
final class RequestGuard: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    /// Asks for the content of the request that is being answered: its head is acceptable.
    struct ContentWanted {}

    /// Names the share of memory that holds the content of the next answer.
    struct AnswerShare {
        let budget: MemoryBudget
    }

    private let requestTimeout: TimeAmount
    /// The maximum time of silence between requests; nil when it is watched elsewhere.
    private let idleTimeout: TimeAmount?
    private let metrics: RegistrationMetrics
    private let shared: SharedMetrics
    /// The share that holds answers to those who are not known.
    private let anybody: MemoryBudget
    /// The share that holds the answer that is being written.
    private var answerShare: MemoryBudget
    private var isArriving = true
    private var isCut = false
    private var isImport = false
    private var bodyBytes = 0
    /// The bytes of the body beyond which the connection is closed.
    private var bodyBytesMax = APILimits.discardedBytesMax
    private var waitingContent = WaitingContent()
    private var timer: Scheduled<Void>?
    /// Runs while the connection takes no more of the answers.
    private var answerTimer: Scheduled<Void>?
    /// The time since which no request arrives or is answered; nil while one does.
    private var idleSince: NIODeadline?
    /// Runs until the silence may be too long; one that begins meanwhile sets no other.
    private var idleTimer: Scheduled<Void>?

    init(
        requestTimeout: TimeAmount,
        idleTimeout: TimeAmount?,
        anybody: MemoryBudget,
        metrics: RegistrationMetrics,
        shared: SharedMetrics,
    ) {
        self.requestTimeout = requestTimeout
        self.idleTimeout = idleTimeout
        self.anybody = anybody
        self.answerShare = anybody
        self.metrics = metrics
        self.shared = shared
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.shared.add(1, to: self.metrics.connections)
        self.watch(context)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.shared.add(-1, to: self.metrics.connections)
        self.stopWatching()
        self.answerTimer?.cancel()
        self.answerTimer = nil
        self.idleTimer?.cancel()
        self.idleTimer = nil
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable {
            self.answerTimer?.cancel()
            self.answerTimer = nil
        } else if self.answerTimer == nil {
            self.answerTimer = self.scheduleCut(context)
        }
        context.fireChannelWritabilityChanged()
    }

    func triggerUserOutboundEvent(context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?) {
        if let share = event as? AnswerShare {
            self.answerShare = share.budget
            promise?.succeed()
            return
        }
        guard event is ContentWanted else { return context.triggerUserOutboundEvent(event, promise: promise) }
        guard self.waitingContent.ask() else {
            promise?.succeed()
            return
        }
        context.writeAndFlush(self.wrapOutboundOut(.head(HTTPResponse(status: .continue))), promise: promise)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        switch self.unwrapOutboundIn(data) {
        case .head(var head):
            if head.status.kind != .successful { self.refuseImport(context) }
            guard self.waitingContent.refuse() else { return context.write(data, promise: promise) }
            head.headerFields[.connection] = "close"
            context.write(self.wrapOutboundOut(.head(head)), promise: promise)
        case .body(let bytes):
            context.write(data, promise: self.hold(bytes.readableBytes, until: promise, context))
        case .end:
            self.answerShare = self.anybody
            guard self.waitingContent.finish() else {
                context.write(data, promise: promise)
                return self.beginSilence(context)
            }
            context.writeAndFlush(data, promise: promise)
            context.close(promise: nil)
        }
    }

    /// Sets the ordinary limits again, if the request that is being answered is an import whose content still arrives: nobody needs it now.
    private func refuseImport(_ context: ChannelHandlerContext) {
        guard self.isImport, self.waitingContent.isAnsweringLast else { return }
        self.isImport = false
        self.bodyBytes = 0
        self.stopWatching()
        self.watch(context)
    }

    /// Holds bytes of an answer until the system has them, or nobody can read them any more.
    ///
    /// - Returns: the promise of the write.
    private func hold(
        _ bytes: Int,
        until promise: EventLoopPromise<Void>?,
        _ context: ChannelHandlerContext,
    ) -> EventLoopPromise<Void>? {
        guard bytes > 0 else { return promise }
        let (share, written) = (self.answerShare, promise ?? context.eventLoop.makePromise(of: Void.self))
        share.hold(bytes)
        written.futureResult.whenComplete { _ in share.release(bytes) }
        return written
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch self.unwrapInboundIn(data) {
        case .head(let head):
            self.waitingContent.receiveHead(expectsContinue: RequestExpectation(head.headerFields) == .continuation)
            self.beginRequest()
            let route = APIPath(head.path ?? "")?.route ?? .none
            let verb = HTTPVerb(head.method, on: route)
            self.isImport = route == .devicesImport && verb == .post
            self.bodyBytes = 0
            self.bodyBytesMax = max(APILimits.discardedBytesMax, APILimits.operationBytesMax(route, verb))
            if self.isImport { self.stopWatching() }
        case .body(let bytes):
            self.waitingContent.receiveContent()
            self.bodyBytes += bytes.readableBytes
            if self.isImport {
                self.stopWatching()
                if let answerTimer = self.answerTimer {
                    answerTimer.cancel()
                    self.answerTimer = self.scheduleCut(context)
                }
            } else if self.bodyBytes > self.bodyBytesMax {
                return self.cut(context)
            }
        case .end:
            self.waitingContent.receiveContent()
            self.isArriving = false
            self.isImport = false
            self.stopWatching()
            self.beginSilence(context)
        }
        context.fireChannelRead(data)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if self.isArriving { self.watch(context) }
        context.fireChannelReadComplete()
    }

    /// Returns the handler that sees each byte before anything decodes it.
    func makeByteHandler() -> some ChannelHandler { ByteHandler(self) }

    private func beginRequest() {
        self.isArriving = true
        self.idleSince = nil
    }

    /// Begins to watch the silence after a request that has arrived and is answered, if no other has begun.
    private func beginSilence(_ context: ChannelHandlerContext) {
        guard let idleTimeout = self.idleTimeout, !self.isArriving, self.waitingContent.isAnswered else { return }
        self.idleSince = context.eventLoop.now
        if self.idleTimer == nil { self.scheduleIdleCheck(in: idleTimeout, context) }
    }

    private func scheduleIdleCheck(in time: TimeAmount, _ context: ChannelHandlerContext) {
        self.idleTimer = context.eventLoop.assumeIsolated().scheduleTask(in: time) { self.checkSilence(context) }
    }

    /// Closes the connection if its silence has lasted for as long as it may.
    private func checkSilence(_ context: ChannelHandlerContext) {
        self.idleTimer = nil
        guard let idleTimeout = self.idleTimeout, let idleSince = self.idleSince else { return }
        let rest = idleSince + idleTimeout - context.eventLoop.now
        guard rest > .nanoseconds(0) else { return context.close(promise: nil) }
        self.scheduleIdleCheck(in: rest, context)
    }

    private func watch(_ context: ChannelHandlerContext) {
        if self.timer == nil { self.timer = self.scheduleCut(context) }
    }

    private func scheduleCut(_ context: ChannelHandlerContext) -> Scheduled<Void> {
        let importPause = max(self.requestTimeout, TimeAmount(APILimits.importPause))
        let pause = self.isImport ? importPause : self.requestTimeout
        return context.eventLoop.assumeIsolated().scheduleTask(in: pause) { self.cut(context) }
    }

    private func stopWatching() {
        self.timer?.cancel()
        self.timer = nil
    }

    private func cut(_ context: ChannelHandlerContext) {
        guard !self.isCut else { return }
        self.isCut = true
        self.stopWatching()
        self.shared.add(to: self.metrics.connectionsCut)
        context.close(promise: nil)
    }

    /// Tells the guard that a request begins, as soon as its first byte is there.
    private final class ByteHandler: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias InboundOut = ByteBuffer

        private let requestGuard: RequestGuard

        init(_ requestGuard: RequestGuard) { self.requestGuard = requestGuard }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            // The guard hears of the end of the read in any case, and sets its timer then.
            self.requestGuard.beginRequest()
            context.fireChannelRead(data)
        }
    }
}
