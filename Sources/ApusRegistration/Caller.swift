package import ApusCore
internal import ApusStreams

/// Identifies the caller of a request.
package enum Caller: Hashable, Sendable {
    /// A backend with a key, which may act for all devices and users of the app, as far as its role allows.
    case backend(key: String, role: APIKeyRole)
    /// A device of this user, with a token of the app's identity provider, which may act for that user and for devices of nobody.
    case user(UserID)

    /// The user whose device calls; nil for a backend.
    var user: UserID? {
        guard case .user(let user) = self else { return nil }
        return user
    }

    /// The caller as the audit trail names it.
    var asOperator: Operator {
        switch self {
        case .backend(let key, _): Operator("key \(key)", through: .http)
        case .user(let user): Operator("user \(user)", through: .http)
        }
    }
}

/// Names the callers that may use a part of the API.
package enum Access: Hashable, Sendable, CaseIterable {
    /// Every caller may use it, without credentials.
    case everyone
    /// Devices may use it for themselves, and backends that may register.
    case devices
    /// Backends that may register may use it.
    case backends
    /// Backends that may send may use it.
    case publishers
    /// Devices may use it for themselves, and backends that may send.
    case testers

    /// Returns true when that caller is one of them. Which devices a user's device may change is checked elsewhere.
    func admits(_ caller: Caller) -> Bool {
        switch (self, caller) {
        case (.everyone, _), (.devices, .user), (.testers, .user): true
        case (.backends, .user), (.publishers, .user): false
        case (.devices, .backend(_, let role)), (.backends, .backend(_, let role)): role.mayRegister
        case (.publishers, .backend(_, let role)), (.testers, .backend(_, let role)): role.mayPublish
        }
    }

    /// The detail for a caller that is not one of them.
    var refusal: String {
        switch self {
        case .everyone: "nobody is refused"
        case .devices: "this key is for sending, not for registering devices"
        case .backends: "only a key of the role register or admin allows that"
        case .publishers: "only a key of the role publish or admin allows that"
        case .testers: "this key is for registering devices, not for sending"
        }
    }
}
