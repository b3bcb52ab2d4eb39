package import NIOCore
internal import NIOHTTP1
internal import NIOPosix

/// A kept-alive HTTP/1.1 connection in clear text, to services and a simulator on this machine.
package final class HTTPConnection: Sendable {
    /// The maximum bytes of an answer that are kept.
    static let answerBytesMax = 1 << 20
    /// The longest time until a response begins, and until it ends.
    package static let timeout = TimeAmount.seconds(120)

    private let channel: any Channel
    private let host: String

    private init(_ channel: any Channel, host: String) {
        self.channel = channel
        self.host = host
    }

    /// Connects.
    package static func connect(
        host: String,
        port: Int,
        on group: any EventLoopGroup,
    ) async throws -> HTTPConnection {
        let bootstrap = ClientBootstrap(group: group)
            .connectTimeout(.seconds(5))
            .channelOption(.socketOption(.tcp_nodelay), value: 1)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHTTPClientHandlers()
                    try channel.pipeline.syncOperations.addHandler(HTTPExchangeHandler())
                }
            }
        do {
            return HTTPConnection(try await bootstrap.connect(host: host, port: port).get(), host: "\(host):\(port)")
        } catch {
            throw HTTPClientError(description: "cannot connect to \(host):\(port)")
        }
    }

    /// Sends a request and returns the whole answer.
    ///
    /// - Parameter each: receives the body piece by piece, on the event loop, instead of the answer.
    package func send(
        _ order: HTTPClientRequest,
        each: (@Sendable (ByteBuffer) -> Void)? = nil
    ) async throws -> HTTPClientResponse {
        var head = HTTPRequestHead(version: .http1_1, method: HTTPMethod(rawValue: order.method), uri: order.path)
        head.headers.add(name: "host", value: self.host)
        if !order.body.isEmpty { head.headers.add(name: "content-length", value: String(order.body.count)) }
        for (name, value) in order.headers { head.headers.add(name: name, value: value) }
        let promise = self.channel.eventLoop.makePromise(of: HTTPClientResponse.self)
        let exchange = HTTPExchange(
            head: head,
            body: ByteBuffer(bytes: order.body),
            answer: promise,
            each: each,
        )
        let channel = self.channel
        let late = channel.eventLoop.scheduleTask(in: Self.timeout) {
            promise.fail(HTTPClientError(description: "no answer to \(order.method) \(order.path) in time"))
            channel.close(promise: nil)
        }
        channel.writeAndFlush(exchange).whenFailure { promise.fail($0) }
        defer { late.cancel() }
        return try await promise.futureResult.get()
    }

    /// Closes the connection.
    package func close() async { try? await self.channel.close().get() }
}

/// A request and the promise of its answer.
private struct HTTPExchange: Sendable {
    let head: HTTPRequestHead
    let body: ByteBuffer
    let answer: EventLoopPromise<HTTPClientResponse>
    let each: (@Sendable (ByteBuffer) -> Void)?
}

/// Matches answers with requests, in order.
private final class HTTPExchangeHandler: ChannelDuplexHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundIn = HTTPExchange
    typealias OutboundOut = HTTPClientRequestPart

    private var waiting: [HTTPExchange] = []
    private var status = 0
    private var body: [UInt8] = []

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        let exchange = self.unwrapOutboundIn(data)
        self.waiting.append(exchange)
        context.write(self.wrapOutboundOut(.head(exchange.head)), promise: nil)
        if exchange.body.readableBytes > 0 {
            context.write(self.wrapOutboundOut(.body(.byteBuffer(exchange.body))), promise: nil)
        }
        context.write(self.wrapOutboundOut(.end(nil)), promise: promise)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard let exchange = self.waiting.first else { return context.close(promise: nil) }
        switch self.unwrapInboundIn(data) {
        case .head(let head):
            self.status = Int(head.status.code)
            self.body = []
        case .body(let part):
            if let each = exchange.each, self.status == 200 {
                each(part)
            } else if self.body.count + part.readableBytes <= HTTPConnection.answerBytesMax {
                self.body.append(contentsOf: part.readableBytesView)
            } else {
                self.fail(HTTPClientError(description: "the answer is too large"), context)
            }
        case .end:
            self.waiting.removeFirst()
            exchange.answer.succeed(HTTPClientResponse(status: self.status, body: self.body))
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.fail(HTTPClientError(description: "the connection was closed before the answer"), context)
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { self.fail(error, context) }

    private func fail(_ error: any Error, _ context: ChannelHandlerContext) {
        let waiting = self.waiting
        self.waiting = []
        for exchange in waiting { exchange.answer.fail(error) }
        context.close(promise: nil)
    }
}

/// A server's response.
package struct HTTPClientResponse: Hashable, Sendable {
    /// The status.
    package var status: Int
    /// The body; empty when it was passed on piece by piece.
    package var body: [UInt8]
}

/// An error that leaves a request without a response.
package struct HTTPClientError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The error's sentence.
    package let description: String
}

/// A request.
package struct HTTPClientRequest: Sendable {
    /// The method: GET, PUT …
    package var method: String
    /// The path with its query.
    package var path: String
    /// The headers besides host and content-length.
    package var headers: [(String, String)]
    /// The body.
    package var body: [UInt8]

    /// Creates a request.
    package init(_ method: String, _ path: String, headers: [(String, String)] = [], body: [UInt8] = []) {
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body
    }
}
