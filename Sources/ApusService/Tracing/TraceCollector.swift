internal import ApusCore
internal import ApusNetwork
internal import ApusTLS
internal import NIOCore
internal import NIOHTTP1

/// Represents a collector of spans: an address that accepts OTLP over HTTP.
struct TraceCollector: Sendable {
    /// The time limit for connecting, and again for the answer.
    static let timeout = TimeAmount.seconds(5)

    let address: WebAddress

    /// Parses `http://host:port/path` or `https://…`; nil for anything else. The default path is `/v1/traces`.
    init?(_ text: String) {
        guard let address = WebAddress(text) else { return nil }
        let path = address.path == "/" ? "/v1/traces" : address.path
        self.address = WebAddress(isSecure: address.isSecure, host: address.host, port: address.port, path: path)
    }

    /// Posts a document on a connection of its own and returns the status of the answer. It does not wait for one once its task is cancelled.
    ///
    /// - Throws: the error that prevented an answer.
    func post(_ body: [UInt8], tls: TLSContext?, on eventLoop: any EventLoop) async throws -> Int {
        let answer = eventLoop.makePromise(of: Int.self)
        let late = eventLoop.scheduleTask(in: Self.timeout) { answer.fail(TraceCollectorFailure.tooLate) }
        defer { late.cancel() }
        let host = self.address.host
        Dialer(timeout: Self.timeout)
            .connect(to: .host(host, port: self.address.port), on: eventLoop) { channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    if let tls { try pipeline.addHandler(TLSHandler(client: tls, serverName: host)) }
                    try pipeline.addHTTPClientHandlers()
                    try pipeline.addHandler(StatusReader(answer))
                }
            }
            .whenComplete { result in
                switch result {
                case .failure(let error): answer.fail(error)
                case .success(let channel):
                    answer.futureResult.whenComplete { _ in channel.close(promise: nil) }
                    self.write(body, to: channel)
                }
            }
        return try await withTaskCancellationHandler {
            try await answer.futureResult.get()
        } onCancel: {
            answer.fail(TraceCollectorFailure.cancelled)
        }
    }

    private func write(_ body: [UInt8], to channel: any Channel) {
        var head = HTTPRequestHead(version: .http1_1, method: .POST, uri: self.address.path)
        head.headers.add(name: "host", value: self.address.authority)
        head.headers.add(name: "content-type", value: "application/json")
        head.headers.add(name: "content-length", value: String(body.count))
        head.headers.add(name: "connection", value: "close")
        channel.write(HTTPClientRequestPart.head(head), promise: nil)
        channel.write(HTTPClientRequestPart.body(.byteBuffer(ByteBuffer(bytes: body))), promise: nil)
        channel.writeAndFlush(HTTPClientRequestPart.end(nil), promise: nil)
    }
}

/// The reasons for a missing answer.
enum TraceCollectorFailure: Error, CustomStringConvertible {
    case tooLate
    case hungUp
    case cancelled

    /// The sentence.
    var description: String {
        switch self {
        case .tooLate: "the collector of traces did not answer in time"
        case .hungUp: "the collector of traces closed the connection before its answer"
        case .cancelled: "the collector of traces had not answered when the service stopped"
        }
    }
}

/// Waits for the end of an answer.
private final class StatusReader: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart

    private let answer: EventLoopPromise<Int>
    private var status = 0

    init(_ answer: EventLoopPromise<Int>) { self.answer = answer }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch self.unwrapInboundIn(data) {
        case .head(let head): self.status = Int(head.status.code)
        case .body: break
        case .end: self.answer.succeed(self.status)
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.answer.fail(TraceCollectorFailure.hungUp)
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        self.answer.fail(error)
        context.close(promise: nil)
    }
}
