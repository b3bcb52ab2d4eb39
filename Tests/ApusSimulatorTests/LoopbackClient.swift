import ApusCore
import ApusHTTP2
import ApusSimulator
import ApusTLS
import NIOCore
import NIOPosix

/// A client of the real engine, over TLS on loopback: submits as many requests as the server allows, and waits for all.
///
/// Everything mutable is touched on its event loop only.
final class LoopbackClient: HTTP2ClientDelegate, @unchecked Sendable {
    enum Outcome: Hashable, Sendable {
        case answered(status: Int, body: String, retryAfter: String?)
        case refused
        case lost

        var status: Int? {
            guard case .answered(let status, _, _) = self else { return nil }
            return status
        }
    }

    struct Request: Sendable {
        let template: RequestTemplate
        var authorization: HeaderValue?
        var token: [UInt8] = []
        var id: RequestID?
    }

    private let loop: any EventLoop
    private var channel: (any Channel)?
    private var handler: HTTP2ClientHandler?
    private var queue: ArraySlice<Request> = []
    private var base = 0
    private var outcomes: [Outcome?] = []
    private var open = 0
    private var promise: EventLoopPromise<[Outcome]>?
    private var isClosed = false
    private(set) var streamsMaxSeen: [UInt32] = []
    private(set) var goAways: [Int32] = []
    /// Requests in flight at most.
    private(set) var inFlightMax = 0

    private init(loop: any EventLoop) { self.loop = loop }

    /// Connects and shakes hands.
    static func connect(
        port: Int,
        authorityPEM: String?,
        certificate: TLSIdentity? = nil,
        configuration: HTTP2ClientConfiguration = HTTP2ClientConfiguration(streamsMaxBeforeSettings: 1),
    ) async throws -> LoopbackClient {
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let client = LoopbackClient(loop: loop)
        let context = try authorityPEM.map {
            try TLSContext.client(trust: .pem($0), certificate: certificate, alpn: ["h2"])
        }
        let channel = try await ClientBootstrap(group: loop)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    if let context {
                        let tls = try TLSHandler(client: context, serverName: "localhost")
                        try channel.pipeline.syncOperations.addHandler(tls)
                    }
                    let handler = try HTTP2ClientHandler(configuration: configuration, delegate: client)
                    client.handler = handler
                    try channel.pipeline.syncOperations.addHandler(handler)
                }
            }
            .connect(host: "127.0.0.1", port: port).get()
        try await loop.submit { client.channel = channel }.get()
        return client
    }

    /// Sends all and waits until each has its end.
    func send(_ requests: [Request]) async throws -> [Outcome] {
        try await self.loop.flatSubmit {
            let promise = self.loop.makePromise(of: [Outcome].self)
            precondition(self.promise == nil, "one batch after the other")
            self.base += self.outcomes.count
            self.outcomes = Array(repeating: self.isClosed ? .lost : nil, count: requests.count)
            self.queue = self.isClosed ? [] : requests[...]
            self.open = self.isClosed ? 0 : requests.count
            self.promise = promise
            self.submit()
            self.finishIfDone()
            return promise.futureResult
        }.get()
    }

    func send(_ request: Request) async throws -> Outcome { try await self.send([request])[0] }

    func seen<Value: Sendable>(_ path: @escaping @Sendable (LoopbackClient) -> Value) async throws -> Value {
        try await self.loop.submit { path(self) }.get()
    }

    func close() async throws {
        try await self.loop.submit { self.handler?.close() }.get()
        try await self.channel?.closeFuture.get()
    }

    private func submit() {
        while let request = self.queue.first, let handler = self.handler {
            let index = self.outcomes.count - self.queue.count
            let result = handler.submit(
                request.template,
                authorization: request.authorization,
                token: request.token.span,
                id: request.id,
                tag: UInt64(self.base + index),
                deadline: .now() + .seconds(30),
            )
            switch result {
            case .submitted: self.queue.removeFirst()
            case .full: return
            case .closed, .invalidToken:
                self.queue.removeFirst()
                self.note(UInt64(self.base + index), .lost)
            }
            self.inFlightMax = max(self.inFlightMax, handler.inFlight)
        }
    }

    private func note(_ tag: UInt64, _ outcome: Outcome) {
        let index = Int(tag) - self.base
        guard self.outcomes[index] == nil else { preconditionFailure("a request ended twice") }
        self.outcomes[index] = outcome
        self.open -= 1
    }

    private func finishIfDone() {
        guard self.open == 0, let promise = self.promise else { return }
        self.promise = nil
        promise.succeed(self.outcomes.compactMap(\.self))
    }

    func http2(_ handler: HTTP2ClientHandler, received event: HTTP2ClientEvent) {
        switch event {
        case .answered(let answer):
            let outcome = Outcome.answered(
                status: answer.status,
                body: String(decoding: handler.body(of: answer), as: UTF8.self),
                retryAfter: handler.value(of: .retryAfter, in: answer),
            )
            self.note(answer.tag, outcome)
        case .refused(let tag): self.note(tag, .refused)
        case .unsent(let tag, _), .reset(let tag, _), .timedOut(let tag): self.note(tag, .lost)
        case .goAway(_, let lastStreamID, _): self.goAways.append(lastStreamID)
        case .settingsChanged(let streams): self.streamsMaxSeen.append(streams)
        case .pingAcknowledged: break
        case .closed:
            self.isClosed = true
            self.handler = nil
            for index in self.outcomes.indices where self.outcomes[index] == nil {
                self.note(UInt64(self.base + index), .lost)
            }
            self.queue = []
        }
        self.submit()
        self.finishIfDone()
    }

    func http2CapacityAvailable(_ handler: HTTP2ClientHandler) {
        self.submit()
        self.finishIfDone()
    }
}

