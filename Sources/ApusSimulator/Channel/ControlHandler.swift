internal import NIOCore
internal import NIOHTTP1

/// Connects ``ControlRoutes`` with HTTP/1.1, one request after another.
final class ControlHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let routes: ControlRoutes
    private var head: HTTPRequestHead?
    private var body: [UInt8] = []
    private var isTooLarge = false
    private var reader: LedgerReader?

    init(_ routes: ControlRoutes) { self.routes = routes }

    /// Removes the handler from the pipeline of a connection that has become a WebSocket.
    @Sendable static func remove(from context: ChannelHandlerContext) {
        let operations = context.pipeline.syncOperations
        guard let own = try? operations.context(handlerType: ControlHandler.self) else { return }
        operations.removeHandler(context: own, promise: nil)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch self.unwrapInboundIn(data) {
        case .head(let head):
            self.head = head
            self.body = []
            self.isTooLarge = false
        case .body(let part):
            if self.body.count + part.readableBytes > SimulatorLimits.controlBodyBytesMax {
                self.isTooLarge = true
                self.body = []
            } else if !self.isTooLarge {
                self.body.append(contentsOf: part.readableBytesView)
            }
        case .end: self.answer(context)
        }
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        self.continueLedger(context)
        context.fireChannelWritabilityChanged()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    private func answer(_ context: ChannelHandlerContext) {
        guard let head = self.head else { return }
        let answer =
            self.isTooLarge
            ? ControlRoutes.refusal(413, "the body is too large")
            : self.routes.answer(method: head.method.rawValue, uri: head.uri, body: self.body)
        self.body = []
        switch answer {
        case .text(let status, let type, let body): self.write(status, type, body, context)
        case .later(let answer):
            let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
            context.eventLoop.makeFutureWithTask { await answer() }.whenSuccess { text in
                let (handler, context) = bound.value
                handler.write(text.status, text.type, text.body, context)
            }
        case .ledger(let reader):
            let headers: HTTPHeaders = ["content-type": "application/x-ndjson", "transfer-encoding": "chunked"]
            self.write(.head(Self.head(200, headers)), context)
            self.reader = reader
            self.continueLedger(context)
        }
    }

    private func write(_ status: Int, _ type: String, _ body: [UInt8], _ context: ChannelHandlerContext) {
        let headers: HTTPHeaders = ["content-type": type, "content-length": String(body.count)]
        self.write(.head(Self.head(status, headers)), context)
        self.write(.body(.byteBuffer(ByteBuffer(bytes: body))), context)
        self.end(context)
    }

    private static func head(_ status: Int, _ headers: HTTPHeaders) -> HTTPResponseHead {
        HTTPResponseHead(version: .http1_1, status: HTTPResponseStatus(statusCode: status), headers: headers)
    }

    private func write(_ part: HTTPServerResponsePart, _ context: ChannelHandlerContext) {
        context.write(self.wrapOutboundOut(part), promise: nil)
    }

    private func end(_ context: ChannelHandlerContext) {
        let isKept = self.head?.isKeepAlive ?? false
        self.head = nil
        let end = context.writeAndFlush(self.wrapOutboundOut(.end(nil)))
        if !isKept { end.assumeIsolated().whenComplete { _ in context.close(promise: nil) } }
    }

    /// Writes as much of the ledger as the client accepts, and continues after the client has read it.
    private func continueLedger(_ context: ChannelHandlerContext) {
        while context.channel.isWritable {
            guard let lines = self.reader?.next() else {
                guard self.reader != nil else { return }
                self.reader = nil
                return self.end(context)
            }
            guard !lines.isEmpty else { continue }
            context.writeAndFlush(self.wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: lines)))), promise: nil)
        }
    }
}
