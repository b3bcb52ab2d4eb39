internal import ApusCore
internal import ApusMessages
internal import ApusNetwork
internal import NIOCore

/// The receiver of a webhook, which takes receipts, and at times does not work.
final class SimulatedWebhook: @unchecked Sendable {
    /// The port where it listens.
    static let port = 8_280

    /// A way in which it does not work.
    enum Fault: CaseIterable {
        /// It answers with an error, and takes nothing.
        case error
        /// It takes what comes, and answers with an error.
        case takingError
        /// It takes what comes, and does not answer.
        case silence
        /// It closes connections without an answer.
        case closing
    }

    /// A receipt that it has taken.
    struct TakenReceipt: Hashable {
        let send: SendKey
        let id: String
    }

    /// The fault that it has now.
    var fault: Fault?
    /// The receipts that it has taken.
    private(set) var taken: Set<TakenReceipt> = []
    /// The number of receipts that it has taken again.
    private(set) var repeats = 0
    /// The requests that were not as they should be.
    private(set) var complaints: [String] = []

    /// Listens on an event loop of the simulation.
    func listen(on loop: any EventLoop) async throws {
        guard let virtual = loop as? any VirtualNetworkLoop else { preconditionFailure("the loop is simulated") }
        _ = try await virtual.listen(at: Self.port) { channel in
            channel.eventLoop.makeCompletedFuture {
                try channel.pipeline.syncOperations.addHandler(WebhookRequestHandler(self))
            }
        }.get()
    }

    /// Takes the body of a request; returns the status of the answer, 0 for none, nil to close the connection.
    fileprivate func take(_ body: ArraySlice<UInt8>) -> Int? {
        if self.fault == .error { return 500 }
        if self.fault == .closing { return nil }
        let members = try? JSONValue(parsing: Array(body), bytesMax: body.count)
        guard let receipts = members?["receipts"]?.array, !receipts.isEmpty else {
            self.complaints.append("the webhook got a request without receipts")
            return 400
        }
        for receipt in receipts {
            guard let app = receipt["app"]?.string, let send = receipt["send"]?.string, let id = receipt["id"]?.string
            else {
                self.complaints.append("the webhook got a receipt that names no send: \(receipt.text)")
                continue
            }
            if !self.taken.insert(TakenReceipt(send: SendKey(app: app, id: send), id: id)).inserted {
                self.repeats += 1
            }
        }
        return self.fault == .takingError ? 503 : self.fault == .silence ? 0 : 200
    }
}

/// Reads one request and answers it.
private final class WebhookRequestHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let webhook: SimulatedWebhook
    private var bytes: [UInt8] = []

    init(_ webhook: SimulatedWebhook) { self.webhook = webhook }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        self.bytes += self.unwrapInboundIn(data).readableBytesView
        guard let end = self.bytes.firstRange(of: Array("\r\n\r\n".utf8)) else { return }
        let body = self.bytes[end.upperBound...]
        guard let length = self.length(before: end.lowerBound), body.count == length else { return }
        guard let status = self.webhook.take(body) else { return context.close(promise: nil) }
        guard status > 0 else { return }
        let answer = "HTTP/1.1 \(status) Answer\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        context.writeAndFlush(self.wrapOutboundOut(ByteBuffer(string: answer)), promise: nil)
    }

    private func length(before end: Int) -> Int? {
        let head = String(decoding: self.bytes[..<end], as: UTF8.self).lowercased()
        let line = head.split(separator: "\r\n").first { $0.hasPrefix("content-length:") }
        return line.flatMap { Int($0.drop { $0 != ":" }.dropFirst().filter { $0 != " " }) }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
