package import ApusCore
package import ApusMessages
package import ApusService

/// A push provider as the services know it: its facts, its section of the configuration, its rules and its ways out.
///
/// Each provider is a target with one value of this type; a program installs the list of those that it is to know, and nothing else names
/// one. Asked when something is set up, rendered once for a send, or refused: not for each recipient.
package protocol PushProvider: Sendable {
    /// Name, code on the wire, environments and the form of tokens.
    var traits: ProviderTraits { get }
    /// Reads `apps.<app>.<name>`; mistakes are noted with the reader.
    func readSettings(_ reader: SettingsReader, at key: String) -> any ProviderSettings
    /// The ways out that a configuration opens, in a fixed order of each app. All apps at once, for some may share what the provider lets one account
    /// send.
    ///
    /// - Throws: `Problem` for an app that nothing can be written for.
    func routes(of apps: [AppID: AppSettings]) throws -> [any ProviderRoute]
    /// Reads the files of a route.
    ///
    /// - Parameter settings: of the route's app.
    /// - Returns: nil when they do not configure the route.
    /// - Throws: `SettingsError` naming the file that cannot be read.
    func credentialSource(
        of route: Route,
        _ settings: any ProviderSettings,
    ) throws(SettingsError) -> (any CredentialSource)?
    /// How it wants to be tried again.
    var retryRules: RetryRules { get }
    /// Checks a target whose audience the provider holds.
    func check(_ target: Target) throws(Problem)
    /// What of a configuration is allowed, and probably not meant: told once, at the start.
    func advice(on apps: [AppID: AppSettings]) -> [String]
    /// What of a notification is allowed, and will not do what its author expects at this provider.
    ///
    /// - Parameters:
    ///   - renderings: of this provider's routes; never none.
    ///   - recipients: how many it would reach there.
    func advice(
        on command: SendCommand,
        _ renderings: [RouteRendering],
        recipients: UInt64,
        now: UnixMilliseconds,
    ) -> [Problem]
}

extension PushProvider {
    /// Whose.
    package var provider: Provider { self.traits.provider }
    /// A provider that holds no audience knows no such target.
    package func check(_ target: Target) throws(Problem) {
        throw Problem(.unsupported, "target", "names an audience that \(self.traits.name) does not hold")
    }
    /// There is nothing to say.
    package func advice(on apps: [AppID: AppSettings]) -> [String] { [] }
    /// There is nothing to say.
    package func advice(
        on command: SendCommand,
        _ renderings: [RouteRendering],
        recipients: UInt64,
        now: UnixMilliseconds,
    ) -> [Problem] { [] }
}

/// How fast a route may go by its configuration.
package enum RouteRate: Hashable, Sendable {
    /// As fast as can be.
    case unlimited
    /// So many requests a second, of the whole fleet.
    case perSecond(Double)
    /// So many requests in any minute, of the whole fleet.
    case perMinute(Int)
}

/// One app's way out through a provider in one environment: writes what goes there.
package protocol ProviderRoute: Sendable {
    /// Which.
    var route: Route { get }
    /// How fast it may go.
    var rate: RouteRate { get }
    /// How long it takes to reach that rate after a long quiet; 0: it begins at it.
    var rampMilliseconds: Int64 { get }
    /// Checks every rule and writes a command's notification out, once for each language.
    ///
    /// - Parameter sharing: what another route of the provider and app has made of the same command, to be used again: nil at first.
    /// - Throws: `Problem` of code `unsupported` when the provider has nothing like it: it may still be for others.
    func render(
        _ command: SendCommand,
        _ context: RenderContext,
        sharing: inout (any Sendable)?,
    ) throws(Problem) -> RenderedRoute
    /// A credential is taken into use that may serve other topics than the one before.
    func adopt(_ configuration: GatewayConfiguration)
    /// Learns what the configured credential serves, as far as its files say so, as when it is taken into use.
    func learnScope(_ settings: any ProviderSettings) throws
    /// A request that shows whether a credential is taken, and that no device gets; with the token that it is for.
    ///
    /// - Parameter configuration: of the credential that is asked about.
    func credentialProbe(
        for configuration: GatewayConfiguration,
        _ context: RenderContext,
    ) throws -> (message: PreparedMessage, token: [UInt8])
    /// What the provider would be given, in every language.
    func preview(_ command: SendCommand, _ context: RenderContext) throws -> [RouteRendering]
    /// The messages of a command as the provider checks them and delivers nothing; nil: it cannot be asked.
    ///
    /// - Parameter toInstallations: whether tokens are installation ids.
    func validation(
        of command: SendCommand,
        _ context: RenderContext,
        toInstallations: Bool,
    ) throws -> RenderedNotification<PreparedMessage>?
}

