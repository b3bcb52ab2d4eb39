package import ApusProviders

/// Holds a notification rendered for FCM in one language: everything but the token and the credential.
package struct RenderedFCMMessage: Hashable, Sendable {
    /// The target of the message.
    package let target: FCMTarget
    /// The JSON body. The place of a token or an installation id comes first, so that the bytes before it are few; the
    /// id must consist of characters that need no escape in JSON.
    package let body: RenderedBody
    /// The bytes that count against FCM's limit: keys and values of the data and of the shown members.
    package let payloadBytes: Int

    /// The headers that are the same for every device.
    package static let headers: [(name: String, value: String)] = [("content-type", "application/json")]
}
