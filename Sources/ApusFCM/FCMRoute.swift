package import ApusCore
internal import ApusHTTP2
package import ApusMessages
package import ApusProviders
internal import ApusService
internal import NIOCore

/// The route of an app through FCM.
package struct FCMRoute: ProviderRoute {
    package let route: Route
    package let rate: RouteRate
    package let rampMilliseconds: Int64
    private let project: String
    private let authority: String
    private let probe: TokenProbe

    init(_ route: Route, _ settings: FCMSettings, rate: RouteRate) throws {
        self.route = route
        self.rate = rate
        self.rampMilliseconds = settings.rampMilliseconds
        let (project, authority) = (
            settings.projectID, WebAddress(https: settings.baseURL)?.authority ?? settings.baseURL
        )
        self.project = project
        self.authority = authority
        // The probe has neither texts nor an expiry: it does not depend on the time, and is the same for all sends.
        let now = UnixMilliseconds(0)
        let context = RenderContext(send: try SendID("apus-token-probe"), publishedAt: now, now: now)
        func message(_ target: FCMTarget) throws -> PreparedMessage {
            let rendered = try FCMRenderer.render(
                CredentialProbe.notification,
                target: target,
                context: context,
                validateOnly: true,
            )
            return try .fcm(rendered.base, project: project, authority: authority)
        }
        self.probe = TokenProbe(token: try message(.token), installation: try message(.installation))
    }

    package func render(
        _ command: SendCommand,
        _ context: RenderContext,
        sharing: inout (any Sendable)?,
    ) throws(Problem) -> RenderedRoute {
        let (notification, project, authority) = (command.notification, self.project, self.authority)
        @Sendable func messages(_ target: FCMTarget) throws(Problem) -> RenderedNotification<PreparedMessage> {
            try FCMRenderer.render(notification, target: target, context: context)
                .map { message throws(Problem) in try .fcm(message, project: project, authority: authority) }
        }
        let target = try FCMTarget(command.target)
        try FCMAPNsRules.checkRecipients(notification, of: command.target)
        let written = try messages(target)
        return RenderedRoute(
            messages: written,
            // FCM's tokens accept every message that can be rendered for them.
            tokenKinds: TokenKinds([.device, .installation]),
            namesRejectedFields: true,
            tokenProbe: target.isAudience ? nil : self.probe,
            // No rule depends on the kind of token: a message that was rendered for one kind can be rendered for the other.
            forInstallations: { (try? messages(.installation)) ?? written },
        )
    }

    /// Without raw JSON no rule depends on the finished message.
    package func certainlyAccepts(_ command: SendCommand, byteCount: Int) -> Bool {
        guard NotificationRules.isPlain(command.notification, byteCount: byteCount) else { return false }
        do throws(Problem) {
            try NotificationRules.check(command.notification)
            try FCMRules.check(command.notification, target: .token)
            return true
        } catch {
            return false
        }
    }

    /// A token that no device has.
    static let probeToken = Array("apus-credential-probe".utf8)

    package func credentialProbe(
        for configuration: GatewayConfiguration,
        _ context: RenderContext,
    ) throws -> (message: PreparedMessage, token: [UInt8])? {
        let rendered = try FCMRenderer.render(
            CredentialProbe.notification,
            target: .token,
            context: context,
            validateOnly: true,
        )
        let message = try PreparedMessage.fcm(rendered.base, project: self.project, authority: self.authority)
        return (message, Self.probeToken)
    }

    package func preview(_ command: SendCommand, _ context: RenderContext) throws -> [RouteRendering] {
        let (notification, target) = (command.notification, try FCMTarget(command.target))
        let messages = try FCMRenderer.render(notification, target: target, context: context).variants
        return zip([""] + notification.variants.map(\.locale), messages).map { locale, message in
            RouteRendering(
                route: self.route,
                locale: locale,
                headers: RenderedFCMMessage.headers,
                body: message.body,
                payloadBytes: message.payloadBytes,
                payloadBytesMax: target.payloadBytesMax,
            )
        }
    }

    /// Returns the messages with `validate_only`: FCM checks everything and delivers nothing.
    package func validation(
        of command: SendCommand,
        _ context: RenderContext,
        toInstallations: Bool,
    ) throws -> RenderedNotification<PreparedMessage>? {
        let target = toInstallations ? FCMTarget.installation : try FCMTarget(command.target)
        return try FCMRenderer.render(command.notification, target: target, context: context, validateOnly: true)
            .map { message throws(Problem) in try .fcm(message, project: self.project, authority: self.authority) }
    }
}

extension PreparedMessage {
    /// Creates a message for FCM: the token stands in the body as text; an audience that FCM holds has none.
    ///
    /// - Parameter authority: the host that requests are for, with a port other than 443.
    package static func fcm(
        _ message: RenderedFCMMessage,
        project: String,
        authority: String,
    ) throws(Problem) -> PreparedMessage {
        try PreparedMessage(
            authority: authority,
            path: .constant("/v1/projects/\(project)/messages:send"),
            headers: RenderedFCMMessage.headers,
            body: message.body,
        )
    }
}

extension ProviderGatewayConfiguration {
    /// Creates the configuration of a gateway to FCM. Google's answers are awaited for at least ten seconds before
    /// anything is retried (https://firebase.google.com/docs/cloud-messaging/scale-fcm).
    package static func fcm(host: String, port: Int = WebAddress.securePort) -> ProviderGatewayConfiguration {
        var configuration = ProviderGatewayConfiguration(
            provider: .fcm,
            answers: FCMAnswerReader(),
            host: host,
            port: port,
        )
        configuration.requestTimeoutMin = .seconds(10)
        return configuration
    }
}

/// Interprets answers of FCM.
package struct FCMAnswerReader: AnswerReader {
    /// Creates the reader.
    package init() {}

    package func meaning(of answer: PlainAnswer, retryAfterMilliseconds: Int64?) -> AnswerMeaning {
        let parsed = FCMAnswer(status: answer.status, body: answer.body)
        return AnswerMeaning(
            parsed.outcome(retryAfterMilliseconds: retryAfterMilliseconds),
            word: parsed.word ?? "status \(answer.status)",
            wantsTokenProbe: answer.status == 400 && parsed.wantsTokenProbe,
            rejectedField: answer.status == 400 ? parsed.rejectedField ?? "" : "",
            isOfOnePlatform: parsed.rejectsOnePlatform,
        )
    }

    package func id(in answer: PlainAnswer) -> String {
        answer.status == 200 ? FCMAnswer(status: 200, body: answer.body).name ?? "" : ""
    }
}
