package import ApusCore

/// Who asks.
package enum Caller: Hashable, Sendable {
    /// A backend with a key: may act for all devices and users of the app, as far as its role goes.
    case backend(key: String, role: APIKeyRole)
    /// A device of this user, by a token of the app's identity provider: may act for that user and for nobody's devices.
    case user(UserID)
}

/// Who may use a part of the API.
package enum Access: Hashable, Sendable, CaseIterable {
    /// Whoever asks, without credentials.
    case everyone
    /// Devices for themselves, and backends that may register.
    case devices
    /// Backends that may register.
    case backends
    /// Backends that may send.
    case publishers
    /// Devices for themselves, and backends that may send.
    case testers

    /// Whether that caller is one of them. Which devices a user's device may touch is another question.
    func admits(_ caller: Caller) -> Bool {
        switch (self, caller) {
        case (.everyone, _), (.devices, .user), (.testers, .user): true
        case (.backends, .user), (.publishers, .user): false
        case (.devices, .backend(_, let role)), (.backends, .backend(_, let role)): role.mayRegister
        case (.publishers, .backend(_, let role)), (.testers, .backend(_, let role)): role.mayPublish
        }
    }

    /// What is told to a caller who is not one of them.
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
