package import ApusCore
package import ApusMessages
package import ApusService

/// A push provider: its properties, its section of the configuration, its rules and its routes.
///
/// Each provider is a target with one value of this type; a program installs the list of those that it supports, and
/// nothing else names one. Its functions are called at set-up, once per rendered send and for refusals, not for each
/// recipient.
package protocol PushProvider: Sendable {
    /// The name, the code on the wire, the environments and the form of tokens.
    var traits: ProviderTraits { get }
    /// Reads `apps.<app>.<name>`; mistakes are reported to the reader.
    func readSettings(_ reader: SettingsReader, at key: String) -> any ProviderSettings
    /// The meanings of the settings in that section by their names, as the configuration's schema and article have them.
    var settingDescriptions: [String: String] { get }
    /// Returns the routes of a configuration, in a fixed order for each app. It takes all apps at once, because some
    /// may share the rate that the provider grants one account.
    ///
    /// - Throws: `Problem` for an app that no message can be rendered for.
    func routes(of apps: [AppID: AppSettings]) throws -> [any ProviderRoute]
    /// Reads the files of a route's credential.
    ///
    /// - Parameter settings: the settings of the route's app.
    /// - Returns: the source; nil when the settings do not configure the route.
    /// - Throws: `SettingsError` that names the file that cannot be read.
    func credentialSource(
        of route: Route,
        _ settings: any ProviderSettings,
    ) throws(SettingsError) -> (any CredentialSource)?
    /// The retry policies of the provider.
    var retryRules: RetryRules { get }
    /// Checks a target whose audience the provider holds.
    func check(_ target: Target) throws(Problem)
    /// Checks every rule for a notification to a device, the sizes of the finished messages included, as far as no rule depends on the app.
    func check(_ notification: Notification, _ context: RenderContext) throws(Problem)
    /// Returns warnings about settings that are valid but probably unintended; they are logged once, at the start.
    func advice(on apps: [AppID: AppSettings]) -> [String]
    /// Returns warnings about a notification that is valid but will not do what its author expects at this provider.
    ///
    /// - Parameters:
    ///   - renderings: the renderings of this provider's routes; at least one.
    ///   - recipients: the number of recipients at this provider.
    func advice(
        on command: SendCommand,
        _ renderings: [RouteRendering],
        recipients: UInt64,
        now: UnixMilliseconds,
    ) -> [Problem]
}

extension PushProvider {
    /// The provider's code.
    package var provider: Provider { self.traits.provider }
    /// Describes no settings.
    package var settingDescriptions: [String: String] { [:] }
    /// Refuses the target: the provider holds no audience.
    package func check(_ target: Target) throws(Problem) {
        throw Problem(.unsupported, "target", "names an audience that \(self.traits.name) does not hold")
    }
    /// Checks the rules that hold for every provider.
    package func check(_ notification: Notification, _ context: RenderContext) throws(Problem) {
        try NotificationRules.check(notification, isAccepted: context.isAccepted)
    }
    /// Returns no warnings.
    package func advice(on apps: [AppID: AppSettings]) -> [String] { [] }
    /// Returns no warnings.
    package func advice(
        on command: SendCommand,
        _ renderings: [RouteRendering],
        recipients: UInt64,
        now: UnixMilliseconds,
    ) -> [Problem] { [] }
}

/// The configured rate limits of a route.
package enum RouteRate: Hashable, Sendable {
    /// There is no limit.
    case unlimited
    /// A number of requests per second, for all dispatchers together.
    case perSecond(Double)
    /// A number of requests in any minute, for all dispatchers together.
    case perMinute(Int)
}

/// The route of one app through a provider in one environment: renders its messages.
package protocol ProviderRoute: Sendable {
    /// The route's name.
    var route: Route { get }
    /// The route's rate limit.
    var rate: RouteRate { get }
    /// The time in which the rate rises to its limit after a long pause; 0 to start at the limit.
    var rampMilliseconds: Int64 { get }
    /// Checks every rule and renders a command's notification, once per language.
    ///
    /// - Parameter sharing: the rendering of the same command for another route of the provider and app, to be reused; nil for the first.
    /// - Throws: `Problem` with the code `unsupported` when the provider does not support the notification: other providers may.
    func render(
        _ command: SendCommand,
        _ context: RenderContext,
        sharing: inout (any Sendable)?,
    ) throws(Problem) -> RenderedRoute
    /// Returns true when `render` would certainly succeed, so that the notification need not be rendered where nobody receives it. False: only
    /// rendering can tell.
    ///
    /// - Parameter byteCount: the size of the packed command, which bounds the texts in it.
    func certainlyAccepts(_ command: SendCommand, byteCount: Int) -> Bool
    /// Handles a new credential, which may serve other topics than the one before.
    func adopt(_ configuration: GatewayConfiguration)
    /// Reads the scope of the configured credential from its files, as when it is taken into use.
    func learnScope(_ settings: any ProviderSettings) throws
    /// Returns a request that shows whether a credential is accepted and reaches no device, with its token; nil when the
    /// provider cannot be asked without a device.
    ///
    /// - Parameter configuration: the configuration of the tested credential.
    func credentialProbe(
        for configuration: GatewayConfiguration,
        _ context: RenderContext,
    ) throws -> (message: PreparedMessage, token: [UInt8])?
    /// Returns what the provider would receive, in every language.
    func preview(_ command: SendCommand, _ context: RenderContext) throws -> [RouteRendering]
    /// Returns the messages of a command in validate-only form, which the provider checks without delivering; nil when it has no such form.
    ///
    /// - Parameter toInstallations: true when tokens are installation ids.
    func validation(
        of command: SendCommand,
        _ context: RenderContext,
        toInstallations: Bool,
    ) throws -> RenderedNotification<PreparedMessage>?
}

