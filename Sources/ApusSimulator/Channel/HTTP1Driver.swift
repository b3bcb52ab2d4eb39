internal import ApusCore
internal import NIOCore
internal import NIOHTTP1

/// Drives a ``StrictConnection`` behind HTTP/1.1: Google serves it beside HTTP/2, and most of its SDKs speak it.
///
/// One request after another, as they come. What only HTTP/2 can say ends the connection instead: a refused stream, GOAWAY.
final class HTTP1Driver: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private var connection: StrictConnection
    private let world: World
    private var head: HTTPRequestHead?
    private var body: [UInt8] = []

    init(connection: StrictConnection, world: World) {
        self.connection = connection
        self.world = world
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch self.unwrapInboundIn(data) {
        case .head(let head):
            self.head = head
            self.body = []
        case .body(let part):
            // One byte more than all judges take tells them that it is too large.
            let room = SimulatorLimits.requestBodyBytesMax + 1 - self.body.count
            self.body.append(contentsOf: part.readableBytesView.prefix(max(0, room)))
        case .end: self.judge(context)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    private func judge(_ context: ChannelHandlerContext) {
        guard let head = self.head else { return }
        let ruling = self.connection.judge(
            ProviderRequest(
                method: head.method.rawValue,
                path: head.uri,
                headers: head.headers.map { ProviderHeader($0.name.lowercased(), $0.value) },
                body: self.body,
            ),
            nanoseconds: self.world.clock.nanosecondsSince1970(),
        )
        self.body = []
        switch ruling.action {
        case .answer(let answer):
            let keepsAlive = head.isKeepAlive && !ruling.isLast
            guard ruling.delayMicroseconds > 0 else { return self.write(answer, keepsAlive: keepsAlive, context) }
            context.eventLoop.assumeIsolated().scheduleTask(in: .microseconds(ruling.delayMicroseconds)) {
                self.write(answer, keepsAlive: keepsAlive, context)
            }
        case .half(let answer): self.writeHalf(answer, context)
        // Unanswered for ever is what silence means; unprocessed, the client has to learn now.
        case .silence: if ruling.isLast { context.close(promise: nil) }
        case .refuse, .drop: context.close(promise: nil)
        }
    }

    /// Promises the whole body and brings half of it.
    private func writeHalf(_ answer: ProviderAnswer, _ context: ChannelHandlerContext) {
        var headers = HTTPHeaders(answer.headers.map { ($0.name, $0.value) })
        headers.add(name: "content-length", value: String(answer.body.count + 1))
        let status = HTTPResponseStatus(statusCode: answer.status)
        let head = HTTPResponseHead(version: .http1_1, status: status, headers: headers)
        context.write(self.wrapOutboundOut(.head(head)), promise: nil)
        let half = ByteBuffer(bytes: answer.half.body)
        context.writeAndFlush(self.wrapOutboundOut(.body(.byteBuffer(half))), promise: nil)
    }

    private func write(_ answer: ProviderAnswer, keepsAlive: Bool, _ context: ChannelHandlerContext) {
        var headers = HTTPHeaders(answer.headers.map { ($0.name, $0.value) })
        headers.add(name: "content-length", value: String(answer.body.count))
        if !keepsAlive { headers.add(name: "connection", value: "close") }
        let status = HTTPResponseStatus(statusCode: answer.status)
        let head = HTTPResponseHead(version: .http1_1, status: status, headers: headers)
        context.write(self.wrapOutboundOut(.head(head)), promise: nil)
        context.write(self.wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: answer.body)))), promise: nil)
        let end = context.writeAndFlush(self.wrapOutboundOut(.end(nil)))
        if !keepsAlive { end.assumeIsolated().whenComplete { _ in context.close(promise: nil) } }
    }
}
