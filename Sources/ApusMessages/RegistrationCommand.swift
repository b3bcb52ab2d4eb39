public import ApusCore

/// A device as an app describes it.
public struct DeviceRegistration: Hashable, Sendable {
    /// Chosen by the app.
    public var device: String
    /// Who delivers.
    public var provider: Provider
    /// As the app sends it: hexadecimal digits or text.
    public var token: String
    /// Which of the provider's worlds.
    public var environment: ProviderEnvironment = .production
    /// What the token addresses.
    public var tokenKind: TokenKind = .device
    /// Empty: nobody's.
    public var user: String = ""
    /// What the app says.
    public var attributes: Attributes = Attributes()
    /// Nil: leave the topics as they are.
    public var topics: [String]?
    /// What the app's badge shows now, at most `Limits.badgeMax`; nil when leave what was counted.
    public var badge: UInt32?
    /// 65 bytes.
    public var webpushP256DH: [UInt8] = []
    /// 16 bytes.
    public var webpushAuth: [UInt8] = []

    /// Creates a registration.
    public init(device: String, provider: Provider, token: String) {
        self.device = device
        self.provider = provider
        self.token = token
    }
}

/// What a backend writes into the register stream.
public struct RegistrationCommand: Hashable, Sendable {
    /// What is to change.
    public enum Action: Hashable, Sendable {
        /// Create or replace.
        case register(DeviceRegistration)
        /// Forget the device.
        case unregister(device: String)
        /// Add to topics.
        case subscribe(device: String, topics: [String])
        /// Take from topics.
        case unsubscribe(device: String, topics: [String])
        /// It is that user's now.
        case bindUser(device: String, user: String)
        /// It is nobody's now.
        case unbindUser(device: String)
        /// Replace the attributes.
        case setAttributes(device: String, Attributes)
        /// The app's badge shows that now.
        case setBadge(device: String, UInt32)
        /// Forget everything about the user.
        case deleteUser(String)
    }

    /// The backend's name of it.
    public var id: String = ""
    /// The app.
    public var app: String
    /// The time at which this was true; nil for now.
    public var asOf: UnixMilliseconds?
    /// What is to change.
    public var action: Action
    /// Where the answer goes; empty: none.
    public var replyTo: String = ""
    /// W3C trace context.
    public var traceparent: String = ""

    /// Creates a command.
    public init(app: String, action: Action) {
        self.app = app
        self.action = action
    }
}