extension ProviderRoute {
    package var rampMilliseconds: Int64 { 0 }
    /// Returns false: only rendering can tell.
    package func certainlyAccepts(_ command: SendCommand, byteCount: Int) -> Bool { false }
    /// Does nothing: every credential serves all messages of the route.
    package func adopt(_ configuration: GatewayConfiguration) {}
    /// Does nothing: every credential serves all messages of the route.
    package func learnScope(_ settings: any ProviderSettings) throws {}
    /// Returns nil when the provider has no validate-only form.
    package func validation(
        of command: SendCommand,
        _ context: RenderContext,
        toInstallations: Bool,
    ) throws -> RenderedNotification<PreparedMessage>? { nil }
}

/// A set of token kinds, to be queried for each recipient.
package struct TokenKinds: Hashable, Sendable {
    private let bits: UInt16

    /// Creates a set of the given kinds.
    package init(_ kinds: [TokenKind]) { self.bits = kinds.reduce(0) { $0 | 1 << UInt16($1.rawValue) } }

    /// The set of all kinds.
    package static let all = TokenKinds(TokenKind.allCases)

    /// Returns true when the set contains a kind.
    @inline(__always)
    package func contains(_ kind: TokenKind) -> Bool { self.bits & 1 << UInt16(kind.rawValue) != 0 }
}

/// Holds a send's rendered messages on one route.
package struct RenderedRoute: Sendable {
    /// The message in the notification's own language first, then the variants.
    package let messages: RenderedNotification<PreparedMessage>
    /// The kinds of device tokens that accept the messages.
    package let tokenKinds: TokenKinds
    /// The part of the route that the provider permits or refuses by itself, such as the topic that the messages are for; empty when it
    /// refuses the whole route at once.
    package let subroute: String
    /// True when the messages go to the route's broadcast address.
    package let isBroadcast: Bool
    /// True when the provider names the field of a message that it rejects for every recipient: see ``AnswerMeaning/rejectedField``.
    package let namesRejectedFields: Bool
    /// The messages that test tokens; nil when the provider has no way to.
    package let tokenProbe: TokenProbe?
    /// The same messages, addressed to installation ids: rendered when the first such device comes along; nil when they are the same.
    package let forInstallations: (@Sendable () -> RenderedNotification<PreparedMessage>)?

    /// Creates a rendering.
    package init(
        messages: RenderedNotification<PreparedMessage>,
        tokenKinds: TokenKinds,
        subroute: String = "",
        isBroadcast: Bool = false,
        namesRejectedFields: Bool = false,
        tokenProbe: TokenProbe? = nil,
        forInstallations: (@Sendable () -> RenderedNotification<PreparedMessage>)? = nil,
    ) {
        self.messages = messages
        self.tokenKinds = tokenKinds
        self.subroute = subroute
        self.isBroadcast = isBroadcast
        self.namesRejectedFields = namesRejectedFields
        self.tokenProbe = tokenProbe
        self.forInstallations = forInstallations
    }
}

/// Holds the validate-only messages whose answers tell whether a token is valid.
package struct TokenProbe: Sendable {
    private let token: PreparedMessage
    private let installation: PreparedMessage

    /// - Parameters:
    ///   - token: the message for an ordinary token.
    ///   - installation: the message for an installation id.
    package init(token: PreparedMessage, installation: PreparedMessage) {
        self.token = token
        self.installation = installation
    }

    /// Returns the message that tests a recipient's token.
    package func message(isInstallation: Bool) -> PreparedMessage { isInstallation ? self.installation : self.token }
}

/// Shows what a provider would receive on one route in one language.
package struct RouteRendering: Hashable, Sendable {
    /// A header's name and value.
    package struct Header: Hashable, Sendable {
        /// The header's name.
        package var name: String
        /// The header's value.
        package var value: String

        /// Creates a header.
        package init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    /// The route.
    package var route: Route
    /// The variant's locale; empty for the notification's own language.
    package var locale: String
    /// The headers that are the same for every device.
    package var headers: [Header]
    /// The body, with a placeholder for the token where it has one.
    package var payload: String
    /// The bytes that count against the provider's limit.
    package var payloadBytes: Int
    /// The provider's limit of those bytes.
    package var payloadBytesMax: Int

    /// The placeholder of a token in a payload that is shown.
    static let tokenPlaceholder = "<token>"

    /// Creates a rendering.
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

    /// Creates a rendering of a body.
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
