/// The state of one recipient of a send. At every moment the planned recipients are the sum over all of these.
public enum Outcome: UInt8, CaseIterable, Sendable, Hashable {
    /// Nothing final is known yet.
    case open = 1
    /// The provider took it.
    case accepted = 2
    /// The provider says the token is dead.
    case unregistered = 3
    /// The provider, or our check of its rules, refused this message for good.
    case rejected = 4
    /// Retries are used up, or the credentials are wrong.
    case failed = 5
    /// It expired before it could be delivered.
    case expired = 6
    /// The publisher or an operator stopped it.
    case cancelled = 7
    /// It no longer matched when its turn came.
    case skipped = 8

    /// The name in ledgers, metrics, receipts and reports.
    public var name: String {
        switch self {
        case .open: "open"
        case .accepted: "accepted"
        case .unregistered: "unregistered"
        case .rejected: "rejected"
        case .failed: "failed"
        case .expired: "expired"
        case .cancelled: "cancelled"
        case .skipped: "skipped"
        }
    }

    /// All but `open`.
    public static let final: [Outcome] = Self.allCases.filter { $0 != .open }
}

/// The reason of an outcome: the closed set that metrics and ledgers use. The provider's own word travels beside it, as of
/// https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns and
/// https://firebase.google.com/docs/cloud-messaging/error-codes.
public enum Reason: UInt8, CaseIterable, Sendable, Hashable {
    /// Nothing to explain.
    case none = 1
    /// The app is gone from the device: `Unregistered`, `ExpiredToken`; `UNREGISTERED`.
    case unregistered = 2
    /// The token is malformed or of the other environment: `BadDeviceToken`; `INVALID_ARGUMENT` about the token.
    case badToken = 3
    /// The token belongs to another app: `DeviceTokenNotForTopic`.
    case wrongTopic = 4
    /// The token belongs to another Firebase project: `SENDER_ID_MISMATCH`.
    case wrongSender = 5
    /// The message breaks a rule: `PayloadTooLarge`, `BadPriority` and their like; `INVALID_ARGUMENT` about the message.
    case payload = 6
    /// Key, certificate, account or their rights: `InvalidProviderToken`, `TopicDisallowed`; `PERMISSION_DENIED`,
    /// `THIRD_PARTY_AUTH_ERROR`.
    case credentials = 7
    /// Too many requests: `TooManyRequests`; `QUOTA_EXCEEDED`.
    case rateLimited = 8
    /// The provider failed: `InternalServerError`, `ServiceUnavailable`, `Shutdown`; `INTERNAL`, `UNAVAILABLE`.
    case providerUnavailable = 9
    /// No answer in time.
    case timeout = 10
    /// The connection ended before the answer.
    case connection = 11
    /// The message expired.
    case ttl = 12
    /// Stopped on purpose.
    case cancelled = 13
    /// Tried as often as allowed.
    case retriesExhausted = 14
    /// Could not be decoded.
    case malformed = 15
    /// The app has no credentials for this provider and environment.
    case noRoute = 16
    /// Owner, topic or predicate no longer hold.
    case notMatching = 17
    /// The record was deleted, or the place belongs to a later device.
    case deviceGone = 18
    /// Anything else.
    case other = 19
    /// Perhaps sent, perhaps not: its sender ended before the answer came, and it must not be sent twice.
    case unknown = 20
    /// The provider calls the token bad in the environment that the app named, and takes it in the other.
    case wrongEnvironment = 21

    /// The name in ledgers, metrics and receipts.
    public var name: String {
        switch self {
        case .none: "none"
        case .unregistered: "unregistered"
        case .badToken: "bad_token"
        case .wrongTopic: "wrong_topic"
        case .wrongSender: "wrong_sender"
        case .payload: "payload"
        case .credentials: "credentials"
        case .rateLimited: "rate_limited"
        case .providerUnavailable: "provider_unavailable"
        case .timeout: "timeout"
        case .connection: "connection"
        case .ttl: "ttl"
        case .cancelled: "cancelled"
        case .retriesExhausted: "retries_exhausted"
        case .malformed: "malformed"
        case .noRoute: "no_route"
        case .notMatching: "not_matching"
        case .deviceGone: "device_gone"
        case .other: "other"
        case .unknown: "unknown"
        case .wrongEnvironment: "wrong_environment"
        }
    }
}
