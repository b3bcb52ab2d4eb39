public import ApusCore

/// A device as an app describes it.
public struct DeviceRegistration: Hashable, Sendable {
    /// The device's id, chosen by the app.
    public var device: String
    /// The provider.
    public var provider: Provider
    /// The token as the app sends it: hexadecimal digits or text.
    public var token: String
    /// The token's environment.
    public var environment: ProviderEnvironment = .production
    /// The kind of token.
    public var tokenKind: TokenKind = .device
    /// The owner; empty for none.
    public var user: String = ""
    /// The attributes, as the app describes them.
    public var attributes: Attributes = Attributes()
    /// The topics; nil to leave them unchanged.
    public var topics: [String]?
    /// The badge that the app shows now, at most `Limits.badgeMax`; nil to keep the counted one.
    public var badge: UInt32?
    /// The Web Push public key, 65 bytes.
    public var webpushP256DH: [UInt8] = []
    /// The Web Push authentication secret, 16 bytes.
    public var webpushAuth: [UInt8] = []
    /// The public key of the app's server that a browser subscribed with, 65 bytes; empty when it is not known.
    public var applicationServerKey: [UInt8] = []
    /// The end of a browser's subscription; nil for none.
    public var expiresAt: UnixMilliseconds?

    /// Creates a registration.
    public init(device: String, provider: Provider, token: String) {
        self.device = device
        self.provider = provider
        self.token = token
    }
}

/// A change of devices that a backend writes into the register stream.
public struct RegistrationCommand: Hashable, Sendable {
    /// The changes.
    public enum Action: Hashable, Sendable {
        /// Creates or replaces a device.
        case register(DeviceRegistration)
        /// Deletes a device.
        case unregister(device: String)
        /// Adds topics.
        case subscribe(device: String, topics: [String])
        /// Removes topics.
        case unsubscribe(device: String, topics: [String])
        /// Makes a user the device's owner.
        case bindUser(device: String, user: String)
        /// Removes the device's owner.
        case unbindUser(device: String)
        /// Replaces the attributes.
        case setAttributes(device: String, Attributes)
        /// Sets the number that the app's badge shows.
        case setBadge(device: String, UInt32)
        /// Deletes all devices of a user.
        case deleteUser(String)
    }

    /// The command's id, chosen by the backend.
    public var id: String = ""
    /// The app.
    public var app: String
    /// The time at which the statement was true; nil for now. With one, a command that is carried out late or once more changes nothing
    /// that a newer one has said.
    public var asOf: UnixMilliseconds?
    /// The change.
    public var action: Action
    /// The stream for the answer; empty for none.
    public var replyTo: String = ""
    /// The trace context (W3C `traceparent`).
    public var traceparent: String = ""

    /// Creates a command.
    public init(app: String, action: Action) {
        self.app = app
        self.action = action
    }
}
