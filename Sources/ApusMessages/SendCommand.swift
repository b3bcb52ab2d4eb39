public import ApusCore

/// A token the publisher keeps itself.
public struct Address: Hashable, Sendable {
    /// Who delivers.
    public var provider: Provider
    /// As the provider's SDK gives it: hexadecimal digits, text, or the endpoint's URL.
    public var token: String
    /// Which of the provider's worlds.
    public var environment: ProviderEnvironment = .production
    /// What the token addresses.
    public var kind: TokenKind = .device
    /// 65 bytes.
    public var webpushP256DH: [UInt8] = []
    /// 16 bytes.
    public var webpushAuth: [UInt8] = []
    /// BCP 47; chooses the variant.
    public var locale: String = ""

    /// Creates an address.
    public init(provider: Provider, token: String) {
        self.provider = provider
        self.token = token
    }
}

/// Whom a send is for.
public enum Target: Hashable, Sendable {
    /// Tokens the publisher keeps itself.
    case addresses([Address])
    /// Devices by id.
    case devices([String])
    /// Every device of these users.
    case users([String])
    /// Subscribers of a topic.
    case topic(String)
    /// A condition over topics: `'a' in topics && !('b' in topics)`. Apus holds the audience.
    case condition(String)
    /// Condition grammar plus attributes.
    case expression(String)
    /// Every device of the app, or of these providers.
    case everyone([Provider])
    /// The provider holds the audience of a topic (https://firebase.google.com/docs/cloud-messaging/topic-messaging).
    case fcmTopic(String)
    /// The provider holds the audience; at most five topics (https://firebase.google.com/docs/cloud-messaging/send-message).
    case fcmCondition(String)
    /// The provider holds the audience: a broadcast channel of Live Activities, and whether it was made to keep its latest message
    /// (https://developer.apple.com/documentation/usernotifications/sending-broadcast-push-notification-requests-to-apns).
    case apnsChannel(id: String, environment: ProviderEnvironment, storesLatest: Bool)
}

/// What a publisher asks for.
public struct SendCommand: Hashable, Sendable {
    /// What is told back.
    public enum ReceiptLevel: UInt8, CaseIterable, Sendable {
        /// Nothing but refusals.
        case none = 1
        /// Counts.
        case summary = 2
        /// Counts, and one outcome per recipient.
        case recipients = 3
    }

    /// What becomes of a notification of which nobody knows whether the provider took it: its answer was lost with the connection or came too
    /// late, or the dispatcher ended before it was noted.
    public enum Delivery: UInt8, CaseIterable, Sendable {
        /// It is sent again: the publisher's word that a notification may come twice. An alert's repeat takes the first one's place on the
        /// screen, by its collapse id. Of a crash a bounded number is repeated.
        case atLeastOnce = 1
        /// It counts as failed and is not sent again. Of a crash a bounded number is lost.
        case atMostOnce = 2
    }

    /// The publisher's name of this send; empty: made at intake.
    public var id: String = ""
    /// The app.
    public var app: String
    /// Whom it is for.
    public var target: Target
    /// What is shown.
    public var notification: Notification
    /// The same key within a day is the same send.
    public var idempotencyKey: String = ""
    /// Nanoseconds since 1970; 0: unknown. For latency, never for decisions.
    public var publishedAtNanoseconds: Int64 = 0
    /// Nil: now.
    public var notBefore: UnixMilliseconds?
    /// A stream under "apus:receipts:"; empty: the shard's own.
    public var replyTo: String = ""
    /// What is told back.
    public var receiptLevel: ReceiptLevel = .summary
    /// 0: as fast as the route allows.
    public var ratePerSecond: UInt32 = 0
    /// What a crash may do to it.
    public var delivery: Delivery = .atLeastOnce
    /// Only say what would happen.
    public var dryRun: Bool = false
    /// W3C trace context.
    public var traceparent: String = ""
    /// Carried unread.
    public var tracestate: String = ""

    /// Creates a command.
    public init(app: String, target: Target, notification: Notification) {
        self.app = app
        self.target = target
        self.notification = notification
    }
}
