package import ApusCore
internal import ApusTLS

/// Tokens as the store keeps and compares them.
package enum DeviceToken {
    /// The first eight bytes of a stored token's SHA-256, big endian: what verdicts and the token index carry.
    package static func digest(_ token: [UInt8]) -> UInt64 {
        SHA256.hash(token).prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// The bytes to store of a token as an app sends it.
    ///
    /// - APNs: hexadecimal, at most 200 bytes; stored raw. Apple: "APNs device tokens are of variable length. Do not
    ///   hard-code their size." (https://developer.apple.com/documentation/uikit/uiapplicationdelegate/application(_:didregisterforremotenotificationswithdevicetoken:))
    /// - FCM: at most 4,096 printable ASCII characters without spaces; Google promises no form.
    /// - Web Push: an https URL (RFC 8030 §5), at most 2,048 bytes, without user name and fragment. Whether its host is
    ///   allowed, `WebPushHosts` says.
    package static func stored(_ text: String, of provider: Provider) throws(StoreError) -> [UInt8] {
        switch provider {
        case .apns:
            guard let bytes = Hexadecimal.decode(text), (1...Limits.apnsTokenBytesMax).contains(bytes.count) else {
                throw StoreError(
                    .invalidToken,
                    "an APNs token is an even number of hexadecimal digits, 1 to \(Limits.apnsTokenBytesMax) bytes",
                )
            }
            return bytes
        case .fcm:
            guard Self.isPrintable(text), (1...Limits.tokenBytesMax).contains(text.utf8.count) else {
                throw StoreError(
                    .invalidToken,
                    "an FCM token is 1 to \(Limits.tokenBytesMax) printable ASCII characters without spaces",
                )
            }
            return Array(text.utf8)
        case .webpush:
            guard Self.isEndpoint(text) else {
                throw StoreError(
                    .invalidToken,
                    "a Web Push endpoint is an https URL of at most \(Self.endpointBytesMax) bytes, "
                        + "without user name and fragment",
                )
            }
            return Array(text.utf8)
        }
    }

    /// Bytes of a Web Push endpoint.
    package static let endpointBytesMax = 2_048

    private static func isPrintable(_ text: String) -> Bool { text.utf8.allSatisfy { (0x21...0x7e).contains($0) } }

    private static func isEndpoint(_ text: String) -> Bool {
        guard text.utf8.count <= Self.endpointBytesMax, Self.isPrintable(text), text.hasPrefix("https://") else {
            return false
        }
        let rest = text.dropFirst("https://".count)
        let authority = rest.prefix { $0 != "/" && $0 != "?" }
        return !authority.isEmpty && !authority.contains("@") && !text.contains("#")
    }
}
