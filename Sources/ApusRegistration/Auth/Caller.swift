package import ApusCore

/// Who asks.
package enum Caller: Hashable, Sendable {
    /// A backend with a key: may act for all devices and users of the app.
    case backend(key: String)
    /// A device of this user, by a token of the app's identity provider: may act for that user and for nobody's devices.
    case user(UserID)
}
