public import ApusCore

/// The attributes of a device besides its token, as the app describes them.
public struct Attributes: Hashable, Sendable {
    /// The language tag (BCP 47).
    public var locale: String = ""
    /// The name of the time zone (IANA).
    public var timeZone: String = ""
    /// The app's version, such as "3.2.1".
    public var appVersion: String = ""
    /// The country (ISO 3166-1 alpha-2).
    public var country: String = ""
    /// Free labels.
    public var tags: [String] = []

    /// Creates empty attributes.
    public init() {}
}

/// A device in the store: the single source of truth about it. Its header (registered-at, generation) is stored before it.
public struct DeviceRecord: Hashable, Sendable {
    /// A further token of the same device, for one purpose and a limited time.
    public struct SecondaryAddress: Hashable, Sendable {
        /// The kind of token.
        public var kind: TokenKind
        /// The token's raw bytes.
        public var token: [UInt8]
        /// The id of the Live Activity.
        public var activityID: String = ""
        /// The expiry in seconds since 1970.
        public var expiresAtSeconds: Int64 = 0
        /// True while the token is quarantined: it gets no messages, although nothing proves it dead.
        public var isSuspect = false
        /// The time of registration: a provider's knowledge of an older token does not apply. 0 when unknown.
        public var registeredAt = UnixMilliseconds(0)
        /// True when the provider accepts the token in the other environment than the device's own.
        public var isOfOtherEnvironment = false

        /// Creates an address.
        public init(kind: TokenKind, token: [UInt8]) {
            self.kind = kind
            self.token = token
        }
    }

    /// Records since when and why a token is quarantined, although nothing proves it dead.
    public struct Suspicion: Hashable, Sendable {
        /// The time since which the token is quarantined.
        public var since: UnixMilliseconds
        /// The reason for the quarantine.
        public var reason: Reason

        /// The reason of a token for which only a message was refused, and none was accepted since. It goes on getting messages.
        package static let refusedMessage = Reason.payload

        /// Creates a suspicion.
        public init(since: UnixMilliseconds, reason: Reason) {
            self.since = since
            self.reason = reason
        }
    }

    /// The token in the store's form: raw bytes or text.
    public var token: [UInt8]
    /// The token's environment.
    public var environment: ProviderEnvironment = .production
    /// The kind of token.
    public var tokenKind: TokenKind = .device
    /// The owner; empty for none.
    public var user: String = ""
    /// Digest of the user who had it last, while it is nobody's; 0: none.
    public var formerUser: UInt32 = 0
    /// The app's topic numbers, ascending.
    public var topics: [UInt32] = []
    /// The attributes, as the app describes them.
    public var attributes: Attributes = Attributes()
    /// The time of the last registration in hours since 1970; updated at most daily.
    public var seenAtHours: UInt32 = 0
    /// The full id of the device.
    public var device: String
    /// The Web Push public key, 65 bytes.
    public var webpushP256DH: [UInt8] = []
    /// The Web Push authentication secret, 16 bytes.
    public var webpushAuth: [UInt8] = []
    /// The public key of the app's server that a browser subscribed with, 65 bytes; empty when it is not known.
    public var applicationServerKey: [UInt8] = []
    /// The time of the last change that had one, or said whose the device is, and is later than the registration: what is older does not change
    /// the device any more. 0 for none.
    public var changedAt = UnixMilliseconds(0)
    /// The end of a browser's subscription in seconds since 1970; 0 for none.
    public var expiresAtSeconds: Int64 = 0
    /// The quarantine of the token, which gets no messages, except with ``Suspicion/refusedMessage``; nil when there is nothing against it.
    public var suspicion: Suspicion?
    /// True when the environment is the one in which the provider accepted the token, whatever the app named.
    public var isEnvironmentLearned = false
    /// The further tokens.
    public var secondary: [SecondaryAddress] = []

    /// Creates a device.
    public init(device: String, token: [UInt8]) {
        self.device = device
        self.token = token
    }
}
