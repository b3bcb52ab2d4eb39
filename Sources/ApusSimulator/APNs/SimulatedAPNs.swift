package import ApusCore
internal import ApusTLS
internal import Synchronization

extension FaultRoute {
    /// The route of requests to `/3/device/…`, for channels and for broadcasts.
    public static let apns = FaultRoute(1, "apns")
}

/// Simulates the Apple Push Notification service: notifications, broadcast channels and their management at one port.
package final class SimulatedAPNs: SimulatedProvider {
    package static let traits = ProviderTraits(
        provider: .apns,
        routes: [.apns],
        asksForCertificate: true,
        startsWithOneStream: true,
        idHeader: "apns-id",
        sendKey: #""apus.send""#,
        tokenPath: "/3/device/",
        example: ScriptExample(
            rates: """
                apns:
                  too_many_requests: 0.01   # 429
                  unavailable: 0.01         # 503
                  internal_error: 0.01      # 500
                  refusal: 0.01             # REFUSED_STREAM: not processed
                  silence: 0.001            # accepted, never answered
                  drop: 0.001               # accepted, then the connection breaks
                  half_body: 0.001          # half of the answer's body, then nothing
                  reasons:                  # the provider's own reasons, each with its status
                    BadDeviceToken: 0.02
                    ExpiredProviderToken: 0.001
                  answers:                  # any other answer, word for word
                    - {status: 400, body: '{"reason": "OfTomorrow"}', share: 0.001}
                  delay_ms: 5               # each answer takes that long
                  jitter_ms: 10             # and up to that much longer
                  slow: 0.01                # this share takes
                  slow_ms: 10000            # that much longer
                  go_away_after: 1000       # requests of a connection
                  go_away_every_ms: 30000   # and its age
                  go_away_reason: Shutdown  # in GOAWAY's debug data
                  go_away_last: before      # this (answered), before (this one unprocessed) or none (0; as before, while accepted ones wait)
                """,
            phase: "  - {from_ms: 10000, until_ms: 20000, streams: 5, apns: {unavailable: 1}}",
            scripts: #"  - {route: apns, path: "0a1b", count: 2, fault: silence}"#,
            token: #"  - {provider: apns, token: "00fc13ad", dies_ms: 5000, returns_ms: 60000}"#,
        ),
    )

    /// The broadcast channels.
    package let channels = APNsChannels()
    private let shared: Mutex<APNsValidator>

    /// Creates a provider that validates requests with the given validator.
    package init(_ validator: APNsValidator) { self.shared = Mutex(validator) }

    package convenience init(_ configuration: SimulatorConfiguration, _ keys: SimulatorKeys) {
        let apnsKeys = keys.store(APNsKeys.self)
        self.init(
            APNsValidator(
                keys: apnsKeys.registered(keys.apps),
                bundleIDs: Set(keys.apps.compactMap(\.bundleID)),
                environment: configuration.environment,
            )
        )
    }

    package static func makeKeys() -> (any ProviderKeys)? { APNsKeys() }

    package func update(_ keys: SimulatorKeys) {
        self.shared.withLock { validator in
            validator.keys = keys.store(APNsKeys.self).registered(keys.apps)
            validator.bundleIDs = Set(keys.apps.compactMap(\.bundleID))
        }
    }

    package func reset() { self.channels.reset() }

    // MARK: Requests

    package func connect() -> any ProviderConnection { Connection(provider: self) }

    private struct Connection: ProviderConnection {
        let provider: SimulatedAPNs
        var tokens = APNsConnection()

        var isAuthorized: Bool { self.tokens.isAuthorized }

        /// Ends the whole connection when its certificate is for the other environment, as Apple does, instead of answering its requests.
        var goAwayReason: String? {
            guard let certificate = self.tokens.certificate else { return nil }
            let environment = self.provider.shared.withLock { $0.environment }
            return certificate.environments.contains(environment)
                ? nil : APNsRejection.badCertificateEnvironment.rawValue
        }

        mutating func present(_ certificate: Certificate) { self.tokens.certificate = AppleCertificate(certificate) }

        mutating func validate(_ request: ProviderRequest, _ context: RequestContext) -> Validation {
            let validator = self.provider.shared.withLock { $0 }
            let answer =
                if APNsChannels.owns(request.path) {
                    self.provider.channels.validate(
                        request,
                        validator: validator,
                        connection: &self.tokens,
                        now: context.now,
                        number: context.number,
                    )
                } else {
                    validator.validate(
                        request,
                        connection: &self.tokens,
                        behaviors: context.behaviors,
                        now: context.now,
                        generatedID: UUIDText.unique(context.number),
                    )
                }
            return Validation(answer: answer, recipient: SimulatedAPNs.recipient(of: request))
        }
    }

    package static func recipient(of request: ProviderRequest) -> Recipient? {
        guard APNsChannels.owns(request.path) else { return Self.recipient(path: request.path) }
        guard !APNsChannels.isManagement(request.path) else { return nil }
        return Recipient(token: Array("/channels/\(request.first("apns-channel-id") ?? "")".utf8))
    }

    package static func recipient(path: [UInt8], body: Span<UInt8>) -> Recipient? {
        Self.recipient(path: String(decoding: path, as: UTF8.self))
    }

    /// Returns the last part of a path, as bytes if it is hexadecimal.
    private static func recipient(path: String) -> Recipient {
        let text = path.split(separator: "/", omittingEmptySubsequences: false).last ?? ""
        guard let bytes = Hexadecimal.decode(text) else { return Recipient(token: Array(text.utf8)) }
        return Recipient(token: bytes, isRaw: true)
    }

    // MARK: Tokens

    package static func tokenBytes(_ token: String) -> [UInt8] { Hexadecimal.decode(token) ?? Array(token.utf8) }

    package static func answer(to behavior: TokenBehavior) -> ProviderAnswer? {
        APNsRefusal(behavior).map { $0.rejection.answer(id: nil, timestamp: $0.timestamp) }
    }

    // MARK: Faults

    package static func reasons(of route: FaultRoute) -> [String] { APNsRejection.allCases.map(\.rawValue) }

    package static func answer(
        reason: String,
        route: FaultRoute,
        id: String?,
        now: UnixMilliseconds,
    ) -> ProviderAnswer? {
        guard let rejection = APNsRejection(rawValue: reason) else { return nil }
        return rejection.answer(id: id, timestamp: rejection.status == 410 ? now : nil)
    }

    package static func answer(status fault: Fault, route: FaultRoute, id: String?) -> ProviderAnswer {
        let rejection: APNsRejection =
            switch fault {
            case .tooManyRequests: .tooManyRequests
            case .unavailable: .serviceUnavailable
            default: .internalServerError
            }
        return rejection.answer(id: id)
    }

    package static func answer(
        _ fault: Fault,
        to request: ProviderRequest,
        _ context: RequestContext,
    ) -> ProviderAnswer? {
        guard APNsChannels.owns(request.path) else {
            return Self.answer(fault, context, id: request.first("apns-id"))
        }
        let unavailable = Fault.reason(APNsRejection.broadcastUnavailable.rawValue)
        var answer = Self.answer(fault == .unavailable ? unavailable : fault, context, id: nil)
        if case .answer = fault { return answer }
        let id = APNsChannels.requestID(of: request, number: context.number)
        answer?.headers.append(ProviderHeader("apns-request-id", id))
        return answer
    }
}

// MARK: Settings

extension FaultPlan {
    /// The rates of faults at APNs.
    public var apns: FaultRates {
        get { self[.apns] }
        set { self[.apns] = newValue }
    }
}

extension SimulatorConfiguration {
    /// The port of APNs; 0 for a free one, nil for none.
    public var apnsPort: Int? {
        get { self.ports[.apns] }
        set { self.ports[.apns] = newValue }
    }
}

extension SimulatorAddresses {
    /// The port of APNs, if it is served.
    public var apnsPort: Int? { self.ports[.apns] }
}

extension Simulator {
    /// Returns the ids of an app's broadcast channels, in the order of their creation.
    public func broadcastChannels(bundleID: String) -> [String] {
        self.state.provider(SimulatedAPNs.self).channels.ids(of: bundleID)
    }
}
