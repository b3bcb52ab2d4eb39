/// The state of one recipient of a send. At every moment the number of planned recipients is the sum over all states.
public enum Outcome: UInt8, CaseIterable, Sendable, Hashable {
    /// The outcome is not final yet.
    case open = 1
    /// The provider accepted the message.
    case accepted = 2
    /// The provider says the token is dead.
    case unregistered = 3
    /// The provider, or our check of its rules, refused the message for good.
    case rejected = 4
    /// Retries are exhausted, or the credentials are wrong.
    case failed = 5
    /// The message expired before it could be delivered.
    case expired = 6
    /// The publisher or an operator stopped the send.
    case cancelled = 7
    /// The recipient no longer matched when its turn came.
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

    /// All states but `open`.
    public static let final: [Outcome] = Self.allCases.filter { $0 != .open }
}

/// The reason of an outcome: the closed set that metrics and ledgers use. The provider's own reason is kept beside it,
/// as defined by https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns
/// and https://firebase.google.com/docs/cloud-messaging/error-codes.
public enum Reason: UInt8, CaseIterable, Sendable, Hashable {
    /// There is nothing to explain.
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
    /// The key, certificate, account or its permissions are wrong: `InvalidProviderToken`, `TopicDisallowed`;
    /// `PERMISSION_DENIED`, `THIRD_PARTY_AUTH_ERROR`.
    case credentials = 7
    /// There are too many requests: `TooManyRequests`; `QUOTA_EXCEEDED`.
    case rateLimited = 8
    /// The provider failed: `InternalServerError`, `ServiceUnavailable`, `Shutdown`; `INTERNAL`, `UNAVAILABLE`.
    case providerUnavailable = 9
    /// The answer did not come in time.
    case timeout = 10
    /// The connection ended before the answer.
    case connection = 11
    /// The message expired.
    case ttl = 12
    /// The send was stopped on purpose.
    case cancelled = 13
    /// The maximum number of attempts was made.
    case retriesExhausted = 14
    /// The message could not be decoded.
    case malformed = 15
    /// The app has no credentials for this provider and environment.
    case noRoute = 16
    /// The owner, topic or predicate no longer match.
    case notMatching = 17
    /// The record was deleted, or its place belongs to a later device.
    case deviceGone = 18
    /// Any other reason.
    case other = 19
    /// The message may have been sent: its sender ended before the answer came, and it must not be sent twice.
    case unknown = 20
    /// The provider calls the token bad in the environment that the app named, and accepts it in the other.
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
