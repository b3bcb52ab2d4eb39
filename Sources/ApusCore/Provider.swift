internal import Synchronization

/// A push provider: an open set, identified by the code on the wire.
///
/// Equality, hashing and order use the code alone. An unknown code is carried, counted and passed on like any other.
/// The properties of a provider are in its ``ProviderTraits``.
public struct Provider: RawRepresentable, CaseIterable, Sendable, Hashable, Comparable,
    CustomStringConvertible
{
    /// The code on the wire, where 0 stands for no provider.
    public let rawValue: UInt8

    /// Creates the provider of a code.
    @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// Code 1 of the wire protocol.
    public static let apns = Provider(rawValue: 1)
    /// Code 2 of the wire protocol.
    public static let fcm = Provider(rawValue: 2)
    /// Code 3 of the wire protocol.
    public static let webpush = Provider(rawValue: 3)

    /// The providers that this process knows, by code.
    public static var allCases: [Provider] { ProviderTraits.known.map(\.provider) }

    /// The names of the providers that this process knows, as help and errors list them: "apns, fcm, webpush".
    public static var nameList: String { Self.allCases.map(\.name).joined(separator: ", ") }

    /// The properties of the provider, as far as this process knows them.
    public var traits: ProviderTraits { ProviderTraits.of(self) }

    /// The name in keys, configuration, metrics and on the command line; `provider-<code>` for an unknown provider.
    public var name: String { self.traits.name }

    /// The name.
    public var description: String { self.name }

    /// Returns the provider of a name among those that this process knows: for input of people.
    public init?(known name: some StringProtocol) {
        guard let traits = ProviderTraits.known.first(where: { $0.name == name }) else { return nil }
        self = traits.provider
    }

    /// Returns the provider of a name, also of the form `provider-<code>`: for text that another process has written.
    public init?(name: some StringProtocol) {
        if let known = Provider(known: name) {
            self = known
        } else if name.hasPrefix(ProviderTraits.unknownPrefix),
            let code = UInt8(name.dropFirst(ProviderTraits.unknownPrefix.count)), code > 0
        {
            self.init(rawValue: code)
        } else {
            return nil
        }
    }

    /// Orders providers by code.
    public static func < (one: Provider, other: Provider) -> Bool { one.rawValue < other.rawValue }
}

/// The properties of a provider that storing, routing and counting need: constants, the same in every process.
///
/// The wire protocol's own providers are known from the start, because stored data must be readable without any of
/// their targets. Others are added once, when a program starts: see ``install(_:)``.
public struct ProviderTraits: Hashable, Sendable {
    /// The provider.
    public let provider: Provider
    /// The name in keys, configuration, metrics and on the command line: lower-case letters and digits.
    public let name: String
    /// The environments that a token may belong to; a token of one does not work in another.
    public let environments: [ProviderEnvironment]
    /// The form of the provider's tokens.
    public let token: TokenForm
    /// The kinds of tokens that the provider has, in the order of their codes.
    public let tokenKinds: [TokenKind]
    /// The platform of its devices in audience expressions; nil for none of their own.
    public let platform: String?
    /// True when a device can have further tokens beside its own: for Live Activities.
    public let hasActivities: Bool
    /// The number of days without a registration after which the provider forgets a token; nil when it documents none.
    public let tokenDaysMax: Int?
    /// True when a token that belongs to another sender is never deleted for that: the sender is a key that our configuration may have
    /// lost, so such a token is tried again after a while.
    public let keepsForeignTokens: Bool

    /// Creates the properties of a provider.
    public init(
        _ provider: Provider,
        name: String,
        environments: [ProviderEnvironment] = [.production],
        token: TokenForm = .text(bytesMax: Limits.tokenBytesMax),
        tokenKinds: [TokenKind] = [.device],
        platform: String? = nil,
        hasActivities: Bool = false,
        tokenDaysMax: Int? = nil,
        keepsForeignTokens: Bool = false,
    ) {
        precondition(provider.rawValue > 0 && !environments.isEmpty)
        self.provider = provider
        self.name = name
        self.environments = environments
        self.token = token
        self.tokenKinds = tokenKinds
        self.platform = platform
        self.hasActivities = hasActivities
        self.tokenDaysMax = tokenDaysMax
        self.keepsForeignTokens = keepsForeignTokens
    }

    static let unknownPrefix = "provider-"

    private static let table = Mutex<[ProviderTraits]>([
        ProviderTraits(
            Provider(rawValue: 1),
            name: "apns",
            environments: [.production, .sandbox],
            token: .hexadecimal(bytesMax: Limits.apnsTokenBytesMax),
            tokenKinds: TokenKind.allCases.filter { $0 != .installation },
            platform: "ios",
            hasActivities: true,
        ),
        // https://firebase.google.com/docs/cloud-messaging/manage-tokens
        ProviderTraits(
            Provider(rawValue: 2),
            name: "fcm",
            tokenKinds: [.device, .installation],
            platform: "android",
            tokenDaysMax: 270,
        ),
        ProviderTraits(
            Provider(rawValue: 3),
            name: "webpush",
            token: .endpoint(bytesMax: 2_048),
            platform: "web",
            keepsForeignTokens: true,
        ),
    ])

