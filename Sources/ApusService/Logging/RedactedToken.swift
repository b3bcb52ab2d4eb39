internal import ApusCore
internal import ApusTLS

/// A device token, an endpoint or another secret as logs may show it: by a short digest, enough to recognise it.
///
/// The text itself is not kept, so no mistake can print it. The digest is the beginning of SHA-256 of the text:
/// `printf %s "$token" | sha256sum | cut -c1-12`.
public struct RedactedToken: CustomStringConvertible, Sendable, Hashable {
    /// `token:3fa1b2c4d5e6`.
    public let description: String

    /// Forgets all but the digest.
    ///
    /// - Parameter text: the token as its provider writes it: of an APNs token, the hexadecimal text.
    public init(_ text: String) {
        let digest = SHA256.hash(utf8: text)
        self.description = "token:\(Hexadecimal.encode(digest.prefix(6)))"
    }
}
