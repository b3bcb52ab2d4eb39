internal import ApusCore
internal import NIOCore
internal import NIOHTTP1

/// Connects a ``StrictConnection`` with HTTP/1.1, which some providers serve besides HTTP/2 and most of their SDKs use.
///
/// It answers one request after another. A refused stream and GOAWAY, which only HTTP/2 has, end the connection instead.
final class HTTP1Handler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private var connection: StrictConnection
    private let state: SimulatorState
    private var head: HTTPRequestHead?
    private var body: [UInt8] = []

    init(connection: StrictConnection, state: SimulatorState) {
        self.connection = connection
        self.state = state
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch self.unwrapInboundIn(data) {
        case .head(let head):
            self.head = head
            self.body = []
        case .body(let part):
            // One byte more than every validator accepts makes it too large for them.
            let room = SimulatorLimits.requestBodyBytesMax + 1 - self.body.count
            self.body.append(contentsOf: part.readableBytesView.prefix(max(0, room)))
        case .end: self.answer(context)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    private func answer(_ context: ChannelHandlerContext) {
        guard let head = self.head else { return }
        let decision = self.connection.decide(
            ProviderRequest(
                method: head.method.rawValue,
                authority: head.headers.first(name: "host") ?? "",
                path: head.uri,
                headers: head.headers.map { ProviderHeader($0.name.lowercased(), $0.value) },
                body: self.body,
            ),
            nanoseconds: self.state.clock.nanosecondsSince1970(),
        )
        self.body = []
        switch decision.action {
        case .answer(let answer):
            let keepsAlive = head.isKeepAlive && !decision.isLast
            guard decision.delayMicroseconds > 0 else { return self.write(answer, keepsAlive: keepsAlive, context) }
            context.eventLoop.assumeIsolated().scheduleTask(in: .microseconds(decision.delayMicroseconds)) {
                self.write(answer, keepsAlive: keepsAlive, context)
            }
        case .half(let answer): self.writeHalf(answer, context)
        // A silent stream stays open; a request that is not processed must end, so that the client repeats it.
        case .silence: if decision.isLast { context.close(promise: nil) }
        case .refuse, .drop: context.close(promise: nil)
        }
    }

    /// Announces the length of the whole body and sends half of it.
    private func writeHalf(_ answer: ProviderAnswer, _ context: ChannelHandlerContext) {
        self.writeHead(answer, length: answer.body.count + 1, keepsAlive: true, context)
        let half = ByteBuffer(bytes: answer.half.body)
        context.writeAndFlush(self.wrapOutboundOut(.body(.byteBuffer(half))), promise: nil)
    }

    private func write(_ answer: ProviderAnswer, keepsAlive: Bool, _ context: ChannelHandlerContext) {
        self.writeHead(answer, length: answer.body.count, keepsAlive: keepsAlive, context)
        context.write(self.wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: answer.body)))), promise: nil)
        let end = context.writeAndFlush(self.wrapOutboundOut(.end(nil)))
        if !keepsAlive { end.assumeIsolated().whenComplete { _ in context.close(promise: nil) } }
    }

    private func writeHead(_ answer: ProviderAnswer, length: Int, keepsAlive: Bool, _ context: ChannelHandlerContext) {
        var headers = HTTPHeaders(answer.headers.map { ($0.name, $0.value) })
        headers.add(name: "content-length", value: String(length))
        if !keepsAlive { headers.add(name: "connection", value: "close") }
        let status = HTTPResponseStatus(statusCode: answer.status)
        let head = HTTPResponseHead(version: .http1_1, status: status, headers: headers)
        context.write(self.wrapOutboundOut(.head(head)), promise: nil)
    }
}
