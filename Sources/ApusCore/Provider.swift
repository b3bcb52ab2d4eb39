/// Who delivers.
public enum Provider: UInt8, CaseIterable, Sendable, Hashable, Comparable {
    /// Apple Push Notification service.
    case apns = 1
    /// Firebase Cloud Messaging, HTTP v1.
    case fcm = 2
    /// Web Push, RFC 8030.
    case webpush = 3

    /// The name in keys, configuration, metrics and on the command line.
    public var name: String {
        switch self {
        case .apns: "apns"
        case .fcm: "fcm"
        case .webpush: "webpush"
        }
    }

    /// The provider of that name.
    public init?(name: some StringProtocol) {
        guard let match = Self.allCases.first(where: { $0.name == name }) else { return nil }
        self = match
    }

    /// In the order of the raw values.
    public static func < (one: Provider, other: Provider) -> Bool { one.rawValue < other.rawValue }
}

/// Which of Apple's two worlds a token belongs to: one of the sandbox does not work in production, nor the other way round
/// (https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns). The other providers know
/// only production.
public enum ProviderEnvironment: UInt8, CaseIterable, Sendable, Hashable {
    /// App Store and TestFlight builds; every FCM and Web Push device.
    case production = 1
    /// Builds from Xcode.
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
    /// The ordinary one: APNs device token, FCM registration token, Web Push endpoint.
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
