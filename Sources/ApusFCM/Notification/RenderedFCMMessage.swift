package import ApusProviders

/// A notification in one language as FCM takes it: everything but the token and the credential.
package struct RenderedFCMMessage: Hashable, Sendable {
    /// Whom it is for.
    package let target: FCMTarget
    /// The JSON body. For a token or an installation id its place comes first, so that what stands before it is short;
    /// the id must be of characters that need no escape in JSON.
    package let body: RenderedBody
    /// Bytes of what FCM counts against its limit: keys and values of the data and of what is shown.
    package let payloadBytes: Int

    /// The headers that are the same for every device.
    package static let headers: [(name: String, value: String)] = [("content-type", "application/json")]
}
