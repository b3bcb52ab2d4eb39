internal import ApusCore
internal import ApusTLS
public import Logging

/// Says how a value of a log line is written: an attribute of the value, which the handler obeys.
///
///     logger.info("registered", metadata: ["user": "\(user, redaction: .hidden)"])
public enum Redaction: Int64, Logger.MetadataValueAttributes.Attribute {
    /// The value is written as it is.
    case shown = 1
    /// The value is never written: the handler writes `<redacted>` in its place.
    case hidden = 2
}

extension Logger.MetadataValue.StringInterpolation {
    /// Adds a value with its redaction; one hidden part hides the whole value.
    public mutating func appendInterpolation(_ value: some CustomStringConvertible, redaction: Redaction) {
        self.appendInterpolation(value.description, attributes: [redaction])
    }
}

/// Describes a device token, an endpoint or another secret in logs by a short digest, enough to recognise it.
///
/// The text itself is not kept, so no mistake can print it. The digest is the beginning of SHA-256 of the text: `printf
/// %s "$token" | sha256sum | cut -c1-12`.
public struct RedactedToken: CustomStringConvertible, Sendable, Hashable {
    /// The digest as `token:3fa1b2c4d5e6`.
    public let description: String

    /// Computes the digest and discards the text.
    ///
    /// - Parameter text: the token as its provider writes it; for a token of raw bytes, its hexadecimal text.
    public init(_ text: String) {
        let digest = SHA256.hash(utf8: text)
        self.description = "token:\(Hexadecimal.encode(digest.prefix(6)))"
    }
}
