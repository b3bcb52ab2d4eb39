internal import ApusCore
internal import ApusHTTP2
internal import ApusTLS
internal import NIOCore

/// Drives a ``StrictConnection`` behind HTTP/2: does what it rules.
final class StrictDriver: HTTP2ServerDelegate {
    private var connection: StrictConnection
    private let world: World
    private let streamsMax: UInt32
    /// The last stream that is processed, once GOAWAY was said.
    private var lastStreamID = Int32.max

    init(connection: StrictConnection, world: World, streamsMax: UInt32) {
        self.connection = connection
        self.world = world
        self.streamsMax = streamsMax
    }

    /// The client showed a certificate that our authority vouches for.
    func showed(_ certificate: Certificate, to handler: HTTP2ServerHandler) {
        self.connection.showed(AppleCertificate(certificate))
        handler.updateSettings(maxConcurrentStreams: self.streamsMax)
    }

    func http2(_ handler: HTTP2ServerHandler, received event: HTTP2ServerEvent) {
        guard case .requested(let request) = event, request.streamID <= self.lastStreamID else { return }
        let headers = request.fields.filter { !$0.name.hasPrefix(":") }.map { ProviderHeader($0.name, $0.value) }
        let ruling = self.connection.judge(
            ProviderRequest(method: request.method, path: request.path, headers: headers, body: request.body),
            nanoseconds: self.world.clock.nanosecondsSince1970(),
        )
        self.perform(ruling, on: request.streamID, handler)
    }

    private func perform(_ ruling: Ruling, on streamID: Int32, _ handler: HTTP2ServerHandler) {
        if ruling.streamsMax != nil || ruling.opensStreams {
            handler.updateSettings(maxConcurrentStreams: ruling.streamsMax ?? self.streamsMax)
        }
        switch ruling.action {
        case .answer(let answer):
            let response = HTTP2Response(answer)
            if ruling.delayMicroseconds > 0 {
                handler.respond(to: streamID, response, after: .microseconds(ruling.delayMicroseconds))
            } else {
                handler.respond(to: streamID, response)
            }
        case .half(let answer):
            var response = HTTP2Response(answer.half)
            response.isUnfinished = true
            handler.respond(to: streamID, response, after: .microseconds(ruling.delayMicroseconds))
        case .silence: break
        case .refuse: handler.reset(streamID, code: .refusedStream)
        case .drop: return handler.close()
        }
        guard let goAway = ruling.goAway else { return }
        self.lastStreamID =
            switch goAway.lastStream {
            case .this: streamID
            // A client's streams are odd (RFC 9113 §5.1.1).
            case .before: max(0, streamID - 2)
            case .none: 0
            }
        let debug = JSONValue.object(["reason": .string(goAway.reason)]).bytes
        handler.goAway(lastStreamID: self.lastStreamID, code: .noError, debug: debug)
    }
}

/// Tells who a client says it is, as soon as its handshake is over.
final class CertificateWatcher: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let driver: StrictDriver
    private let handler: HTTP2ServerHandler

    init(driver: StrictDriver, handler: HTTP2ServerHandler) {
        self.driver = driver
        self.handler = handler
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if let certificate = (event as? TLSHandshakeCompleted)?.peerCertificate {
            self.driver.showed(certificate, to: self.handler)
        }
        context.fireUserInboundEventTriggered(event)
    }
}

extension HTTP2Response {
    /// What a script puts in a header and HTTP/2 does not allow there is left out.
    init(_ answer: ProviderAnswer) {
        self.init(
            status: answer.status,
            headers: answer.headers.compactMap { try? HeaderField($0.name, $0.value) },
            body: answer.body,
        )
    }
}

extension ProviderAnswer {
    /// The answer with half of its body; of an empty one nothing is left but the headers.
    var half: ProviderAnswer {
        var answer = self
        answer.body = Array(self.body.prefix(self.body.count / 2))
        return answer
    }
}
