internal import ApusCore

/// A device token, an endpoint or another secret as logs may show it: by a short digest, enough to recognise it.
///
/// The text itself is not kept, so no mistake can print it. The digest is the beginning of SHA-256 of the text:
/// `printf %s "$token" | sha256sum | cut -c1-12`.
public struct RedactedToken: CustomStringConvertible, Sendable, Hashable {
    /// `token:3fa1b2c4d5e6`.
    public let description: String

    /// Keeps the beginning of the digest.
    ///
    /// - Parameter digest: SHA-256 of the token's text: of an APNs token, of its hexadecimal text.
    public init(sha256 digest: [UInt8]) {
        precondition(digest.count == 32)
        self.description = "token:\(Hexadecimal.encode(digest.prefix(6)))"
    }
}
