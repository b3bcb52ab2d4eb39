package import ApusTLS

/// Encrypts messages to browsers: RFC 8291 over one record of RFC 8188 (`aes128gcm`). Pure but for the key pair and the
/// salt, which are random.
package enum WebPushEncryption {
    /// The maximum bytes of a body; push services must take so many (RFC 8030 §7.2).
    package static let bodyBytesMax = 4_096
    /// The bytes before the record: the salt, the record size, the length of the key's id, and the key (RFC 8188 §2.1).
    static let headerBytes = saltBytes + 4 + 1 + PublicKey.uncompressedPointBytes
    /// The maximum bytes of the content: the body without header, delimiter and tag.
    package static let contentBytesMax = bodyBytesMax - headerBytes - 1 - AES128GCM.tagBytes
    /// The bytes of a salt.
    static let saltBytes = 16
    /// The delimiter behind the content of the last record (RFC 8188 §2).
    private static let lastDelimiter: UInt8 = 0x02

    private static let keyInfo = Array("WebPush: info".utf8) + [0]
    private static let contentKeyInfo = Array("Content-Encoding: aes128gcm".utf8) + [0, 1]
    private static let nonceInfo = Array("Content-Encoding: nonce".utf8) + [0, 1]

    /// Encrypts content with a key pair and a salt of its own, and returns the body.
    ///
    /// It costs a key generation and a Diffie-Hellman exchange, some 75 µs: it belongs on a thread that nobody waits for.
    ///
    /// - Parameter content: at most ``contentBytesMax`` bytes; more are a programming error.
    /// - Throws: `TLSError.invalidKey` when the browser's key is not a point of the curve.
    package static func encrypt(_ content: [UInt8], to keys: WebPushKeys) throws(TLSError) -> [UInt8] {
        let agreement = try EphemeralAgreement(with: keys.publicKey)
        return Self.encrypt(content, to: keys, agreement: agreement, salt: SecureRandom.bytes(Self.saltBytes))
    }

    /// Encrypts content with a given agreement and salt, neither of which may be used twice.
    package static func encrypt(
        _ content: [UInt8],
        to keys: WebPushKeys,
        agreement: EphemeralAgreement,
        salt: [UInt8],
    ) -> [UInt8] {
        precondition(content.count <= Self.contentBytesMax, "the size is checked when a message is rendered")
        precondition(salt.count == Self.saltBytes)
        // RFC 8291 §3.3 and §3.4, RFC 8188 §2.2 and §2.3.
        let combined = HMACSHA256.authenticate(agreement.secret, key: keys.secret)
        let info = Self.keyInfo + keys.publicKey + agreement.publicPoint + [1]
        let keyingMaterial = HMACSHA256.authenticate(info, key: combined)
        let pseudorandomKey = HMACSHA256.authenticate(keyingMaterial, key: salt)
        let key = HMACSHA256.authenticate(Self.contentKeyInfo, key: pseudorandomKey)
        let nonce = HMACSHA256.authenticate(Self.nonceInfo, key: pseudorandomKey)
        var body: [UInt8] = []
        body.reserveCapacity(Self.headerBytes + content.count + 1 + AES128GCM.tagBytes)
        body += salt
        body += [0, 0, UInt8(Self.bodyBytesMax >> 8), UInt8(Self.bodyBytesMax & 0xff)]
        body.append(UInt8(PublicKey.uncompressedPointBytes))
        body += agreement.publicPoint
        body += AES128GCM.seal(
            content + [Self.lastDelimiter],
            key: Array(key.prefix(AES128GCM.keyBytes)),
            nonce: Array(nonce.prefix(AES128GCM.nonceBytes)),
        )
        return body
    }
}

/// The keys of a subscription, with which a browser decrypts what it gets.
///
/// Source: https://w3c.github.io/push-api/#pushsubscription-interface
package struct WebPushKeys: Hashable, Sendable {
    /// `p256dh`: the browser's point on P-256, 65 bytes.
    package let publicKey: [UInt8]
    /// `auth`: the secret that the browser shares with the app's server, 16 bytes.
    package let secret: [UInt8]

    /// The bytes of `auth`.
    package static let secretBytes = 16

    /// Creates keys; nil when a length is wrong. Whether the point is on the curve shows when a message is encrypted.
    package init?(publicKey: [UInt8], secret: [UInt8]) {
        guard publicKey.count == PublicKey.uncompressedPointBytes, secret.count == Self.secretBytes else { return nil }
        self.publicKey = publicKey
        self.secret = secret
    }
}
