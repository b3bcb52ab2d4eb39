internal import ApusNetwork
internal import NIOCore

/// Sends one request over HTTP on a connection of its own, as a phone does.
struct SimulatedHTTPClient: Sendable {
    /// The port of the registration services.
    static let port = 8_180
    /// The key of the backend, whose SHA-256 is in the configuration.
    static let key = "backend-key"
    static let keySHA256 = "26e5026bae501dfb3ca603d61c961884aed8e12c1eb49ee8d03a11071df0f4a7"

    /// The result of a request.
    enum Result: Hashable, Sendable {
        /// The service answered with that status.
        case status(Int)
        /// There was no connection, so the request was not sent.
        case unsent
        /// No answer came in time: the request may have been carried out, or may be later.
        case unanswered
    }

    let loop: any EventLoop

    /// Sends a request and returns its result.
    func send(_ method: String, _ path: String, _ body: [UInt8], within patience: TimeAmount) async -> Result {
        var head = "\(method) \(path) HTTP/1.1\r\nHost: apus\r\nAuthorization: Bearer \(Self.key)\r\n"
        head += "Content-Type: application/protobuf\r\nContent-Length: \(body.count)\r\nConnection: close\r\n\r\n"
        let request = ByteBuffer(bytes: Array(head.utf8) + body)
        let answer = self.loop.makePromise(of: Result.self)
        let late = self.loop.scheduleTask(in: patience) { answer.succeed(.unanswered) }
        Dialer(timeout: patience).connect(to: .host("127.0.0.1", port: Self.port), on: self.loop) { channel in
            channel.pipeline.addHandler(StatusHandler(request, answer))
        }.whenComplete { result in
            switch result {
            case .success(let channel): answer.futureResult.whenComplete { _ in channel.close(promise: nil) }
            case .failure: answer.succeed(.unsent)
            }
        }
        let result = try? await answer.futureResult.get()
        late.cancel()
        return result ?? .unanswered
    }
}

/// Writes a request, and takes the status from the first line of the answer.
private final class StatusHandler: ChannelInboundHandler, @unchecked Sendable {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let request: ByteBuffer
    private let answer: EventLoopPromise<SimulatedHTTPClient.Result>
    private var bytes: [UInt8] = []

    init(_ request: ByteBuffer, _ answer: EventLoopPromise<SimulatedHTTPClient.Result>) {
        self.request = request
        self.answer = answer
    }

    func channelActive(context: ChannelHandlerContext) {
        context.writeAndFlush(self.wrapOutboundOut(self.request), promise: nil)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        self.bytes += self.unwrapInboundIn(data).readableBytesView
        let line = self.bytes.prefix { $0 != 0x0d }
        guard line.count < self.bytes.count else { return }
        let words = String(decoding: line, as: UTF8.self).split(separator: " ")
        self.answer.succeed((words.count > 1 ? Int(words[1]) : nil).map { .status($0) } ?? .unanswered)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { self.answer.succeed(.unanswered) }

    func channelInactive(context: ChannelHandlerContext) { self.answer.succeed(.unanswered) }
}
