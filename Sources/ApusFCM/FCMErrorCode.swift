/// FCM's error codes.
///
/// Source: https://firebase.google.com/docs/cloud-messaging/error-codes
package enum FCMErrorCode: String, CaseIterable, Sendable {
    /// The error is unspecified.
    case unspecified = "UNSPECIFIED_ERROR"
    /// A bad request, or a bad token.
    case invalidArgument = "INVALID_ARGUMENT"
    /// The app is gone from the device.
    case unregistered = "UNREGISTERED"
    /// The token belongs to another project.
    case senderIDMismatch = "SENDER_ID_MISMATCH"
    /// The rate of the project, a device or a topic is exceeded.
    case quotaExceeded = "QUOTA_EXCEEDED"
    /// The service is overloaded.
    case unavailable = "UNAVAILABLE"
    /// Google has an internal error.
    case internalError = "INTERNAL"
    /// FCM's credentials for Apple or the web push service, as configured in Firebase, are invalid.
    case thirdPartyAuthError = "THIRD_PARTY_AUTH_ERROR"
    /// The older name of the previous code.
    case apnsAuthError = "APNS_AUTH_ERROR"
}
