package import ApusCore
internal import ApusTLS

/// Converts tokens to the form in which the store keeps and compares them.
package enum DeviceToken {
    /// Returns the first eight bytes of a stored token's SHA-256, big endian, as verdicts and the token index have it.
    package static func digest(_ token: [UInt8]) -> UInt64 {
        SHA256.hash(token).prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// Returns the bytes to store of a token as an app sends it, by its provider's ``TokenForm``.
    package static func stored(_ text: String, of provider: Provider) throws(StoreError) -> [UInt8] {
        let traits = provider.traits
        switch traits.token {
        case .hexadecimal(let bytesMax):
            guard let bytes = Hexadecimal.decode(text), (1...bytesMax).contains(bytes.count) else {
                throw StoreError(
                    .invalidToken,
                    "a token of \(traits.name) is an even number of hexadecimal digits, 1 to \(bytesMax) bytes",
                )
            }
            return bytes
        case .text(let bytesMax):
            guard Self.isPrintable(text), !text.contains("\""), !text.contains("\\"),
                (1...bytesMax).contains(text.utf8.count)
            else {
                throw StoreError(
                    .invalidToken,
                    "a token of \(traits.name) is 1 to \(bytesMax) printable ASCII characters without spaces, quotation marks and backslashes",
                )
            }
            return Array(text.utf8)
        case .endpoint(let bytesMax):
            guard Self.isEndpoint(text, bytesMax: bytesMax) else {
                throw StoreError(
                    .invalidToken,
                    "an endpoint of \(traits.name) is an https URL of at most \(bytesMax) bytes, without user name and fragment",
                )
            }
            return Self.withHostInLowerCase(text)
        }
    }

    /// The same endpoint has one spelling: hosts are compared without regard to case (RFC 3986 §6.2.2.1).
    private static func withHostInLowerCase(_ endpoint: String) -> [UInt8] {
        let rest = endpoint.dropFirst("https://".count)
        let authority = rest.prefix { $0 != "/" && $0 != "?" }
        return Array("https://".utf8) + Array(authority.lowercased().utf8) + rest[authority.endIndex...].utf8
    }

    private static func isPrintable(_ text: String) -> Bool { text.utf8.allSatisfy { (0x21...0x7e).contains($0) } }

    private static func isEndpoint(_ text: String, bytesMax: Int) -> Bool {
        guard text.utf8.count <= bytesMax, Self.isPrintable(text), text.hasPrefix("https://") else { return false }
        let rest = text.dropFirst("https://".count)
        let authority = rest.prefix { $0 != "/" && $0 != "?" }
        return !authority.isEmpty && !authority.contains("@") && !text.contains("#")
    }
}
