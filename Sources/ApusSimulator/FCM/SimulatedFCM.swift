package import ApusCore
internal import ApusTLS
internal import Synchronization

extension FaultRoute {
    /// The route of requests for messages and topics.
    public static let fcm = FaultRoute(2, "fcm")
    /// The route of requests to the token endpoint.
    public static let oauth = FaultRoute(3, "oauth")
}

/// Simulates Firebase Cloud Messaging: messages by HTTP v1, the subscription of topics, and the token endpoint, all at one port.
package final class SimulatedFCM: SimulatedProvider {
    package static let traits = ProviderTraits(
        provider: .fcm,
        routes: [.fcm, .oauth],
        speaksHTTP1: true,
        sendKey: #""apus_send""#,
        resultWords: FCMTopics.resultWords,
        example: ScriptExample(
            rates: """
                fcm:
                  reasons: {SENDER_ID_MISMATCH: 0.01, THIRD_PARTY_AUTH_ERROR: 0.001, BAD_GATEWAY: 0.001}
                oauth:
                  reasons: {invalid_grant: 0.1}
                """,
            phase: #"  - {from_ms: 60000, fcm: {delay_ms: 200, answers: [{status: 500, body: "", share: 0.5}]}}"#,
            scripts: """
                  - {route: fcm, fault: {reason: QUOTA_EXCEEDED}}
                  - {route: fcm, fault: {status: 502, body: "<html>"}}
                  # The answer of Instance ID for tokens that contain a text (or for all) in the next batch for a topic.
                  - {route: fcm, fault: {result: RESOURCE_EXHAUSTED, token: "old"}}
                """,
            token: #"  - {provider: fcm, token: "old", rotates_ms: 5000, rotates_to: "new"}"#,
        ),
    )

    /// The subscriptions of topics.
    let topics = FCMTopics()
    /// The device groups.
    let groups = FCMGroups()
    private let shared: Mutex<Validators>

    private struct Validators {
        var messages: FCMValidator
        var tokens: OAuthValidator
    }

    /// Creates a provider that validates messages and requests for access tokens with the given validators.
    package init(_ messages: FCMValidator, _ tokens: OAuthValidator) {
        self.shared = Mutex(Validators(messages: messages, tokens: tokens))
    }

    package convenience init(_ configuration: SimulatorConfiguration, _ keys: SimulatorKeys) {
        let tokens = AccessTokens(secret: SecureRandom.bytes(32))
        let accounts = keys.store(FCMKeys.self).accounts(keys.apps)
        self.init(
            FCMValidator(accounts: accounts, tokens: tokens),
            OAuthValidator(
                accounts: accounts,
                audiences: [],
                tokens: tokens,
                lifetimeSeconds: configuration.accessTokenSeconds,
            ),
        )
    }

    package static func makeKeys() -> (any ProviderKeys)? { FCMKeys() }

    package func update(_ keys: SimulatorKeys) {
        let accounts = keys.store(FCMKeys.self).accounts(keys.apps)
        self.shared.withLock { validators in
            validators.messages.accounts = accounts
            validators.tokens.accounts = accounts
        }
    }

    /// Accepts assertions for the simulator's token endpoint. Google's client for Python names Google's, whatever the account's file says.
    package func update(_ addresses: SimulatorAddresses) {
        let audiences = [addresses.tokenURI, OAuthValidator.googleAudience].compactMap(\.self)
        self.shared.withLock { $0.tokens.audiences = Set(audiences) }
    }

    package func reset() {
        self.topics.reset()
        self.groups.reset()
    }

    package static func members(of addresses: SimulatorAddresses) -> JSONObject {
        addresses.tokenURI.map { ["token_uri": .string($0)] } ?? [:]
    }

    // MARK: Requests

    package static func route(path: Span<UInt8>) -> FaultRoute { path.isTokenEndpoint ? .oauth : .fcm }

    package func connect() -> any ProviderConnection { Connection(provider: self) }

    private struct Connection: ProviderConnection {
        let provider: SimulatedFCM

        mutating func validate(_ request: ProviderRequest, _ context: RequestContext) -> Validation {
            let validators = self.provider.shared.withLock { $0 }
            if context.route == .oauth {
                let answer = validators.tokens.validate(request, now: context.now, number: context.number)
                return Validation(answer: answer, recipient: nil)
            }
            guard !FCMTopics.owns(request.path) else {
                let answer = self.provider.topics.validate(
                    request,
                    validator: validators.messages,
                    behaviors: context.behaviors,
                    now: context.now,
                    fault: context.fault,
                )
                return Validation(answer: answer, recipient: nil)
            }
            guard !FCMGroups.owns(request.path) else {
                let answer = self.provider.groups.validate(
                    request,
                    validator: validators.messages,
                    behaviors: context.behaviors,
                    now: context.now,
                )
                return Validation(answer: answer, recipient: nil)
            }
            let outcome = validators.messages.validate(
                request,
                behaviors: context.behaviors,
                now: context.now,
                messageID: UUIDText.messageID(context.number),
            )
            let address =
                outcome.address.isEmpty ? SimulatedFCM.token(in: request.body.span) : Array(outcome.address.utf8)
            return Validation(answer: outcome.answer, recipient: outcome.isValidation ? nil : Recipient(token: address))
        }
    }

    package static func recipient(of request: ProviderRequest) -> Recipient? {
        guard !FCMTopics.owns(request.path), !FCMGroups.owns(request.path), !FCMValidator.isValidation(request.body)
        else { return nil }
        return Self.recipient(path: Array(request.path.utf8), body: request.body.span)
    }

    package static func recipient(path: [UInt8], body: Span<UInt8>) -> Recipient? {
        path.span.isTokenEndpoint ? nil : Recipient(token: Self.token(in: body))
    }

    /// Returns the token of a message, found without parsing the body as JSON; empty if there is none.
    private static func token(in body: Span<UInt8>) -> [UInt8] {
        let range = PayloadReader.text(of: #""token""#, in: body)
        var token: [UInt8] = []
        token.append(span: body.extracting(range.isEmpty ? PayloadReader.text(of: #""fid""#, in: body) : range))
        return token
    }

    package func fastAnswer(_ route: FaultRoute, number: UInt64, now: UnixMilliseconds) -> ProviderAnswer? {
        if route == .oauth { return self.shared.withLock { $0.tokens }.grantUnchecked(now: now, number: number) }
        let name = "projects/fast/messages/\(UUIDText.messageID(number))"
        return ProviderAnswer(status: 200, body: Array("{\"name\":\"\(name)\"}".utf8))
    }

    // MARK: Tokens

    package static func answer(to behavior: TokenBehavior) -> ProviderAnswer? { FCMValidator.refusal(for: behavior) }

    // MARK: Faults

    package static func reasons(of route: FaultRoute) -> [String] {
        route == .oauth ? OAuthFaults.reasons : FCMFaults.reasons
    }

    package static func answer(
        reason: String,
        route: FaultRoute,
        id: String?,
        now: UnixMilliseconds,
    ) -> ProviderAnswer? {
        route == .oauth ? OAuthFaults.answer(reason: reason) : FCMFaults.answer(reason: reason)
    }

    package static func answer(status fault: Fault, route: FaultRoute, id: String?) -> ProviderAnswer {
        route == .oauth ? OAuthFaults.answer(status: fault) : FCMFaults.answer(status: fault)
    }

    package static func answer(
        _ fault: Fault,
        to request: ProviderRequest,
        _ context: RequestContext,
    ) -> ProviderAnswer? {
        let answer = Self.answer(fault, context, id: nil)
        if case .answer = fault { return answer }
        guard context.route == .fcm, FCMTopics.owns(request.path) else { return answer }
        return answer.map { FCMTopics.worded($0, path: request.path) }
    }

    package static func usesQuota(path: Span<UInt8>) -> Bool { path.contains("/messages:send") }

    package static func isBatch(path: Span<UInt8>) -> Bool { path.contains(FCMTopics.batchPrefix) }
}

extension Span<UInt8> {
    /// True when the path, without its query, is that of the token endpoint.
    fileprivate var isTokenEndpoint: Bool {
        let path: StaticString = "/token"
        let count = path.utf8CodeUnitCount
        guard self.count >= count, self.count == count || self[count] == UInt8(ascii: "?") else { return false }
        return self.extracting(first: count).contains("/token")
    }
}

// MARK: Settings

extension FaultPlan {
    /// The rates of faults at FCM.
    public var fcm: FaultRates {
        get { self[.fcm] }
        set { self[.fcm] = newValue }
    }

    /// The rates of faults at the token endpoint.
    public var oauth: FaultRates {
        get { self[.oauth] }
        set { self[.oauth] = newValue }
    }
}

extension SimulatorConfiguration {
    /// The port of FCM, for messages and access tokens; 0 for a free one, nil for none.
    public var fcmPort: Int? {
        get { self.ports[.fcm] }
        set { self.ports[.fcm] = newValue }
    }
}

extension SimulatorAddresses {
    /// The port of FCM; nil when it is not served.
    public var fcmPort: Int? { self.ports[.fcm] }
    /// The token endpoint.
    public var tokenURI: String? { self.fcmPort.map { "\(self.scheme)://\(self.host):\($0)/token" } }
}

extension Simulator {
    /// Returns the tokens and installation ids that subscribe to a topic, in no order.
    public func topicSubscribers(_ topic: String) -> Set<String> {
        self.state.provider(SimulatedFCM.self).topics.members(of: topic)
    }

    /// Returns the registration tokens of a device group, in no order; nil when there is no such group.
    public func groupMembers(_ name: String) -> Set<String>? {
        self.state.provider(SimulatedFCM.self).groups.members(of: name)
    }
}
