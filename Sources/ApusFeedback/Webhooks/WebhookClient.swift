internal import ApusCore
internal import ApusNetwork
internal import ApusTLS
internal import NIOCore
internal import NIOHTTP1

/// Posts each request over a connection of its own: batches are few, and a receiver that was restarted is reached again at once.
///
/// It follows no redirect: the address is the operator's, and nobody else may change it.
struct WebhookClient: Sendable {
    /// Describes why there is no answer.
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    let address: WebAddress
    /// The TLS context; nil for an `http` address.
    let tls: TLSContext?
    let timeout: Duration
    let eventLoopGroup: any EventLoopGroup

    /// Posts the request and returns the status of the answer.
    ///
    /// - Throws: the reason why there is no answer; at once when the task is cancelled.
    func post(_ request: WebhookRequest) async throws -> Int {
        let eventLoop = self.eventLoopGroup.next()
        let answer = eventLoop.makePromise(of: Int.self)
        let (timeout, address, tls) = (TimeAmount(self.timeout), self.address, self.tls)
        var head = HTTPRequestHead(version: .http1_1, method: .POST, uri: address.path)
        head.headers = [
            "host": address.authority, "content-type": "application/json", "connection": "close",
            "content-length": String(request.body.count), "user-agent": "apus-feedback",
            WebhookRequest.signatureHeader: request.signature, WebhookRequest.deliveryHeader: request.delivery,
            WebhookRequest.idHeader: request.delivery, WebhookRequest.timestampHeader: "\(request.seconds)",
            WebhookRequest.standardSignatureHeader: request.standardSignature,
        ]
        let (sent, body) = (head, request.body)
        let connecting = Dialer(timeout: timeout)
            .connect(to: .host(address.host, port: address.port), on: eventLoop) { channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    if let tls { try pipeline.addHandler(TLSHandler(client: tls, serverName: address.host)) }
                    try pipeline.addHTTPClientHandlers()
                    try pipeline.addHandler(WebhookExchange(answer))
                }
            }
        let deadline = eventLoop.scheduleTask(in: timeout) {
            answer.fail(Failure(description: "no answer within \(timeout.nanoseconds / 1_000_000) ms"))
        }
        connecting.whenComplete { result in
            switch result {
            case .success(let channel):
                answer.futureResult.whenComplete { _ in channel.close(promise: nil) }
                channel.write(HTTPClientRequestPart.head(sent), promise: nil)
                channel.write(HTTPClientRequestPart.body(.byteBuffer(ByteBuffer(bytes: body))), promise: nil)
                channel.writeAndFlush(HTTPClientRequestPart.end(nil)).cascadeFailure(to: answer)
            case .failure(let error): answer.fail(error)
            }
        }
        defer { deadline.cancel() }
        return try await withTaskCancellationHandler {
            try await answer.futureResult.get()
        } onCancel: {
            // The waiting task is resumed, and the connection ends with the answer: see above.
            answer.fail(CancellationError())
        }
    }
}

/// Waits for the head of the answer and ignores its content.
private final class WebhookExchange: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart

    private let answer: EventLoopPromise<Int>

    init(_ answer: EventLoopPromise<Int>) { self.answer = answer }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        // A provisional answer (1xx) is not the answer.
        guard case .head(let head) = self.unwrapInboundIn(data), head.status.code >= 200 else { return }
        self.answer.succeed(Int(head.status.code))
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.answer.fail(WebhookClient.Failure(description: "the connection was closed before the answer"))
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        self.answer.fail(error)
        context.close(promise: nil)
    }
}
