internal import Synchronization

/// Who delivers: an open value, known by its code on the wire.
///
/// Equality, hashing and order go by the code alone. A code that this process knows nothing of is carried, counted and passed on like
/// any other. What is to be known of a provider stands in its ``ProviderTraits``.
public struct Provider: RawRepresentable, CaseIterable, Sendable, Hashable, Comparable,
    CustomStringConvertible
{
    /// The code on the wire; 0 stands for none there.
    public let rawValue: UInt8

    /// The provider of a code.
    @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// Code 1 of the wire protocol.
    public static let apns = Provider(rawValue: 1)
    /// Code 2 of the wire protocol.
    public static let fcm = Provider(rawValue: 2)
    /// Code 3 of the wire protocol.
    public static let webpush = Provider(rawValue: 3)

    /// The providers that this process knows, by code.
    public static var allCases: [Provider] { ProviderTraits.known.map(\.provider) }

    /// What this process knows of it.
    public var traits: ProviderTraits { ProviderTraits.of(self) }

    /// The name in keys, configuration, metrics and on the command line; `provider-<code>` when this process knows no other.
    public var name: String { self.traits.name }

    /// The name.
    public var description: String { self.name }

    /// The provider of that name among those that this process knows: for what people write.
    public init?(known name: some StringProtocol) {
        guard let traits = ProviderTraits.known.first(where: { $0.name == name }) else { return nil }
        self = traits.provider
    }

    /// The provider of that name, or of the code that it stands for: for what any process of ours has written.
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

    /// In the order of the codes.
    public static func < (one: Provider, other: Provider) -> Bool { one.rawValue < other.rawValue }
}

/// What everybody must know of a provider who stores, routes or counts: plain facts, the same in every process.
///
/// The wire protocol's own providers are known from the start, for data at rest must be read without any of their targets. Others are
/// added once, when a program starts: see ``install(_:)``.
public struct ProviderTraits: Hashable, Sendable {
    /// Whose.
    public let provider: Provider
    /// The name in keys, configuration, metrics and on the command line: lower-case letters and digits.
    public let name: String
    /// Which worlds a token may belong to; one of the first does not work in the second, nor the other way round.
    public let environments: [ProviderEnvironment]
    /// What its tokens look like.
    public let token: TokenForm
    /// What an audience expression calls its devices; nil: nothing of their own.
    public let platform: String?
    /// Whether a device has further tokens beside its own: for Live Activities.
    public let hasActivities: Bool
    /// After how many days without a registration the provider forgets a token; nil: it tells nothing of the kind.
    public let tokenDaysMax: Int?

    /// Facts.
    public init(
        _ provider: Provider,
        name: String,
        environments: [ProviderEnvironment] = [.production],
        token: TokenForm = .text(bytesMax: Limits.tokenBytesMax),
        platform: String? = nil,
        hasActivities: Bool = false,
        tokenDaysMax: Int? = nil,
    ) {
        precondition(provider.rawValue > 0 && !environments.isEmpty)
        self.provider = provider
        self.name = name
        self.environments = environments
        self.token = token
        self.platform = platform
        self.hasActivities = hasActivities
        self.tokenDaysMax = tokenDaysMax
    }

    static let unknownPrefix = "provider-"

    private static let table = Mutex<[ProviderTraits]>([
        ProviderTraits(
            Provider(rawValue: 1),
            name: "apns",
            environments: [.production, .sandbox],
            token: .hexadecimal(bytesMax: Limits.apnsTokenBytesMax),
            platform: "ios",
            hasActivities: true,
        ),
        // https://firebase.google.com/docs/cloud-messaging/manage-tokens
        ProviderTraits(Provider(rawValue: 2), name: "fcm", platform: "android", tokenDaysMax: 270),
        ProviderTraits(Provider(rawValue: 3), name: "webpush", token: .endpoint(bytesMax: 2_048), platform: "web"),
    ])

    /// All that this process knows, by code.
    public static var known: [ProviderTraits] { Self.table.withLock { $0 } }

    static func of(_ provider: Provider) -> ProviderTraits {
        let known = Self.table.withLock { table in table.first { $0.provider == provider } }
        return known ?? ProviderTraits(provider, name: "\(Self.unknownPrefix)\(provider.rawValue)")
    }

