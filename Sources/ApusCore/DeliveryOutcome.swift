/// The meaning of a provider's answer to one request. An answer is not a failure: only `lost` is one.
///
/// Every provider has one table from its own vocabulary to these cases; every switch over them is exhaustive.
public enum DeliveryOutcome: Hashable, Sendable {
    /// The provider took it. (Taken is not shown: a provider may discard what it accepted.)
    case accepted
    /// The token is dead. `asOf` is when the provider knew it; nil: compare with the start of the request.
    case unregistered(Reason, asOf: UnixMilliseconds?)
    /// Something says the token may be bad, or we may be: never deletes by itself.
    case suspect(Reason)
    /// This message is refused for good; the token is fine.
    case rejected(Reason)
    /// Not now.
    case deferred(Deferral)
    /// Our configuration is wrong: pauses `scope`, never touches a token.
    case misconfigured(Misconfiguration)
    /// No answer: the outcome is unknown.
    case lost(Loss)
}

/// How long, and in what scope, to hold back.
public struct Deferral: Hashable, Sendable {
    /// What is to be held back.
    public enum Scope: Hashable, Sendable {
        /// This message to this device only.
        case message
        /// Everything to this device.
        case device
        /// Everything on the route: the rate is too high, or the provider fails.
        case route
    }

    /// The reason.
    public let reason: Reason
    /// What is to be held back.
    public let scope: Scope
    /// What the provider asked for, in milliseconds; nil when it said nothing.
    public let retryAfterMilliseconds: Int64?
    /// Whether another attempt needs another connection.
    public let needsNewConnection: Bool
    /// Whether this was no fault at all (a stream refused before it was looked at): resend at once, count no attempt.
    public let isFree: Bool

    /// A deferral.
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
    /// The short-lived credential (JWT, OAuth token) is stale: renew it once, on a new connection, and send again.
    case staleCredential
    /// The short-lived credential was renewed too often: go on with the old one.
    case renewedTooOften
    /// This connection was first used with another key: open one for this key and send again.
    case wrongConnection
    /// The credential is wrong or lacks rights: pause all that uses it.
    case credential
    /// The topic, project or environment of the route is wrong: pause the route.
    case route
    /// What was asked for is not allowed, and must not be asked for again: refuses the message, and pauses the route.
    case forbidden
    /// The project, the route or its rights may be wrong, or this request alone: refuses the message, and pauses the route
    /// when it goes on.
    case unclear
    /// The provider cannot reach a third party with our credentials: pause that part only.
    case thirdPartyAuth
}

/// Why there is no answer.
public enum Loss: Hashable, Sendable {
    /// The deadline passed.
    case timeout
    /// The connection ended, or the stream was reset, after the request had gone out.
    case connection
}