/// Builds requests of the simulator's clients.
enum Requests {
    static func token(_ number: Int) -> [UInt8] {
        (0..<4).flatMap { lane in
            let word = TokenDigest("\(number)/\(lane)", provider: .fcm).description
            return Array(Hexadecimal.decode(word.prefix(16)) ?? [])
        }
    }

    /// A JWT of the demo app.
    static func authorization(_ simulator: Simulator, now: Int64) throws -> HeaderValue {
        let key = try PrivateKey(pem: simulator.signingKeyPEM(app: "demo") ?? "")
        let jwt = try JWS.sign(
            header: #"{"alg":"ES256","kid":"APUSKEY001"}"#,
            payload: #"{"iss":"APUSTEAM01","iat":\#(now)}"#,
            with: .privateKey(key),
        )
        return try HeaderValue("bearer \(jwt)")
    }

    static func apns(send: String = "s1") throws -> RequestTemplate {
        try RequestTemplate(
            authority: "localhost",
            path: .token(prefix: "/3/device/", form: .hexadecimal),
            headers: [
                HeaderField("apns-topic", "example.apus.demo"), HeaderField("apns-push-type", "alert"),
                HeaderField("apns-priority", "10"),
            ],
            body: .shared(Array(#"{"aps":{"alert":"hello"},"apus.send":"\#(send)"}"#.utf8)),
        )
    }

    static func fcm(send: String = "s1") throws -> RequestTemplate {
        try RequestTemplate(
            authority: "localhost",
            path: .constant("/v1/projects/apus-demo/messages:send"),
            headers: [HeaderField("content-type", "application/json")],
            body: .pieces([
                .bytes(Array(#"{"message":{"token":""#.utf8)), .token,
                .bytes(Array(#"","data":{"apus_send":"\#(send)"}}}"#.utf8)),
            ]),
        )
    }

    /// Exchanges the demo app's service account for an access token.
    static func oauth(_ simulator: Simulator, now: Int64) throws -> RequestTemplate {
        let account = try JSONValue(parsing: simulator.serviceAccountJSON(app: "demo") ?? "", bytesMax: 10_000)
        let key = try PrivateKey(pem: account["private_key"]?.string ?? "")
        let claims: JSONValue = [
            "iss": account["client_email"] ?? nil, "scope": "https://www.googleapis.com/auth/firebase.messaging",
            "aud": account["token_uri"] ?? nil, "iat": .integer(now), "exp": .integer(now + 3_600),
        ]
        let assertion = try JWS.sign(
            header: #"{"alg":"RS256","typ":"JWT"}"#,
            payload: claims.text,
            with: .privateKey(key),
        )
        let grant = "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"
        return try RequestTemplate(
            authority: "localhost",
            path: .constant("/token"),
            headers: [HeaderField("content-type", "application/x-www-form-urlencoded")],
            body: .shared(Array("grant_type=\(grant)&assertion=\(assertion)".utf8)),
        )
    }

    /// The header for messages out of the token endpoint's answer.
    static func bearer(_ outcome: LoopbackClient.Outcome) throws -> HeaderValue {
        guard case .answered(200, let body, _) = outcome else { throw SimulatorError(.keys, "\(outcome)") }
        let answer = try JSONValue(parsing: body, bytesMax: 10_000)
        return try HeaderValue("Bearer \(answer["access_token"]?.string ?? "")")
    }
}

/// The usual configuration with a change.
func configured(_ change: (inout SimulatorConfiguration) -> Void) -> SimulatorConfiguration {
    var configuration = SimulatorConfiguration()
    change(&configuration)
    return configuration
}

/// Starts a simulator, lends it, stops it.
func withSimulator(
    _ configuration: SimulatorConfiguration = SimulatorConfiguration(),
    _ body: (Simulator) async throws -> Void,
) async throws {
    let simulator = try await Simulator.start(configuration)
    do {
        try await body(simulator)
    } catch {
        await simulator.stop()
        throw error
    }
    await simulator.stop()
}
