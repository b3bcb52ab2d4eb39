/// Who asks could not be told, or may not ask that.
package struct AuthenticationFailure: Error, Hashable, Sendable {
    /// Why.
    package let cause: AuthenticationCause
    /// What the asker may know. Before a signature was found right that is nothing: whether there is an app, a key or an
    /// identity provider must not show.
    package let detail: String

    /// Credentials that prove nothing.
    static func unproven(_ cause: AuthenticationCause) -> AuthenticationFailure {
        AuthenticationFailure(
            cause: cause,
            detail: cause == .missing
                ? "an Authorization header with a bearer token is needed"
                : "the bearer token is not valid for this app",
        )
    }

    /// A genuine token with a fault that its holder may know.
    static func genuine(_ cause: AuthenticationCause, _ detail: String) -> AuthenticationFailure {
        AuthenticationFailure(cause: cause, detail: detail)
    }
}
