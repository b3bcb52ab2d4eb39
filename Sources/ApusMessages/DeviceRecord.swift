public import ApusCore

/// What an app says about a device beside its token.
public struct Attributes: Hashable, Sendable {
    /// BCP 47.
    public var locale: String = ""
    /// IANA name.
    public var timeZone: String = ""
    /// "3.2.1".
    public var appVersion: String = ""
    /// ISO 3166-1 alpha-2.
    public var country: String = ""
    /// Free words.
    public var tags: [String] = []

    /// Nothing said.
    public init() {}
}

/// A device as the store keeps it: the only truth about it. Its header (registered-at, generation) stands before it.
public struct DeviceRecord: Hashable, Sendable {
    /// A further token of the same device, for one purpose and a time.
    public struct SecondaryAddress: Hashable, Sendable {
        /// What it addresses.
        public var kind: TokenKind
        /// Raw bytes.
        public var token: [UInt8]
        /// Which Live Activity.
        public var activityID: String = ""
        /// Seconds since 1970.
        public var expiresAtSeconds: Int64 = 0
        /// Whether it is not sent to for now, although nothing says it is dead.
        public var isSuspect = false
        /// When the app registered it: what a provider knew of its token before that no longer counts. 0: not known.
        public var registeredAt = UnixMilliseconds(0)
        /// Whether the provider takes it in the other environment than the device's own.
        public var isOfOtherEnvironment = false

        /// An address.
        public init(kind: TokenKind, token: [UInt8]) {
            self.kind = kind
            self.token = token
        }
    }

    /// Why and since when a token is not sent to although nothing says it is dead.
    public struct Suspicion: Hashable, Sendable {
        /// Since when.
        public var since: UnixMilliseconds
        /// Why.
        public var reason: Reason

        /// A suspicion.
        public init(since: UnixMilliseconds, reason: Reason) {
            self.since = since
            self.reason = reason
        }
    }

    /// As the store keeps it: raw bytes or text.
    public var token: [UInt8]
    /// Which of the provider's worlds.
    public var environment: ProviderEnvironment = .production
    /// What the token addresses.
    public var tokenKind: TokenKind = .device
    /// Empty: nobody's.
    public var user: String = ""
    /// Digest of the user who had it last, while it is nobody's; 0: none.
    public var formerUser: UInt32 = 0
    /// The app's topic numbers, ascending.
    public var topics: [UInt32] = []
    /// What the app says.
    public var attributes: Attributes = Attributes()
    /// Hours since 1970; moves at most daily.
    public var seenAtHours: UInt32 = 0
    /// The full id.
    public var device: String
    /// 65 bytes.
    public var webpushP256DH: [UInt8] = []
    /// 16 bytes.
    public var webpushAuth: [UInt8] = []
    /// Not sent to, for now.
    public var suspicion: Suspicion?
    /// Whether its environment is the one in which the provider took the token, whatever the app named.
    public var isEnvironmentLearned = false
    /// Further tokens.
    public var secondary: [SecondaryAddress] = []

    /// A device.
    public init(device: String, token: [UInt8]) {
        self.device = device
        self.token = token
    }
}
