/// The meaning of a provider's answer to one request. An answer is not a failure: only `lost` is one.
///
/// Every provider has one table from its own vocabulary to these cases; every switch over them is exhaustive.
public enum DeliveryOutcome: Hashable, Sendable {
    /// The provider accepted the message, which need not be shown: a provider may discard what it accepted.
    case accepted
    /// The token is dead. `asOf` is the time at which the provider knew it; when nil, the start of the request counts.
    case unregistered(Reason, asOf: UnixMilliseconds?)
    /// The token may be bad, or the error may be ours: this never deletes a token by itself.
    case suspect(Reason)
    /// The message is refused for good; the token is good.
    case rejected(Reason)
    /// The message cannot be accepted now.
    case deferred(Deferral)
    /// Our configuration is wrong: pauses `scope`, never touches a token.
    case misconfigured(Misconfiguration)
    /// There is no answer: the outcome is unknown.
    case lost(Loss)
}

/// Describes how long, and in what scope, to hold back.
public struct Deferral: Hashable, Sendable {
    /// The scope of a deferral, as the provider names it.
    public enum Scope: Hashable, Sendable {
        /// This message to this device only.
        case message
        /// Everything to this device. Only the message waits: others to the device are still sent, and each has an answer of its own.
        case device
        /// Everything on the route: the rate is too high, or the provider fails.
        case route
    }

    /// The reason.
    public let reason: Reason
    /// The scope of the deferral.
    public let scope: Scope
    /// The wait that the provider asked for, in milliseconds; nil when it named none.
    public let retryAfterMilliseconds: Int64?
    /// True when another attempt needs another connection.
    public let needsNewConnection: Bool
    /// True when this was no fault at all (a stream refused unprocessed): resend at once, count no attempt.
    public let isFree: Bool

    /// Creates a deferral.
    public init(
        _ reason: Reason,
        scope: Scope = .message,
        retryAfterMilliseconds: Int64? = nil,
        needsNewConnection: Bool = false,
        isFree: Bool = false,
    ) {
        self.reason = reason
        self.scope = scope
        self.retryAfterMilliseconds = retryAfterMilliseconds
        self.needsNewConnection = needsNewConnection
        self.isFree = isFree
    }
}

/// The part of our configuration that is wrong, and what can still be done.
public enum Misconfiguration: Hashable, Sendable {
    /// The short-lived credential (JWT, OAuth token) is stale: renew it once, on a new connection, and resend.
    case staleCredential
    /// The short-lived credential was renewed too often: keep using the old one.
    case renewedTooOften
    /// The connection was first used with another key: open one for this key and resend.
    case wrongConnection
    /// The credential is wrong or lacks permissions: pause everything that uses it.
    case credential
    /// The project or environment of the route is wrong: pause the route.
    case route
    /// One subroute is refused, such as one topic: what is sent by it waits, everything else of the route goes on.
    case subroute
    /// The request is not allowed and must not be repeated: refuses the message, and pauses the route.
    case forbidden
    /// The project, the route or its permissions may be wrong, or this request alone: refuses the message, and pauses
    /// the route when it persists.
    case unclear
    /// The provider cannot reach a third party with our credentials: pause that part only.
    case thirdPartyAuth
}

/// The reasons for a missing answer.
public enum Loss: Hashable, Sendable {
    /// The deadline passed.
    case timeout
    /// The connection ended, or the stream was reset, after the request was sent.
    case connection
}
