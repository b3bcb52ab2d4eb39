package import ApusCore
package import NIOHTTP1
internal import Synchronization

extension FaultRoute {
    /// The route of messages to browsers.
    public static let webpush = FaultRoute(4, "webpush")
}

/// Simulates the push services of Google, Mozilla, Apple and Microsoft for browsers, all at one port: the host that a
/// request is for decides by whose rules it is checked and in whose words it is answered.
package final class SimulatedWebPush: SimulatedProvider {
    package static let traits = ProviderTraits(
        provider: .webpush,
        routes: [.webpush],
        speaksHTTP1: true,
        serverNames: SimulatedBrowser.Service.allCases.map(\.rawValue),
        sendKey: #""apus_send""#,
        example: ScriptExample(
            rates: """
                webpush:
                  reasons: {too_many_requests: 0.01, gone: 0.001}
                """,
            phase: #"  - {from_ms: 90000, webpush: {delay_ms: 100}}"#,
            scripts: """
                  - {route: webpush, fault: {reason: other_key}}
                  - {route: webpush, fault: {status: 307, body: ""}}
                """,
            token: #"  - {provider: webpush, token: "https://web.push.apple.com/old", dies_ms: 5000}"#,
        ),
    )

    private let validator: Mutex<WebPushValidator>
    /// The messages and other traces of earlier requests.
    private let traces = Mutex(Traces())
    /// The real browsers that are connected.
    let firefoxes = FirefoxConnections()
    package var upgraders: [any HTTPServerProtocolUpgrader & Sendable] { [self.firefoxes.upgrader()] }

    /// Creates a provider with the given validator.
    package init(_ validator: WebPushValidator) { self.validator = Mutex(validator) }

    package convenience init(_ configuration: SimulatorConfiguration, _ keys: SimulatorKeys) {
        self.init(WebPushValidator(serverKeys: keys.store(WebPushKeys.self).points))
    }

    package static func makeKeys() -> (any ProviderKeys)? { WebPushKeys() }

    package func update(_ keys: SimulatorKeys) {
        let points = keys.store(WebPushKeys.self).points
        self.validator.withLock { $0.serverKeys = points }
    }

    /// Holds what earlier requests decide about later ones.
    private struct Traces {
        /// The key to which each subscription is bound: the one that it was declared for, or was first sent to with.
        var keys: [TokenDigest: [UInt8]] = [:]
        /// The numbers of the messages that can be recalled: those since ``formerlyStored`` was filled.
        var stored: Set<UInt64> = []
        /// The numbers of as many messages before them as may be remembered.
        var formerlyStored: Set<UInt64> = []

        /// The maximum number of subscriptions that are bound; further ones accept every key of an app.
        static let keysMax = 2_000_000
        /// The maximum of ``stored``: then it replaces ``formerlyStored``, whose messages count as delivered.
        static let storedMax = 100_000

        mutating func bind(_ digest: TokenDigest, to point: [UInt8]) {
            if self.keys[digest] == nil, self.keys.count < Self.keysMax { self.keys[digest] = point }
        }

        mutating func store(_ number: UInt64) {
            if self.stored.count == Self.storedMax { (self.formerlyStored, self.stored) = (self.stored, []) }
            self.stored.insert(number)
        }

        mutating func recall(_ number: UInt64) -> Bool {
            self.stored.remove(number) != nil || self.formerlyStored.remove(number) != nil
        }
    }

    /// Declares the key with which the browser of an endpoint subscribed.
    func declare(_ point: [UInt8], of endpoint: String) {
        self.traces.withLock { $0.keys[TokenDigest(endpoint, provider: .webpush)] = point }
    }

    package func reset() { self.traces.withLock { $0 = Traces() } }

    // MARK: Requests

    package func connect() -> any ProviderConnection { Connection(provider: self) }

    private struct Connection: ProviderConnection {
        let provider: SimulatedWebPush

        mutating func validate(_ request: ProviderRequest, _ context: RequestContext) -> Validation {
            if request.method == "DELETE" {
                return Validation(answer: self.provider.recall(request), recipient: nil)
            }
            let validator = self.provider.validator.withLock { $0 }
            // Only a real browser itself can read what it is sent.
            let isReal = FirefoxPushService.owns(path: request.path)
            let content = isReal ? [] : WebPushValidator.content(of: request)
            let digest = TokenDigest(request.path, provider: .webpush)
            let bound = isReal ? nil : self.provider.traces.withLock { $0.keys[digest] }
            func validate(_ validator: WebPushValidator) -> ProviderAnswer {
                validator.validate(
                    request,
                    isReadable: content != nil,
                    boundTo: bound,
                    behaviors: context.behaviors,
                    now: context.now,
                    number: context.number,
                )
            }
            let answer = isReal ? self.deliver(request, context, validator, validate) : validate(validator)
            if answer.status == 201 {
                self.provider.accepted(request, digest, isReal ? nil : WebPushValidator.key(of: request), context)
            }
            return Validation(
                answer: answer,
                recipient: SimulatedWebPush.recipient(of: request),
                content: content,
            )
        }

        /// Validates a request by the key of a real browser, and passes it on.
        private func deliver(
            _ request: ProviderRequest,
            _ context: RequestContext,
            _ validator: WebPushValidator,
            _ validate: (WebPushValidator) -> ProviderAnswer,
        ) -> ProviderAnswer {
            do throws(WebPushRefusal) {
                var validator = validator
                if let key = try self.provider.firefoxes.key(ofPath: request.path) { validator.serverKeys = [key] }
                let answer = validate(validator)
                guard answer.status == 201 else { return answer }
                try self.provider.firefoxes.deliver(request, version: "\(context.number)")
                return answer
            } catch {
                return error.answer(of: .mozilla)
            }
        }
    }

    private func accepted(
        _ request: ProviderRequest,
        _ digest: TokenDigest,
        _ point: [UInt8]?,
        _ context: RequestContext,
    ) {
        // A message with TTL 0 is not stored (RFC 8030 §5.2).
        let isStored = SimulatedBrowser.Service(host: request.authority) == .mozilla && request.first("ttl") != "0"
        self.traces.withLock { traces in
            if let point { traces.bind(digest, to: point) }
            if isStored { traces.store(context.number) }
        }
    }

    /// Deletes a stored message, as only one of the services does (https://mozilla-services.github.io/autopush-rs): once, and only one
    /// that it has accepted.
    private func recall(_ request: ProviderRequest) -> ProviderAnswer {
        guard SimulatedBrowser.Service(host: request.authority) == .mozilla, request.path.hasPrefix("/m/"),
            let number = UInt64(request.path.dropFirst(3))
        else { return ProviderAnswer(status: 404) }
        return ProviderAnswer(status: self.traces.withLock { $0.recall(number) } ? 204 : 404)
    }

    package static func recipient(of request: ProviderRequest) -> Recipient? {
        Recipient(token: Array(request.path.utf8))
    }

    package static func recipient(path: [UInt8], body: Span<UInt8>) -> Recipient? { Recipient(token: path) }

    package func fastAnswer(_ route: FaultRoute, number: UInt64, now: UnixMilliseconds) -> ProviderAnswer? {
        ProviderAnswer(status: 201)
    }

    // MARK: Tokens

    package static func tokenBytes(_ token: String) -> [UInt8] { Array(SimulatedBrowser.path(of: token).utf8) }

    package static func answer(to behavior: TokenBehavior) -> ProviderAnswer? {
        switch behavior {
        case .alive: nil
        case .dead: WebPushRefusal.gone.answer(of: .google)
        case .expired, .bad: WebPushRefusal.unknown.answer(of: .google)
        case .foreign: WebPushRefusal.otherKey.answer(of: .google)
        }
    }

    // MARK: Faults

    package static func reasons(of route: FaultRoute) -> [String] { WebPushRefusal.allCases.map(\.rawValue) }

    package static func answer(
        reason: String,
        route: FaultRoute,
        id: String?,
        now: UnixMilliseconds,
    ) -> ProviderAnswer? {
        WebPushRefusal(rawValue: reason)?.answer(of: .google)
    }

    package static func answer(status fault: Fault, route: FaultRoute, id: String?) -> ProviderAnswer {
        Self.refusal(fault).answer(of: .google)
    }

    private static func refusal(_ fault: Fault) -> WebPushRefusal {
        switch fault {
        case .tooManyRequests: .tooManyRequests
        case .unavailable: .unavailable
        default: .internalError
        }
    }

    /// Returns the answer to a fault in the words of the service that the request is for.
    package static func answer(
        _ fault: Fault,
        to request: ProviderRequest,
        _ context: RequestContext,
    ) -> ProviderAnswer? {
        let plain = Self.answer(fault, context, id: nil)
        guard let service = SimulatedBrowser.Service(host: request.authority), let plain else { return plain }
        let refusal: WebPushRefusal? =
            switch fault {
            case .reason(let reason): WebPushRefusal(rawValue: reason)
            case .tooManyRequests, .unavailable, .internalError: Self.refusal(fault)
            default: nil
            }
        guard let refusal else { return plain }
        var answer = refusal.answer(of: service)
        answer.headers += plain.headers.filter { $0.name == "retry-after" }
        return answer
    }
}

// MARK: Settings

extension FaultPlan {
    /// The rates of faults at push services.
    public var webpush: FaultRates {
        get { self[.webpush] }
        set { self[.webpush] = newValue }
    }
}

extension SimulatorConfiguration {
    /// The port of the push services; 0 for a free one, nil for none.
    public var webPushPort: Int? {
        get { self.ports[.webpush] }
        set { self.ports[.webpush] = newValue }
    }
}

extension SimulatorAddresses {
    /// The port of the push services; nil when they are not served.
    public var webPushPort: Int? { self.ports[.webpush] }
}
