package import ApusCore
package import ApusTLS
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import Synchronization

/// Collects spans on a free port of this machine: keeps the posted requests, and answers as configured.
package final class TraceListener: Sendable {
    /// A received request.
    package struct Request: Sendable {
        /// The path.
        package var path = ""
        /// The content type.
        package var contentType = ""
        /// The body; nil when it is not JSON.
        package var body: JSONValue?
        /// The status of the answer.
        package var status = 200

        /// The spans in the request.
        package var spans: [JSONValue] {
            (self.body?["resourceSpans"]?.array ?? []).flatMap { $0["scopeSpans"]?.array ?? [] }
                .flatMap { $0["spans"]?.array ?? [] }
        }
    }

    private let channel: any Channel
    private let state: TraceListenerState
    private let scheme: String

    private init(channel: any Channel, state: TraceListenerState, scheme: String) {
        self.channel = channel
        self.state = state
        self.scheme = scheme
    }

    /// Starts to listen.
    ///
    /// - Parameters:
    ///   - answers: the statuses of the first answers; later ones are 200.
    ///   - isSilent: true when requests get no answer.
    ///   - identity: the certificate for TLS; nil for plain HTTP.
    package static func start(
        answers: [Int] = [],
        isSilent: Bool = false,
        identity: TLSIdentity? = nil,
    ) async throws -> TraceListener {
        let context = try identity.map { try TLSContext.server(identity: $0) }
        let state = TraceListenerState(answers: answers, isSilent: isSilent)
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    if let context { try channel.pipeline.syncOperations.addHandler(TLSHandler(server: context)) }
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                    try channel.pipeline.syncOperations.addHandler(TraceRequestReader(state))
                }
            }
            .bind(host: "127.0.0.1", port: 0)
            .get()
        return TraceListener(channel: channel, state: state, scheme: identity == nil ? "http" : "https")
    }

    /// The address for exporters.
    package var endpoint: String { "\(self.scheme)://127.0.0.1:\(self.channel.localAddress?.port ?? 0)" }

    /// All received requests, in order.
    package var requests: [Request] { self.state.requests.withLock { $0 } }

    /// The spans of requests that were answered with 200.
    package var spans: [JSONValue] { self.requests.filter { $0.status == 200 }.flatMap(\.spans) }

    /// Stops listening.
    package func stop() async { try? await self.channel.close().get() }
}

private final class TraceListenerState: Sendable {
    let requests = Mutex<[TraceListener.Request]>([])
    let isSilent: Bool
    private let answers: [Int]

    init(answers: [Int], isSilent: Bool) {
        self.answers = answers
        self.isSilent = isSilent
    }

    /// Keeps a request and returns the status of its answer.
    func keep(_ request: TraceListener.Request) -> Int {
        self.requests.withLock { requests in
            var request = request
            request.status = requests.count < self.answers.count ? self.answers[requests.count] : 200
            requests.append(request)
            return request.status
        }
    }
}

private final class TraceRequestReader: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private static let bodyBytesMax = 16 << 20

    private let state: TraceListenerState
    private var request = TraceListener.Request()
    private var body: [UInt8] = []

    init(_ state: TraceListenerState) { self.state = state }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch self.unwrapInboundIn(data) {
        case .head(let head):
            self.request = TraceListener.Request()
            self.request.path = head.uri
            self.request.contentType = head.headers.first(name: "content-type") ?? ""
            self.body = []
        case .body(let part): self.body.append(contentsOf: part.readableBytesView)
        case .end:
            self.request.body = try? JSONValue(parsing: self.body, bytesMax: Self.bodyBytesMax)
            let status = HTTPResponseStatus(statusCode: self.state.keep(self.request))
            guard !self.state.isSilent else { return }
            let head = HTTPResponseHead(version: .http1_1, status: status, headers: ["content-length": "0"])
            context.write(self.wrapOutboundOut(.head(head)), promise: nil)
            context.writeAndFlush(self.wrapOutboundOut(.end(nil)), promise: nil)
        }
    }
}
