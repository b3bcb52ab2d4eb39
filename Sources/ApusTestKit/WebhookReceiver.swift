package import ApusTLS
internal import NIOCore
package import NIOHTTP1
internal import NIOPosix
internal import Synchronization

/// Listens for webhooks on this machine and answers as configured.
package final class WebhookReceiver: Sendable {
    /// The reactions to a request.
    package enum Answer: Sendable {
        /// Answers with the status.
        case status(Int)
        /// Closes the connection without an answer.
        case close
        /// Sends no answer.
        case silence
    }

    /// A received request.
    package struct Request: Sendable {
        /// The path, with the query.
        package var path = ""
        /// The headers.
        package var headers = HTTPHeaders()
        /// The body.
        package var body: [UInt8] = []
    }

    /// A text that a browser gets.
    package struct Page: Sendable {
        /// The media type.
        package var type: String
        /// The content.
        package var text: String

        /// Creates a page.
        package init(type: String, text: String) {
            self.type = type
            self.text = text
        }
    }

    private let channel: any Channel
    private let state: State

    fileprivate final class State: Sendable {
        private let requests = Mutex<[Request]>([])
        private let script: @Sendable (Int, Request) -> Answer
        let pages: [String: Page]

        init(_ pages: [String: Page], _ script: @escaping @Sendable (Int, Request) -> Answer) {
            self.pages = pages
            self.script = script
        }

        var all: [Request] { self.requests.withLock { $0 } }

        /// Returns the answer to the request with the next number, counted from 0.
        func take(_ request: Request) -> Answer {
            let number = self.requests.withLock { requests in
                requests.append(request)
                return requests.count - 1
            }
            return self.script(number, request)
        }
    }

    private init(_ channel: any Channel, _ state: State) {
        self.channel = channel
        self.state = state
    }

    /// Starts to listen.
    ///
    /// - Parameters:
    ///   - port: the port; 0 for any.
    ///   - tls: the TLS configuration; nil for plain HTTP.
    ///   - pages: the pages by path, with query; requests for them are not counted.
    ///   - script: the reaction to each other request, by its number from 0.
    package static func start(
        port: Int = 0,
        tls: TLSContext? = nil,
        pages: [String: Page] = [:],
        _ script: @escaping @Sendable (Int) -> Answer = { _ in .status(204) },
    ) async throws -> WebhookReceiver {
        try await Self.start(port, tls, State(pages) { number, _ in script(number) })
    }

    /// Starts to listen on any port.
    ///
    /// - Parameter script: the reaction to each request, by what it holds.
    package static func answering(
        _ script: @escaping @Sendable (Request) -> Answer
    ) async throws -> WebhookReceiver {
        try await Self.start(0, nil, State([:]) { _, request in script(request) })
    }

    private static func start(_ port: Int, _ tls: TLSContext?, _ state: State) async throws -> WebhookReceiver {
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    if let tls { try channel.pipeline.syncOperations.addHandler(TLSHandler(server: tls)) }
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                    try channel.pipeline.syncOperations.addHandler(Handler(state))
                }
            }
            .bind(host: "127.0.0.1", port: port)
            .get()
        return WebhookReceiver(channel, state)
    }

    /// The port that it listens on.
    package var port: Int { self.channel.localAddress?.port ?? 0 }

    /// All received requests, in order.
    package var requests: [Request] { self.state.all }

    /// Stops listening.
    package func stop() async { try? await self.channel.close().get() }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = HTTPServerRequestPart
        typealias OutboundOut = HTTPServerResponsePart

        private let state: State
        private var request = Request()

        init(_ state: State) { self.state = state }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            switch self.unwrapInboundIn(data) {
            case .head(let head): self.request = Request(path: head.uri, headers: head.headers)
            case .body(let part): self.request.body.append(contentsOf: part.readableBytesView)
            case .end:
                if let page = self.state.pages[self.request.path] {
                    return self.answer(200, page.type, Array(page.text.utf8), context)
                }
                switch self.state.take(self.request) {
                case .silence: break
                case .close: context.close(promise: nil)
                case .status(let code): self.answer(code, nil, [], context)
                }
            }
        }

        private func answer(_ status: Int, _ type: String?, _ body: [UInt8], _ context: ChannelHandlerContext) {
            var headers: HTTPHeaders = ["content-length": "\(body.count)"]
            if let type { headers.add(name: "content-type", value: type) }
            let head = HTTPResponseHead(
                version: .http1_1,
                status: HTTPResponseStatus(statusCode: status),
                headers: headers,
            )
            context.write(self.wrapOutboundOut(.head(head)), promise: nil)
            if !body.isEmpty {
                context.write(self.wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: body)))), promise: nil)
            }
            context.writeAndFlush(self.wrapOutboundOut(.end(nil)), promise: nil)
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
    }
}
