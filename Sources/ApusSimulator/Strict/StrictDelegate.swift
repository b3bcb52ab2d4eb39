internal import ApusCore
internal import ApusHTTP2
internal import ApusTLS
internal import NIOCore

/// Connects a ``StrictConnection`` with HTTP/2 and performs its decisions.
final class StrictDelegate: HTTP2ServerDelegate {
    private var connection: StrictConnection
    private let state: SimulatorState
    private let streamsMax: UInt32
    /// The last stream that is processed, after GOAWAY was sent.
    private var lastStreamID = Int32.max

    init(connection: StrictConnection, state: SimulatorState, streamsMax: UInt32) {
        self.connection = connection
        self.state = state
        self.streamsMax = streamsMax
    }

    /// Receives a client's certificate, which the simulator's authority issued.
    func present(_ certificate: Certificate, to handler: HTTP2ServerHandler) {
        self.connection.present(certificate)
        handler.updateSettings(maxConcurrentStreams: self.streamsMax)
    }

    func http2(_ handler: HTTP2ServerHandler, received event: HTTP2ServerEvent) {
        guard case .requested(let request) = event, request.streamID <= self.lastStreamID else { return }
        let headers = request.fields.filter { !$0.name.hasPrefix(":") }.map { ProviderHeader($0.name, $0.value) }
        let decision = self.connection.decide(
            ProviderRequest(
                method: request.method,
                authority: request.fields.first { $0.name == ":authority" }?.value ?? "",
                path: request.path,
                headers: headers,
                body: request.body,
            ),
            nanoseconds: self.state.clock.nanosecondsSince1970(),
        )
        self.perform(decision, on: request.streamID, handler)
    }

    private func perform(_ decision: Decision, on streamID: Int32, _ handler: HTTP2ServerHandler) {
        if decision.streamsMax != nil || decision.opensStreams {
            handler.updateSettings(maxConcurrentStreams: decision.streamsMax ?? self.streamsMax)
        }
        switch decision.action {
        case .answer(let answer):
            let response = HTTP2Response(answer)
            if decision.delayMicroseconds > 0 {
                handler.respond(to: streamID, response, after: .microseconds(decision.delayMicroseconds))
            } else {
                handler.respond(to: streamID, response)
            }
        case .half(let answer):
            var response = HTTP2Response(answer.half)
            response.isUnfinished = true
            handler.respond(to: streamID, response, after: .microseconds(decision.delayMicroseconds))
        case .silence: break
        case .refuse: handler.reset(streamID, code: .refusedStream)
        case .drop: return handler.close()
        }
        guard let goAway = decision.goAway else { return }
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

/// Passes a client's certificate to the connection as soon as the handshake is complete.
final class CertificateWatcher: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let delegate: StrictDelegate
    private let handler: HTTP2ServerHandler

    init(delegate: StrictDelegate, handler: HTTP2ServerHandler) {
        self.delegate = delegate
        self.handler = handler
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if let certificate = (event as? TLSHandshakeCompleted)?.peerCertificate {
            self.delegate.present(certificate, to: self.handler)
        }
        context.fireUserInboundEventTriggered(event)
    }
}

extension HTTP2Response {
    /// Omits headers of a script that HTTP/2 does not allow.
    init(_ answer: ProviderAnswer) {
        self.init(
            status: answer.status,
            headers: answer.headers.compactMap { try? HeaderField($0.name, $0.value) },
            body: answer.body,
        )
    }
}