extension ProviderRoute {
    package var rampMilliseconds: Int64 { 0 }
    /// Every credential serves all that the route sends.
    package func adopt(_ configuration: GatewayConfiguration) {}
    /// Every credential serves all that the route sends.
    package func learnScope(_ settings: any ProviderSettings) throws {}
    /// The provider cannot be asked.
    package func validation(
        of command: SendCommand,
        _ context: RenderContext,
        toInstallations: Bool,
    ) throws -> RenderedNotification<PreparedMessage>? { nil }
}

/// Kinds of tokens, to be asked for each recipient.
package struct TokenKinds: Hashable, Sendable {
    private let bits: UInt16

    /// Those kinds.
    package init(_ kinds: [TokenKind]) { self.bits = kinds.reduce(0) { $0 | 1 << UInt16($1.rawValue) } }

    /// All kinds.
    package static let all = TokenKinds(TokenKind.allCases)

    /// Whether a kind is among them.
    @inline(__always)
    package func contains(_ kind: TokenKind) -> Bool { self.bits & 1 << UInt16(kind.rawValue) != 0 }
}

/// What a send says on one route, ready for the wire.
package struct RenderedRoute: Sendable {
    /// The notification's own words first, then the variants.
    package let messages: RenderedNotification<PreparedMessage>
    /// Which devices' own tokens take it.
    package let tokenKinds: TokenKinds
    /// Whether it goes where the route's broadcasts go.
    package let isBroadcast: Bool
    /// With what tokens can be tried; nil: the provider has no way to.
    package let tokenProbe: TokenProbe?
    /// The same messages, addressed to installation ids: made when the first such device comes along; nil: they are the same.
    package let forInstallations: (@Sendable () -> RenderedNotification<PreparedMessage>)?

    /// A rendering.
    package init(
        messages: RenderedNotification<PreparedMessage>,
        tokenKinds: TokenKinds,
        isBroadcast: Bool = false,
        tokenProbe: TokenProbe? = nil,
        forInstallations: (@Sendable () -> RenderedNotification<PreparedMessage>)? = nil,
    ) {
        self.messages = messages
        self.tokenKinds = tokenKinds
        self.isBroadcast = isBroadcast
        self.tokenProbe = tokenProbe
        self.forInstallations = forInstallations
    }
}

/// A message that a provider only checks: what it says of that, it says of the token.
package struct TokenProbe: Sendable {
    private let token: PreparedMessage
    private let installation: PreparedMessage

    /// - Parameters:
    ///   - token: for an ordinary token.
    ///   - installation: for an installation id.
    package init(token: PreparedMessage, installation: PreparedMessage) {
        self.token = token
        self.installation = installation
    }

    /// What a recipient's token is tried with.
    package func message(isInstallation: Bool) -> PreparedMessage { isInstallation ? self.installation : self.token }
}

/// What a provider would be given on one route in one language.
package struct RouteRendering: Hashable, Sendable {
    /// A header's name and value.
    package struct Header: Hashable, Sendable {
        /// Its name.
        package var name: String
        /// Its value.
        package var value: String

        /// A header.
        package init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    /// Which way out.
    package var route: Route
    /// The variant's; empty: the notification's own words.
    package var locale: String
    /// The headers that are the same for every device.
    package var headers: [Header]
    /// The body, with a placeholder for the token where it has one.
    package var payload: String
    /// Bytes that count against the provider's limit.
    package var payloadBytes: Int
    /// The limit.
    package var payloadBytesMax: Int

    /// What stands for a token in a payload that is shown.
    package static let tokenPlaceholder = "<token>"

    /// A rendering.
    package init(
        route: Route,
        locale: String,
        headers: [Header],
        payload: String,
        payloadBytes: Int,
        payloadBytesMax: Int,
    ) {
        self.route = route
        self.locale = locale
        self.headers = headers
        self.payload = payload
        self.payloadBytes = payloadBytes
        self.payloadBytesMax = payloadBytesMax
    }

    /// A rendering of a body.
    package init(
        route: Route,
        locale: String,
        headers: [(name: String, value: String)],
        body: RenderedBody,
        payloadBytes: Int,
        payloadBytesMax: Int,
    ) {
        self.init(
            route: route,
            locale: locale,
            headers: headers.map { Header(name: $0.name, value: $0.value) },
            payload: String(decoding: body.bytes(token: Self.tokenPlaceholder), as: UTF8.self),
            payloadBytes: payloadBytes,
            payloadBytesMax: payloadBytesMax,
        )
    }
}
