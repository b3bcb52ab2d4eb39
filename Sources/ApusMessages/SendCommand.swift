public import ApusCore

/// A token that the publisher stores itself.
public struct Address: Hashable, Sendable {
    /// The provider.
    public var provider: Provider
    /// The token as the provider's SDK returns it: hexadecimal digits, text, or the endpoint's URL.
    public var token: String
    /// The token's environment.
    public var environment: ProviderEnvironment = .production
    /// The kind of token. A notification that goes to tokens of other kinds skips the address.
    public var kind: TokenKind = .device
    /// The Web Push public key, 65 bytes.
    public var webpushP256DH: [UInt8] = []
    /// The Web Push authentication secret, 16 bytes.
    public var webpushAuth: [UInt8] = []
    /// The VAPID key that the browser subscribed with, 65 bytes; empty: the app's current one.
    public var applicationServerKey: [UInt8] = []
    /// The language tag (BCP 47) that chooses the variant.
    public var locale: String = ""

    /// Creates an address.
    public init(provider: Provider, token: String) {
        self.provider = provider
        self.token = token
    }
}

extension [Address] {
    /// The indices of the addresses, without those of addresses that repeat an earlier one.
    public var indicesWithoutRepeats: [Int] {
        guard self.count > 1 else { return [Int](self.indices) }
        var seen: Set<Address> = []
        return self.indices.filter { index in
            // Locale and keys are no part of who it is.
            var key = Address(provider: self[index].provider, token: self[index].token)
            key.environment = self[index].environment
            key.kind = self[index].kind
            return seen.insert(key).inserted
        }
    }
}

/// The audience of a send.
public enum Target: Hashable, Sendable {
    /// Tokens that the publisher stores itself.
    case addresses([Address])
    /// Devices by id.
    case devices([String])
    /// Every device of these users.
    case users([String])
    /// Subscribers of a topic.
    case topic(String)
    /// A condition over topics: `'a' in topics && !('b' in topics)`. Apus holds the audience.
    case condition(String)
    /// A condition over topics and attributes.
    case expression(String)
    /// Every device of the app, or of these providers.
    case everyone([Provider])
    /// The provider holds the audience of a topic (https://firebase.google.com/docs/cloud-messaging/topic-messaging).
    case fcmTopic(String)
    /// The provider holds the audience; at most five topics (https://firebase.google.com/docs/cloud-messaging/send-message).
    case fcmCondition(String)
    /// The provider holds the audience: the notification key of a device group
    /// (https://firebase.google.com/docs/cloud-messaging/device-group).
    case fcmGroup(String)
    /// The provider holds the audience: a broadcast channel of Live Activities, and its storage policy
    /// (https://developer.apple.com/documentation/usernotifications/sending-broadcast-push-notification-requests-to-apns).
    case apnsChannel(id: String, environment: ProviderEnvironment, storesLatest: Bool)

    /// The same target with each device or user named once: the first time. All addresses stay, because outcomes name them by their index.
    public var withoutRepeats: Target {
        switch self {
        case .devices(let ids): return .devices(Self.withoutRepeats(ids))
        case .users(let ids): return .users(Self.withoutRepeats(ids))
        default: return self
        }
    }

    private static func withoutRepeats(_ ids: [String]) -> [String] {
        guard ids.count > 1 else { return ids }
        var seen: Set<String> = []
        return ids.filter { seen.insert($0).inserted }
    }
}

/// A publisher's order to send a notification.
public struct SendCommand: Hashable, Sendable {
    /// The levels of detail of receipts.
    public enum ReceiptLevel: UInt8, CaseIterable, Sendable {
        /// Only refusals.
        case none = 1
        /// Counts by outcome.
        case summary = 2
        /// Counts by outcome, and one outcome per recipient.
        case recipients = 3
    }

    /// The treatment of a notification with an unknown outcome: its answer was lost with the connection or came too
    /// late, or the dispatcher ended before it was recorded.
    public enum Delivery: UInt8, CaseIterable, Sendable {
        /// The notification is sent again: the publisher accepts that it may come twice. An alert's repetition replaces
        /// the first on the screen, by its collapse id. A crash repeats a bounded number.
        case atLeastOnce = 1
        /// The notification counts as failed and is not sent again. A crash loses a bounded number.
        case atMostOnce = 2
    }

    /// The send's id, chosen by the publisher, and of no other send until its ledger is gone; when empty, one is created at intake.
    public var id: String = ""
    /// The app.
    public var app: String
    /// The audience.
    public var target: Target
    /// The notification.
    public var notification: Notification
    /// The idempotency key: within a day the same key is the same send.
    public var idempotencyKey: String = ""
    /// The time of publication in nanoseconds since 1970; 0 when unknown. For latency, never for decisions.
    public var publishedAtNanoseconds: Int64 = 0
    /// The earliest time of sending; nil for now.
    public var notBefore: UnixMilliseconds?
    /// The stream for receipts, under "apus:receipts:"; empty for the shard's own.
    public var replyTo: String = ""
    /// The level of detail of receipts.
    public var receiptLevel: ReceiptLevel = .summary
    /// The maximum rate; 0 for the route's own.
    public var ratePerSecond: UInt32 = 0
    /// The treatment of notifications with unknown outcomes.
    public var delivery: Delivery = .atLeastOnce
    /// True to report what would happen, and to send nothing.
    public var dryRun: Bool = false
    /// The trace context (W3C `traceparent`).
    public var traceparent: String = ""
    /// The state that other systems carry along (W3C `tracestate`), unread.
    public var tracestate: String = ""

    /// Creates a command.
    public init(app: String, target: Target, notification: Notification) {
        self.app = app
        self.target = target
        self.notification = notification
    }
}
