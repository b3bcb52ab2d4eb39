/// Whether a device may be deleted because a provider said its token is dead.
///
/// "If the app registered the token again since, keep it": both are in milliseconds, and what counts is when the **app** last
/// registered, not when something was last sent.
/// Source: https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns
public enum PruneRule {
    /// True when the registration is not younger than the verdict.
    ///
    /// - Parameters:
    ///   - registeredAt: of the stored record, whose token must be the one that failed.
    ///   - asOf: the provider's timestamp, else when the request was started.
    public static func shouldPrune(registeredAt: UnixMilliseconds, asOf: UnixMilliseconds) -> Bool {
        registeredAt <= asOf
    }
}
