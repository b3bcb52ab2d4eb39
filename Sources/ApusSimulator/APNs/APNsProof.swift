internal import ApusTLS

/// With what a client of Apple's shows who it is.
enum APNsProof: Sendable {
    /// A token, signed by that key.
    case key(APNsKey)
    /// A client certificate.
    case certificate(AppleCertificate)

    /// What a request without a topic is for: "if your certificate includes multiple topics, you must specify a value"
    /// (https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns).
    var defaultTopic: String? {
        guard case .certificate(let certificate) = self, certificate.topics.count == 1 else { return nil }
        return certificate.topics[0]
    }

    /// Whether it is for a topic: a key goes by bundle ids, a certificate names every suffix.
    func serves(_ topic: String, of bundleID: String) -> Bool {
        switch self {
        case .key(let key): key.topics?.contains(bundleID) ?? true
        case .certificate(let certificate): certificate.topics.contains(topic)
        }
    }
}
