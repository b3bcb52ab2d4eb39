package import ApusCore
internal import ApusHTTP2
package import ApusMessages
package import ApusProviders
package import ApusService
internal import Synchronization

/// The route of an app through APNs in one environment.
package final class APNsRoute: ProviderRoute {
    package let route: Route
    package let rate: RouteRate
    private let renderer: APNsRenderer
    private let authority: String
    private let checkedHeaders = CheckedHeaders()
    /// The authority of broadcasts, which may differ.
    private let broadcastAuthority: String
    /// The scope of the credential: notifications to other topics are refused before they are sent.
    private let scope: Mutex<APNsTopicScope>

    init(_ route: Route, _ settings: APNsSettings, _ renderer: APNsRenderer) {
        self.route = route
        self.rate = settings.ratePerSecond.map { .perSecond(Double($0)) } ?? .unlimited
        self.renderer = renderer
        let address = settings.address(for: route.environment)
        self.authority = address.authority
        self.broadcastAuthority = (settings.broadcastAddress(for: route.environment) ?? address).authority
        self.scope = Mutex(settings.configuredScope)
    }

    package func render(
        _ command: SendCommand,
        _ context: RenderContext,
        sharing: inout (any Sendable)?,
    ) throws(Problem) -> RenderedRoute {
        let notification = command.notification
        let scope = self.scope.withLock { $0 }
        let kinds = APNsPushType.tokenKinds(for: notification.kind)
        guard case .apnsChannel(let id, _, let storesLatest) = command.target else {
            try scope.check(notification.kind, of: self.renderer.bundleID)
            // Both environments get the same rendering.
            let written: RenderedNotification<RenderedAPNsMessage>
            if let known = sharing as? RenderedNotification<RenderedAPNsMessage> {
                written = known
            } else {
                written = try self.renderer.render(notification, context: context)
                sharing = written
            }
            let messages = try written.map { message throws(Problem) in
                try PreparedMessage.apns(message, authority: self.authority, sharing: self.checkedHeaders)
            }
            return RenderedRoute(messages: messages, tokenKinds: kinds, subroute: written.base.topic)
        }
        try scope.checkChannel(of: self.renderer.bundleID)
        let broadcast = try self.renderer.render(
            notification,
            channel: try APNsChannelID(id),
            storage: storesLatest ? .latest : .none,
            context: context,
        )
        let message = try PreparedMessage.apns(broadcast, authority: self.broadcastAuthority)
        return RenderedRoute(
            messages: RenderedNotification(base: message, others: []),
            tokenKinds: kinds,
            subroute: broadcast.subroute,
            isBroadcast: true,
        )
    }

    /// Without raw JSON no rule depends on the finished payload.
    package func certainlyAccepts(_ command: SendCommand, byteCount: Int) -> Bool {
        let notification = command.notification
        guard command.target.channel == nil, NotificationRules.isPlain(notification, byteCount: byteCount) else {
            return false
        }
        let scope = self.scope.withLock { $0 }
        do throws(Problem) {
            try scope.check(notification.kind, of: self.renderer.bundleID)
            try NotificationRules.check(notification)
            try APNsRules.check(notification)
            return true
        } catch {
            return false
        }
    }

    // MARK: Credentials

    package func adopt(_ configuration: GatewayConfiguration) {
        guard let scope = configuration.scope as? APNsTopicScope else { return }
        self.scope.withLock { $0 = scope }
    }

    /// Reads the topics that the certificate names. With a key the configuration says all there is.
    package func learnScope(_ settings: any ProviderSettings) throws {
        guard let settings = settings as? APNsSettings,
            case .certificate = settings.credential(for: self.route.environment)
        else { return }
        let scope = try APNsCredentialSource(settings, self.route).secret.certificate(topics: settings.topics).scope
        self.scope.withLock { $0 = scope }
    }

    /// A token that no device has.
    static let probeToken = [UInt8](repeating: 0, count: 32)

    package func credentialProbe(
        for configuration: GatewayConfiguration,
        _ context: RenderContext,
    ) throws -> (message: PreparedMessage, token: [UInt8])? {
        let scope = configuration.scope as? APNsTopicScope ?? .team
        let notification = CredentialProbe.notification(for: scope, of: self.renderer.bundleID)
        let rendered = try self.renderer.render(notification, context: context).base
        return (try .apns(rendered, authority: self.authority), Self.probeToken)
    }

    // MARK: Dry runs

    package func preview(_ command: SendCommand, _ context: RenderContext) throws -> [RouteRendering] {
        let notification = command.notification
        if case .apnsChannel(let id, _, let storesLatest) = command.target {
            let broadcast = try self.renderer.render(
                notification,
                channel: try APNsChannelID(id),
                storage: storesLatest ? .latest : .none,
                context: context,
            )
            return [
                RouteRendering(
                    route: self.route,
                    locale: "",
                    headers: broadcast.headers,
                    body: broadcast.body,
                    payloadBytes: broadcast.body.bytesMax,
                    payloadBytesMax: RenderedAPNsBroadcast.payloadBytesMax,
                )
            ]
        }
        let messages = try self.renderer.render(notification, context: context).variants
        return zip([""] + notification.variants.map(\.locale), messages).map { locale, message in
            RouteRendering(
                route: self.route,
                locale: locale,
                headers: message.headers,
                body: message.body,
                payloadBytes: message.body.bytesMax,
                payloadBytesMax: message.pushType.payloadBytesMax,
            )
        }
    }
}

