import ApusCore
import ApusHTTP2
import ApusMessages
import ApusProviders
import ApusService
import NIOCore
import Testing

extension Provider {
    /// A code that no provider of ours has.
    static let toy = Provider(rawValue: 9)
}

/// A provider that no other file knows: a POST with the token and the words as JSON, answered by a status alone.
struct ToyProvider: PushProvider {
    struct Settings: ProviderSettings {
        var url: String
        var caFile: String?
    }

    var traits: ProviderTraits {
        ProviderTraits(.toy, name: "toy", token: .text(bytesMax: 32), platform: "toy", tokenDaysMax: 30)
    }

    func readSettings(_ reader: SettingsReader, at key: String) -> any ProviderSettings {
        Settings(url: reader.requiredString("\(key).url", .secureURL), caFile: reader.filePath("\(key).ca_file"))
    }

    func routes(of apps: [AppID: AppSettings]) throws -> [any ProviderRoute] {
        try apps.compactMap { app, settings in
            guard let toy = settings[.toy] as? Settings else { return nil }
            return ToyRoute(
                route: Route(app: app, provider: .toy, environment: .production),
                address: try #require(WebAddress(https: toy.url)),
            )
        }
    }

    func credentialSource(
        of route: Route,
        _ settings: any ProviderSettings,
    ) throws(SettingsError) -> (any CredentialSource)? {
        guard let settings = settings as? Settings else { return nil }
        return ToySource(settings: settings)
    }

    var retryRules: RetryRules {
        RetryRules(unavailable: RetryPolicy(baseMilliseconds: 200, capMilliseconds: 1_000, attemptsMax: 5))
    }
}

struct ToyRoute: ProviderRoute {
    let route: Route
    let address: WebAddress
    var rate: RouteRate { .perSecond(1_000) }

    private func body(_ notification: Notification) -> RenderedBody {
        RenderedBody(["to": "", "title": .string(notification.title)], places: [RenderedBody.Place(["to"], .token)])
    }

    private func message(_ notification: Notification) throws(Problem) -> PreparedMessage {
        try PreparedMessage(
            authority: self.address.authority,
            path: .constant("/toys"),
            headers: [("content-type", "application/json")],
            body: self.body(notification),
        )
    }

    func render(
        _ command: SendCommand,
        _ context: RenderContext,
        sharing: inout (any Sendable)?,
    ) throws(Problem) -> RenderedRoute {
        guard !command.notification.title.isEmpty else {
            throw Problem(.missing, "notification.title", "is all that a toy shows")
        }
        let message = try self.message(command.notification)
        return RenderedRoute(
            messages: RenderedNotification(base: message, others: []),
            tokenKinds: TokenKinds([.device]),
        )
    }

    func credentialProbe(
        for configuration: GatewayConfiguration,
        _ context: RenderContext,
    ) throws -> (message: PreparedMessage, token: [UInt8])? {
        (try self.message(Notification()), Array("nobody".utf8))
    }

    func preview(_ command: SendCommand, _ context: RenderContext) throws -> [RouteRendering] {
        let body = self.body(command.notification)
        return [
            RouteRendering(
                route: self.route,
                locale: "",
                headers: [],
                body: body,
                payloadBytes: body.bytesMax,
                payloadBytesMax: 1_024,
            )
        ]
    }
}

struct ToySource: CredentialSource {
    let settings: ToyProvider.Settings

    var identity: CredentialIdentity { CredentialIdentity(names: ["toy"], secret: []) }
    var credentialName: String { "the one key to all toys" }
    var credentialKind: CredentialKind { .jwt }
    var target: [String] { [self.settings.url] }

    func configuration(
        of route: Route,
        sharing shared: (any ProviderCredential)?,
        _ tools: GatewayTools,
    ) throws -> GatewayConfiguration {
        let address = try #require(WebAddress(https: self.settings.url))
        return GatewayConfiguration(
            gateway: ProviderGatewayConfiguration(
                provider: .toy,
                answers: ToyAnswers(),
                host: address.host,
                port: address.port,
            ),
            credential: try shared ?? ToyCredential(),
            tls: try CredentialFile.tls(self.settings.caFile, "apps.\(route.app).toy.ca_file"),
            source: self,
        )
    }
}

struct ToyAnswers: AnswerReader {
    func meaning(of answer: PlainAnswer, retryAfterMilliseconds: Int64?) -> AnswerMeaning {
        switch answer.status {
        case 410: AnswerMeaning(.unregistered(.unregistered, asOf: nil), word: "broken")
        case 503: AnswerMeaning(.deferred(Deferral(.providerUnavailable)), word: "tidying up")
        default: AnswerMeaning(.rejected(.other), word: "status \(answer.status)")
        }
    }

    func id(in answer: PlainAnswer) -> String { "" }
}

final class ToyCredential: ProviderCredential {
    private let header: HeaderValue

    init() throws { self.header = try HeaderValue("toy key") }

    func grant(on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant> {
        eventLoop.makeSucceededFuture(.usable(self.header, askAgainAt: UnixMilliseconds(.max)))
    }

    func rejected(_ header: HeaderValue, on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant> {
        eventLoop.makeSucceededFuture(.paused(detail: "there is no other key"))
    }

    func renewedTooOften() {}
    func restored() {}
    var expiresAt: UnixMilliseconds? { nil }
}
