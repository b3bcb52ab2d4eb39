import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix

/// An answer of the API.
struct Answer: Sendable {
    let status: Int
    let headers: HTTPHeaders
    let body: [UInt8]

    var text: String { String(decoding: self.body, as: UTF8.self) }

    func header(_ name: String) -> String? { self.headers.first(name: name) }
}

/// One kept-alive connection to the API; requests may be pipelined.
final class HTTPConnection: Sendable {
    struct Closed: Error {}

    private let channel: any Channel

    private init(_ channel: any Channel) { self.channel = channel }

    /// Connects; `prepare` puts something below HTTP, such as TLS.
    ///
    /// - Parameter isRaw: bytes are written as they are, and what comes back is thrown away.
    static func open(
        port: Int,
        isRaw: Bool = false,
        prepare: @escaping @Sendable (any Channel) throws -> Void = { _ in },
    ) async throws -> HTTPConnection {
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try prepare(channel)
                    guard !isRaw else { return }
                    try channel.pipeline.syncOperations.addHTTPClientHandlers()
                    try channel.pipeline.syncOperations.addHandler(Answers())
                }
            }
            .connect(host: "127.0.0.1", port: port).get()
        return HTTPConnection(channel)
    }

    /// Sends a request and waits for its answer.
    func ask(
        _ method: String,
        _ target: String,
        _ headers: [(String, String)] = [],
        body: [UInt8]? = nil,
        host: String? = "localhost",
    ) async throws -> Answer {
        var head = HTTPRequestHead(version: .http1_1, method: HTTPMethod(rawValue: method), uri: target)
        if let host { head.headers.add(name: "host", value: host) }
        head.headers.add(contentsOf: headers)
        if let body { head.headers.replaceOrAdd(name: "content-length", value: String(body.count)) }
        let promise = self.channel.eventLoop.makePromise(of: Answer.self)
        let request = Answers.Request(head: head, body: body.map { ByteBuffer(bytes: $0) }, answered: promise)
        self.channel.writeAndFlush(request).cascadeFailure(to: promise)
        return try await promise.futureResult.get()
    }

    /// Writes bytes on a raw connection.
    func write(_ text: String) async throws { try await self.channel.writeAndFlush(ByteBuffer(string: text)) }

    /// Done when the other side has closed.
    func waitUntilClosed() async throws { try await self.channel.closeFuture.get() }

    /// Done when the connection is over, in whatever way.
    func waitUntilEnded() async { try? await self.channel.closeFuture.get() }

    func close() async { try? await self.channel.close() }

    private final class Answers: ChannelDuplexHandler {
        struct Request: Sendable {
            let head: HTTPRequestHead
            let body: ByteBuffer?
            let answered: EventLoopPromise<Answer>
        }

        typealias InboundIn = HTTPClientResponsePart
        typealias OutboundIn = Request
        typealias OutboundOut = HTTPClientRequestPart

        private var waiting: [EventLoopPromise<Answer>] = []
        private var head: HTTPResponseHead?
        private var body: [UInt8] = []

        func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
            let request = self.unwrapOutboundIn(data)
            self.waiting.append(request.answered)
            context.write(self.wrapOutboundOut(.head(request.head)), promise: nil)
            if let body = request.body { context.write(self.wrapOutboundOut(.body(.byteBuffer(body))), promise: nil) }
            context.write(self.wrapOutboundOut(.end(nil)), promise: promise)
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            switch self.unwrapInboundIn(data) {
            case .head(let head):
                self.head = head
                self.body = []
            case .body(let buffer): self.body += buffer.readableBytesView
            case .end:
                guard let head = self.head, !self.waiting.isEmpty else { return }
                let answer = Answer(status: Int(head.status.code), headers: head.headers, body: self.body)
                self.waiting.removeFirst().succeed(answer)
            }
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) {
            self.fail(error)
            context.close(promise: nil)
        }

        func channelInactive(context: ChannelHandlerContext) { self.fail(Closed()) }

        private func fail(_ error: any Error) {
            for promise in self.waiting { promise.fail(error) }
            self.waiting = []
        }
    }
}