extension CredentialProbe {
    /// Returns the notification of a credential probe, of a kind whose topic the credential serves: a certificate may serve calls alone.
    package static func notification(for scope: APNsTopicScope, of bundleID: String) -> Notification {
        let kind = Self.kinds.first { kind in
            do throws(Problem) {
                try scope.check(kind, of: bundleID)
                return true
            } catch {
                return false
            }
        }
        var notification = Notification()
        notification.kind = kind ?? .background
        if notification.kind == .liveActivity {
            var change = Notification.LiveActivity(event: .update)
            change.contentStateJSON = "{}"
            notification.liveActivity = change
        }
        return notification
    }

    /// The kinds with a topic of their own. Background stands for alerts and device management too.
    private static let kinds: [Notification.Kind] = [
        .background, .voip, .complication, .fileProvider, .pushToTalk, .location, .widgets, .controls, .liveActivity,
    ]
}

extension APNsPushType {
    /// Returns the kinds of tokens to which a kind of notification can be sent.
    ///
    /// Apple gives an app a separate token for each service, and knows a token under that service's topic only: under
    /// another it answers `DeviceTokenNotForTopic`, which says nothing against the token. Notifications whose tokens
    /// have no kind of their own here (complications, file providers, device management, location queries) go to tokens
    /// that were registered as ordinary ones.
    ///
    /// Source: https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns
    package static func tokenKinds(for kind: Notification.Kind) -> TokenKinds {
        switch kind {
        case .alert, .background, .complication, .fileProvider, .mdm, .location: TokenKinds([.device])
        case .voip: TokenKinds([.voip])
        case .liveActivity: TokenKinds([.liveActivityStart, .liveActivityUpdate])
        case .pushToTalk: TokenKinds([.pushToTalk])
        case .widgets: TokenKinds([.widgets])
        case .controls: TokenKinds([.controls])
        }
    }
}

extension PreparedMessage {
    /// Creates a message for APNs, whose path takes the token's raw bytes and writes them in hexadecimal.
    ///
    /// - Parameters:
    ///   - authority: the host that requests are for, with a port other than 443.
    ///   - known: the headers of the last message.
    package static func apns(
        _ message: RenderedAPNsMessage,
        authority: String,
        sharing known: CheckedHeaders = CheckedHeaders(),
    ) throws(Problem) -> PreparedMessage {
        try PreparedMessage(
            authority: authority,
            path: .token(prefix: RenderedAPNsMessage.pathPrefix, form: .hexadecimal),
            headers: message.headers,
            body: message.body,
            carriesID: true,
            sharing: known,
        )
    }

    /// Creates a message for a broadcast channel of APNs, which has no token.
    ///
    /// - Parameter authority: the host that requests are for, with a port other than 443.
    package static func apns(
        _ broadcast: RenderedAPNsBroadcast,
        authority: String,
    ) throws(Problem) -> PreparedMessage {
        try PreparedMessage(
            authority: authority,
            path: .constant(broadcast.path),
            headers: broadcast.headers,
            body: broadcast.body,
        )
    }
}

extension ProviderGatewayConfiguration {
    /// Creates the configuration of a gateway to APNs.
    ///
    /// APNs allows one stream until it has received a request with a valid token
    /// (https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns). A refused
    /// certificate ends the connection after the handshake (TLS 1.3): with one stream a single request is lost, not all
    /// that fit.
    package static func apns(host: String, port: Int = WebAddress.securePort) -> ProviderGatewayConfiguration {
        var configuration = ProviderGatewayConfiguration(
            provider: .apns,
            answers: APNsAnswerReader(),
            host: host,
            port: port,
        )
        configuration.startsWithOneStream = true
        configuration.bindsCredentials = true
        return configuration
    }
}

/// Interprets answers of APNs.
package struct APNsAnswerReader: AnswerReader {
    /// Creates the reader.
    package init() {}

    package func meaning(of answer: PlainAnswer, retryAfterMilliseconds: Int64?) -> AnswerMeaning {
        let parsed = APNsAnswer(status: answer.status, body: answer.body)
        return AnswerMeaning(
            parsed.outcome(retryAfterMilliseconds: retryAfterMilliseconds),
            word: parsed.word ?? "status \(answer.status)",
        )
    }

    /// Returns the `apns-id`; for a broadcast, that of its request. In the sandbox Apple adds an id of its own behind a
    /// slash, by which its console shows the notification's delivery
    /// (https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns).
    package func id(in answer: PlainAnswer) -> String {
        let id = answer.headers[.apnsID] ?? answer.headers[.apnsRequestID] ?? ""
        return ProviderText.cleaned(answer.headers[.apnsUniqueID].map { "\(id)/\($0)" } ?? id)
    }

    package func meaning(ofGoAway debug: [UInt8]) -> GoAwayMeaning { APNsAnswer.goAway(debug: debug) }
}