    /// All known providers, by code.
    public static var known: [ProviderTraits] { Self.table.withLock { $0 } }

    static func of(_ provider: Provider) -> ProviderTraits {
        if let known = Self.table.withLock({ table in table.first { $0.provider == provider } }) { return known }
        let name = "\(Self.unknownPrefix)\(provider.rawValue)"
        return ProviderTraits(provider, name: name, tokenKinds: TokenKind.allCases)
    }

    /// Makes a provider known to this process. Traps when another provider has its code or its name.
    public static func install(_ traits: ProviderTraits) {
        Self.table.withLock { table in
            if let known = table.first(where: { $0.provider == traits.provider || $0.name == traits.name }) {
                return precondition(known == traits, "two providers share a code or a name")
            }
            table.append(traits)
            table.sort { $0.provider < $1.provider }
        }
    }
}

/// The form of a provider's tokens, as apps send them.
public enum TokenForm: Hashable, Sendable {
    /// An even number of hexadecimal digits, stored as raw bytes: at most `bytesMax`.
    case hexadecimal(bytesMax: Int)
    /// Printable ASCII characters without spaces, quotation marks and backslashes: they stand in JSON as they are.
    case text(bytesMax: Int)
    /// An https URL (RFC 8030 §5) without user name and fragment.
    case endpoint(bytesMax: Int)

    /// Returns the text of a token, as apps write it, from its stored bytes.
    public func text(of stored: [UInt8]) -> String {
        switch self {
        case .hexadecimal: Hexadecimal.encode(stored)
        case .text, .endpoint: String(decoding: stored, as: UTF8.self)
        }
    }
}

/// The environments of a provider. Most providers have only production.
public enum ProviderEnvironment: UInt8, CaseIterable, Sendable, Hashable {
    /// The environment of released apps.
    case production = 1
    /// The environment of development.
    case sandbox = 2

    /// The name in configuration, metrics and on the command line.
    public var name: String {
        switch self {
        case .production: "production"
        case .sandbox: "sandbox"
        }
    }

    /// Returns the environment of a name.
    public init?(name: some StringProtocol) {
        guard let match = Self.allCases.first(where: { $0.name == name }) else { return nil }
        self = match
    }
}

/// The purpose of a token.
///
/// Source: https://developer.apple.com/documentation/usernotifications/registering-your-app-with-apns,
/// https://developer.apple.com/documentation/activitykit/starting-and-updating-live-activities-with-activitykit-push-notifications,
/// https://firebase.google.com/docs/cloud-messaging/manage-tokens
public enum TokenKind: UInt8, CaseIterable, Sendable, Hashable {
    /// An ordinary token: a device token, a registration token, an endpoint.
    case device = 1
    /// A Firebase installation id, which replaces the registration token since 2026.
    case installation = 2
    /// A PushKit token, for calls.
    case voip = 3
    /// A push-to-start token: it starts Live Activities of one type (iOS 17.2).
    case liveActivityStart = 4
    /// A token that updates and ends one Live Activity; it may change during the activity.
    case liveActivityUpdate = 5
    /// A token of a joined push-to-talk channel, valid until the channel is left.
    case pushToTalk = 6
    /// A WidgetKit token.
    case widgets = 7
    /// A token of Control Center controls (iOS 18).
    case controls = 8
}

/// The class of traffic.
public enum Lane: UInt8, CaseIterable, Sendable, Hashable {
    /// Small sends that a person waits for.
    case express = 1
    /// All other sends; sends to audiences always.
    case bulk = 2

    /// The name in stream keys and metrics.
    public var name: String {
        switch self {
        case .express: "express"
        case .bulk: "bulk"
        }
    }
}

/// The path of notifications of an app to a provider in one environment: the unit that can fail or be limited by itself.
public struct Route: Hashable, Sendable, LosslessStringConvertible {
    /// The app.
    public let app: AppID
    /// The provider.
    public let provider: Provider
    /// The provider's environment.
    public let environment: ProviderEnvironment

    /// Creates a route.
    public init(app: AppID, provider: Provider, environment: ProviderEnvironment) {
        self.app = app
        self.provider = provider
        self.environment = environment
    }

    /// Parses a description; nil for anything else.
    public init?(_ text: String) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 3, let app = try? AppID(String(parts[0])), let provider = Provider(name: parts[1]),
            let environment = ProviderEnvironment(name: parts[2])
        else { return nil }
        self.init(app: app, provider: provider, environment: environment)
    }

    /// The route as text, such as "shop/apns/sandbox".
    public var description: String { "\(self.app)/\(self.provider.name)/\(self.environment.name)" }
}

/// The small number of a route, assigned once in Redis, which work streams and metrics carry.
public struct RouteNumber: Hashable, Sendable, Comparable, CustomStringConvertible {
    /// The number, from 1.
    public let value: UInt32

    /// Creates a route number.
    public init(_ value: UInt32) { self.value = value }

    /// The number in decimal digits.
    public var description: String { String(self.value) }

    /// Orders by number.
    public static func < (one: RouteNumber, other: RouteNumber) -> Bool { one.value < other.value }
}
