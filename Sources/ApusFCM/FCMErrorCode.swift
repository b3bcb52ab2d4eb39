/// FCM's vocabulary of refusals.
///
/// Source: https://firebase.google.com/docs/cloud-messaging/error-codes
package enum FCMErrorCode: String, CaseIterable, Sendable {
    /// Nothing known.
    case unspecified = "UNSPECIFIED_ERROR"
    /// A bad request, or a bad token.
    case invalidArgument = "INVALID_ARGUMENT"
    /// The app is gone from the device.
    case unregistered = "UNREGISTERED"
    /// The token belongs to another project.
    case senderIDMismatch = "SENDER_ID_MISMATCH"
    /// The rate of the project, a device or a topic.
    case quotaExceeded = "QUOTA_EXCEEDED"
    /// Overloaded.
    case unavailable = "UNAVAILABLE"
    /// Google's own trouble.
    case internalError = "INTERNAL"
    /// FCM's credentials for Apple or the web push service, as we gave them to Firebase.
    case thirdPartyAuthError = "THIRD_PARTY_AUTH_ERROR"
    /// The older name of the previous.
    case apnsAuthError = "APNS_AUTH_ERROR"
}