    /// Makes a provider known to this process. Traps when its code or its name is another's.
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

/// What the tokens of a provider look like, as apps send them.
public enum TokenForm: Hashable, Sendable {
    /// An even number of hexadecimal digits, kept as raw bytes: at most so many.
    case hexadecimal(bytesMax: Int)
    /// Printable ASCII characters without spaces.
    case text(bytesMax: Int)
    /// An https URL (RFC 8030 §5) without user name and fragment.
    case endpoint(bytesMax: Int)

    /// A token as apps write it, from the bytes that are kept of it.
    public func text(of stored: [UInt8]) -> String {
        switch self {
        case .hexadecimal: Hexadecimal.encode(stored)
        case .text, .endpoint: String(decoding: stored, as: UTF8.self)
        }
    }
}

/// Which of a provider's worlds a token belongs to. Most providers know only production.
public enum ProviderEnvironment: UInt8, CaseIterable, Sendable, Hashable {
    /// What people use.
    case production = 1
    /// What developers try.
    case sandbox = 2

    /// The name in configuration, metrics and on the command line.
    public var name: String {
        switch self {
        case .production: "production"
        case .sandbox: "sandbox"
        }
    }

    /// The environment of that name.
    public init?(name: some StringProtocol) {
        guard let match = Self.allCases.first(where: { $0.name == name }) else { return nil }
        self = match
    }
}

/// What a token addresses.
///
/// Source: https://developer.apple.com/documentation/usernotifications/registering-your-app-with-apns,
/// https://developer.apple.com/documentation/activitykit/starting-and-updating-live-activities-with-activitykit-push-notifications,
/// https://firebase.google.com/docs/cloud-messaging/manage-tokens
public enum TokenKind: UInt8, CaseIterable, Sendable, Hashable {
    /// The ordinary one: a device token, a registration token, an endpoint.
    case device = 1
    /// A Firebase installation id, which takes the registration token's place since 2026.
    case installation = 2
    /// PushKit, for calls.
    case voip = 3
    /// Push to start: starts Live Activities of one type (iOS 17.2).
    case liveActivityStart = 4
    /// Updates and ends one Live Activity; may change while it lasts.
    case liveActivityUpdate = 5
    /// A joined push-to-talk channel, valid until it is left.
    case pushToTalk = 6
    /// WidgetKit.
    case widgets = 7
    /// Control Center controls (iOS 18).
    case controls = 8
}

/// The class of traffic.
public enum Lane: UInt8, CaseIterable, Sendable, Hashable {
    /// Small sends that a person waits for.
    case express = 1
    /// Everything else; audience sends always.
    case bulk = 2

    /// The name in stream keys and metrics.
    public var name: String {
        switch self {
        case .express: "express"
        case .bulk: "bulk"
        }
    }
}

/// One way out: an app at a provider in an environment. Everything that can fail or be limited by itself.
public struct Route: Hashable, Sendable, LosslessStringConvertible {
    /// The app.
    public let app: AppID
    /// Who delivers.
    public let provider: Provider
    /// Which of the provider's worlds.
    public let environment: ProviderEnvironment

    /// A route.
    public init(app: AppID, provider: Provider, environment: ProviderEnvironment) {
        self.app = app
        self.provider = provider
        self.environment = environment
    }

    /// Reads a description; nil for anything else.
    public init?(_ text: String) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 3, let app = try? AppID(String(parts[0])), let provider = Provider(name: parts[1]),
            let environment = ProviderEnvironment(name: parts[2])
        else { return nil }
        self.init(app: app, provider: provider, environment: environment)
    }

    /// "shop/apns/sandbox".
    public var description: String { "\(self.app)/\(self.provider.name)/\(self.environment.name)" }
}

/// A route's small number, handed out once in Redis: what work streams and metrics carry.
public struct RouteNumber: Hashable, Sendable, Comparable, CustomStringConvertible {
    /// From 1.
    public let value: UInt32

    /// Wraps.
    public init(_ value: UInt32) { self.value = value }

    /// The digits.
    public var description: String { String(self.value) }

    /// Numerical.
    public static func < (one: RouteNumber, other: RouteNumber) -> Bool { one.value < other.value }
}
