internal import ApusCore
internal import ApusNetwork
internal import NIOCore

/// Sends one request over HTTP on a connection of its own, as a phone does, or a backend.
struct SimulatedHTTPClient: Sendable {
    /// The port of the registration services.
    static let port = 8_180
    /// The key of the backend, whose SHA-256 is in the configuration.
    static let key = "backend-key"
    static let keySHA256 = "26e5026bae501dfb3ca603d61c961884aed8e12c1eb49ee8d03a11071df0f4a7"

    /// The type of a body.
    enum BodyType: String, Sendable {
        case protobuf = "application/protobuf"
        case json = "application/json"
        case lines = "application/x-ndjson"
    }

    /// The result of a request.
    enum Result: Hashable, Sendable {
        /// The service answered with that status.
        case status(Int)
        /// The service answered with lines, of which each has a number, from 1, and a status.
        case statuses([Int: Int])
        /// The service answered with 200 and a document.
        case document(JSONValue)
        /// There was no connection, so the request was not sent.
        case unsent
        /// No answer came in time: the request may have been carried out, or may be later.
        case unanswered
    }

    let loop: any EventLoop

    /// A part of an answer that is wanted.
    fileprivate enum AnswerPart {
        case status
        case lines
        case document
    }

    /// Asks for a document.
    func document(_ path: String, within patience: TimeAmount) async -> Result {
        await self.send("GET", path, [], as: .json, within: patience, wanted: .document)
    }

    /// Sends a request and returns its result. An answer to lines is waited for to its end.
    func send(
        _ method: String,
        _ path: String,
        _ body: [UInt8] = [],
        as type: BodyType = .protobuf,
        within patience: TimeAmount
    ) async -> Result {
        let wanted: AnswerPart = type == .lines ? .lines : .status
        return await self.send(method, path, body, as: type, within: patience, wanted: wanted)
    }

    private func send(
        _ method: String,
        _ path: String,
        _ body: [UInt8],
        as type: BodyType,
        within patience: TimeAmount,
        wanted: AnswerPart
    ) async -> Result {
        var head = "\(method) \(path) HTTP/1.1\r\nHost: apus\r\nAuthorization: Bearer \(Self.key)\r\n"
        head += "Content-Type: \(type.rawValue)\r\nContent-Length: \(body.count)\r\nConnection: close\r\n\r\n"
        let request = ByteBuffer(bytes: Array(head.utf8) + body)
        let answer = self.loop.makePromise(of: Result.self)
        let late = self.loop.scheduleTask(in: patience) { answer.succeed(.unanswered) }
        Dialer(timeout: patience).connect(to: .host("127.0.0.1", port: Self.port), on: self.loop) { channel in
            channel.pipeline.addHandler(AnswerHandler(request, answer, wanted))
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

/// Writes a request, and takes what is wanted of the answer: the status of its first line, that of each line of its body, or the body.
private final class AnswerHandler: ChannelInboundHandler, @unchecked Sendable {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let request: ByteBuffer
    private let answer: EventLoopPromise<SimulatedHTTPClient.Result>
    private let wanted: SimulatedHTTPClient.AnswerPart
    private var bytes: [UInt8] = []

    init(
        _ request: ByteBuffer,
        _ answer: EventLoopPromise<SimulatedHTTPClient.Result>,
        _ wanted: SimulatedHTTPClient.AnswerPart
    ) {
        self.request = request
        self.answer = answer
        self.wanted = wanted
    }

    func channelActive(context: ChannelHandlerContext) {
        context.writeAndFlush(self.wrapOutboundOut(self.request), promise: nil)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        self.bytes += self.unwrapInboundIn(data).readableBytesView
        guard let status = self.status else { return }
        guard self.wanted != .status, status == 200 else { return self.answer.succeed(.status(status)) }
        switch self.wanted {
        case .status: break
        // The last chunk of a body is empty.
        case .lines where self.bytes.suffix(Self.end.count).elementsEqual(Self.end):
            self.answer.succeed(.statuses(self.statuses))
        case .lines: break
        case .document: if let document { self.answer.succeed(.document(document)) }
        }
    }

    /// The document of the answer; nil until all of it is there.
    private var document: JSONValue? {
        guard let end = self.bytes.firstRange(of: Array("\r\n\r\n".utf8)) else { return nil }
        let body = Array(self.bytes[end.upperBound...])
        return try? JSONValue(parsing: body, bytesMax: body.count)
    }

    private static let end = Array("0\r\n\r\n".utf8)

    /// The status of the answer; nil until its first line is there.
    private var status: Int? {
        let line = self.bytes.prefix { $0 != 0x0d }
        guard line.count < self.bytes.count else { return nil }
        let words = String(decoding: line, as: UTF8.self).split(separator: " ")
        return words.count > 1 ? Int(words[1]) : nil
    }

    /// The statuses of the lines that have come.
    private var statuses: [Int: Int] {
        var statuses: [Int: Int] = [:]
        for line in String(decoding: self.bytes, as: UTF8.self).split(whereSeparator: \.isNewline) {
            // {"line":1,"status":200,…}
            let parts = line.split(whereSeparator: { !$0.isWholeNumber })
            guard line.hasPrefix("{\"line\":"), parts.count > 1, let number = Int(parts[0]), let status = Int(parts[1])
            else { continue }
            statuses[number] = status
        }
        return statuses
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { self.answer.succeed(.unanswered) }

    func channelInactive(context: ChannelHandlerContext) {
        // Some lines may have been answered.
        self.answer.succeed(self.wanted == .lines && self.status == 200 ? .statuses(self.statuses) : .unanswered)
    }
}
