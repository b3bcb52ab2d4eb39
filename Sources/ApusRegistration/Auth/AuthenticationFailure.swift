/// The caller could not be identified, or may not do what it asks for.
package struct AuthenticationFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// The reason.
    package let cause: AuthenticationCause
    /// The detail for the caller. It is empty until a signature has been verified, because it must not show whether there is an app, a key
    /// or an identity provider.
    package let detail: String

    /// The detail.
    package var description: String { self.detail }

    /// Creates the failure of credentials that prove nothing.
    static func unproven(_ cause: AuthenticationCause) -> AuthenticationFailure {
        let detail =
            switch cause {
            case .missing: "an Authorization header with a bearer token is needed"
            case .keysUnread: "the keys in Redis are not known yet"
            default: "the bearer token is not valid for this app"
            }
        return AuthenticationFailure(cause: cause, detail: detail)
    }

    /// Creates the failure of a genuine token, whose fault its holder may know.
    static func genuine(_ cause: AuthenticationCause, _ detail: String) -> AuthenticationFailure {
        AuthenticationFailure(cause: cause, detail: detail)
    }
}
