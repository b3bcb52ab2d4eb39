package import ApusCore
internal import Synchronization

extension FaultRoute {
    /// The route of messages to browsers.
    public static let webpush = FaultRoute(4, "webpush")
}

/// Simulates the push services of Google, Mozilla, Apple and Microsoft for browsers, all at one port: the host that a
/// request is for decides by whose rules it is judged and in whose words it is answered.
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
    /// The paths of messages that were recalled.
    private let recalled = Mutex<Set<String>>([])
    /// The maximum number of recalled messages that are remembered.
    private static let recalledMax = 100_000
    /// The real browsers that are connected.
    let firefoxes = FirefoxConnections()

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
            func validate(_ validator: WebPushValidator) -> ProviderAnswer {
                validator.validate(
                    request,
                    isReadable: content != nil,
                    behaviors: context.behaviors,
                    now: context.now,
                    number: context.number,
                )
            }
            return Validation(
                answer: isReal ? self.deliver(request, context, validator, validate) : validate(validator),
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

    /// Deletes a stored message, as only one of the services does
    /// (https://mozilla-services.github.io/autopush-rs): once, and only one that it has named.
    private func recall(_ request: ProviderRequest) -> ProviderAnswer {
        let isMessage = request.path.hasPrefix("/m/") && Int(request.path.dropFirst(3)) != nil
        guard SimulatedBrowser.Service(host: request.authority) == .mozilla, isMessage else {
            return ProviderAnswer(status: 404)
        }
        let isNew = self.recalled.withLock { recalled in
            recalled.count < Self.recalledMax && recalled.insert(request.path).inserted
        }
        return ProviderAnswer(status: isNew ? 204 : 404)
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
