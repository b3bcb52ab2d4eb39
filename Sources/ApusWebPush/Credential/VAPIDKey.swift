package import ApusCore
package import ApusProviders
internal import ApusTLS

/// The key by which an app's server identifies itself to push services (RFC 8292), with the address of its operator.
package struct VAPIDKey: Sendable {
    /// The `mailto:` or `https:` address under which a push service can reach the operator.
    package let subject: String
    /// The public point, 65 bytes: what a browser is given as `applicationServerKey` when it subscribes.
    package let publicPoint: [UInt8]
    private let key: PrivateKey

    /// Creates a key from the contents of its file: PEM, or the private number of 32 bytes in base64url, as libraries
    /// for Web Push write it.
    package init(file: [UInt8], subject: String) throws(ProvidersError) {
        guard Self.isSubject(subject) else {
            throw ProvidersError(.invalidIdentifier, "the subject \(Self.subjectRule)")
        }
        let key = try Self.key(file)
        guard key.kind == .p256, let point = key.publicKey.uncompressedPoint else {
            throw ProvidersError(.unsuitableKey, "a VAPID key must be an elliptic-curve key on P-256")
        }
        self.subject = subject
        self.publicPoint = point
        self.key = key
    }

    private static func key(_ file: [UInt8]) throws(ProvidersError) -> PrivateKey {
        let text = String(decoding: file, as: UTF8.self).split(whereSeparator: \.isWhitespace).joined()
        guard var scalar = Base64URL.decode(text), scalar.count == PublicKey.coordinateBytes else {
            return try .provider(pem: file)
        }
        defer { SecretBytes.wipe(&scalar) }
        do throws(TLSError) {
            return try PrivateKey(p256Scalar: scalar)
        } catch {
            throw ProvidersError(.unreadableKey, "the key cannot be read: \(error)")
        }
    }

    /// The rule for subjects, which continues a sentence.
    package static let subjectRule =
        "must be a mailto: or https: address of the operator, without spaces and <>, and not of localhost"

    /// Returns true when push services take a subject: one of them refuses tokens of other subjects.
    ///
    /// Source: RFC 8292 §2.1, and web-push-libs/web-push#947
    package static func isSubject(_ text: String) -> Bool {
        guard text.utf8.count <= 256, text.utf8.allSatisfy({ (0x21...0x7e).contains($0) && $0 != 0x3c && $0 != 0x3e })
        else { return false }
        if text.hasPrefix("mailto:") {
            let parts = text.dropFirst("mailto:".count).split(separator: "@", omittingEmptySubsequences: false)
            return parts.count == 2 && !parts[0].isEmpty && Self.isPublicName(parts[1])
        }
        return WebAddress(https: text).map { Self.isPublicName($0.host[...]) } ?? false
    }

    private static func isPublicName(_ host: Substring) -> Bool {
        let host = host.lowercased()
        return host.contains(".") && !host.hasPrefix(".") && !host.hasSuffix(".") && !host.hasSuffix(".localhost")
            && host != "127.0.0.1"
    }

    /// Signs a token for one push service.
    ///
    /// - Parameter origin: scheme, host and port of the endpoints that it is for.
    package func sign(for origin: Origin, expiresAt: UnixMilliseconds) throws(ProvidersError) -> VAPIDToken {
        let claims: JSONValue = [
            "aud": .string(origin.text), "exp": .integer(expiresAt.seconds), "sub": .string(self.subject),
        ]
        let header: JSONValue = ["typ": "JWT", "alg": "ES256"]
        do throws(TLSError) {
            let text = try JWS.sign(header: header.bytes, payload: claims.bytes, with: .privateKey(self.key))
            return VAPIDToken(
                authorization: "vapid t=\(text), k=\(Base64URL.encode(self.publicPoint))",
                expiresAt: UnixMilliseconds(seconds: expiresAt.seconds),
            )
        } catch {
            throw ProvidersError(.signingFailed, "the VAPID key cannot sign: \(error)")
        }
    }
}

/// A signed token for one push service.
package struct VAPIDToken: Hashable, Sendable {
    /// The value of the header `authorization` (RFC 8292 §3). It is a secret: its holder can send until it expires.
    package let authorization: String
    /// The end of its life.
    package let expiresAt: UnixMilliseconds
}
