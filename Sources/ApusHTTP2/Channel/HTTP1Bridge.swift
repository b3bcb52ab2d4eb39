package import NIOCore
package import NIOHTTP1

/// Lets an ``HTTP2ClientHandler`` talk to a server that speaks HTTP/1.1 only: it takes the client's frames as a server that allows one
/// request at a time, and passes each request on.
///
/// It belongs between NIO's codec of HTTP/1.1 and the client's handler; ``add(to:after:)`` puts it there. It costs about as much as a
/// second connection, and is meant for rare servers. A request whose answer is no longer awaited ends the connection, since the next answer
/// would be taken for its own. PINGs are answered here: they say nothing about the server.
package final class HTTP1Bridge: ChannelDuplexHandler {
    /// The parts of answers from the server.
    package typealias InboundIn = HTTPClientResponsePart
    /// Frames to the client.
    package typealias InboundOut = ByteBuffer
    /// Frames from the client.
    package typealias OutboundIn = ByteBuffer
    /// The parts of requests to the server.
    package typealias OutboundOut = HTTPClientRequestPart

    /// The maximum bytes of an answer's body that are passed on.
    private static let bodyBytesMax = 64 * 1_024

    /// An answer that is being received.
    private struct Answer {
        var head: HTTPResponseHead
        var body: [UInt8] = []
    }

    private var session: HTTP2ServerSession
    /// The requests that wait for their turn: no more than the client sends before it knows the limit of one.
    private var waiting = CircularBuffer<HTTP2Request>()
    /// The stream whose request the server has.
    private var current: Int32?
    /// The stream of the last request that the server got.
    private var last: Int32 = 0
    private var answer: Answer?
    private var isTurnScheduled = false

    private init() throws(HTTP2Error) {
        self.session = try HTTP2ServerSession(configuration: HTTP2ServerConfiguration(maxConcurrentStreams: 1))
    }

    /// Adds the codec of HTTP/1.1 and a bridge behind a handler of a pipeline.
    package static func add(
        to pipeline: ChannelPipeline.SynchronousOperations,
        after handler: any ChannelHandler,
    ) throws {
        let bridge = try HTTP1Bridge()
        let decoder = ByteToMessageHandler(HTTPResponseDecoder(leftOverBytesStrategy: .dropBytes))
        try pipeline.addHandlers([HTTPRequestEncoder(), decoder, bridge], position: .after(handler))
    }

    // MARK: From the client

    package func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        let frames = self.unwrapOutboundIn(data)
        self.session.receive(frames.readableBytesUInt8Span)
        promise?.succeed(())
        // The client is in the middle of its turn: it gets its frames in the next one.
        guard !self.isTurnScheduled else { return }
        self.isTurnScheduled = true
        context.eventLoop.assumeIsolated().execute {
            self.isTurnScheduled = false
            guard context.channel.isActive else { return }
            self.turn(context)
        }
    }

    package func flush(context: ChannelHandlerContext) {}

    /// Handles what the client has sent, passes the next request on, and gives the client its frames.
    private func turn(_ context: ChannelHandlerContext) {
        while let event = self.session.nextEvent() {
            switch event {
            case .requested(let request): self.waiting.append(request)
            case .cancelled(let stream, _):
                guard stream != self.current else { return context.close(promise: nil) }
                self.waiting.removeAll { $0.streamID == stream }
            case .closed: return context.close(promise: nil)
            case .settingsAcknowledged, .pingAcknowledged, .goAway: break
            }
        }
        self.sendNext(context)
        self.passFrames(context)
        if self.session.isFinished { context.close(promise: nil) }
    }

    private func sendNext(_ context: ChannelHandlerContext) {
        guard self.current == nil, let request = self.waiting.popFirst() else { return }
        self.current = request.streamID
        self.last = request.streamID
        var head = HTTPRequestHead(version: .http1_1, method: .RAW(value: request.method), uri: request.path)
        head.headers.add(name: "host", value: request.authority)
        for field in request.fields where !field.name.hasPrefix(":") {
            head.headers.add(name: field.name, value: field.value)
        }
        head.headers.replaceOrAdd(name: "content-length", value: "\(request.body.count)")
        context.write(self.wrapOutboundOut(.head(head)), promise: nil)
        if !request.body.isEmpty {
            let body = ByteBuffer(bytes: request.body)
            context.write(self.wrapOutboundOut(.body(.byteBuffer(body))), promise: nil)
        }
        context.writeAndFlush(self.wrapOutboundOut(.end(nil)), promise: nil)
    }

    private func passFrames(_ context: ChannelHandlerContext) {
        var frames = ByteBuffer()
        while self.session.wantsWrite, self.session.drainOutbound(into: &frames, limit: 64 * 1_024) {}
        guard frames.readableBytes > 0 else { return }
        context.fireChannelRead(self.wrapInboundOut(frames))
        context.fireChannelReadComplete()
    }

    // MARK: From the server

    package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch self.unwrapInboundIn(data) {
        case .head(let head): self.answer = Answer(head: head)
        case .body(let bytes):
            let room = Self.bodyBytesMax - (self.answer?.body.count ?? 0)
            self.answer?.body.append(contentsOf: bytes.readableBytesView.prefix(max(0, room)))
            // A longer one ends the answer, and the connection, since its rest would come before the next answer.
            if self.answer != nil, bytes.readableBytes > room { self.answered(context, isWhole: false) }
        case .end: self.answered(context)
        }
    }

    /// Does nothing: the frames were passed on with the answer that they are made of.
    package func channelReadComplete(context: ChannelHandlerContext) {}

    private func answered(_ context: ChannelHandlerContext, isWhole: Bool = true) {
        guard let stream = self.current, let answer = self.answer, (200...599).contains(Int(answer.head.status.code))
        else { return context.close(promise: nil) }
        (self.current, self.answer) = (nil, nil)
        let headers = HTTP2AnswerField.allCases.compactMap { field -> HeaderField? in
            let name = field.name.description
            return answer.head.headers.first(name: name).flatMap { try? HeaderField(name, $0) }
        }
        let status = Int(answer.head.status.code)
        self.session.respond(to: stream, HTTP2Response(status: status, headers: headers, body: answer.body))
        let isKeptAlive = isWhole && answer.head.isKeepAlive
        if !isKeptAlive { self.session.goAway(lastStreamID: self.last, code: .noError) }
        self.passFrames(context)
        guard isKeptAlive else { return context.close(promise: nil) }
        self.turn(context)
    }

    package func channelInactive(context: ChannelHandlerContext) {
        // A request that the server never got may be sent again.
        if !self.session.isFinished {
            self.session.goAway(lastStreamID: self.last, code: .noError)
            self.passFrames(context)
        }
        context.fireChannelInactive()
    }
}
