internal import COpenSSL

/// Owns an `EVP_PKEY`; freeing it wipes the private half.
///
/// Sendable: nothing changes the key after `init`, and OpenSSL counts references to a key atomically and allows
/// concurrent use of one that nobody changes.
@safe final class KeyHandle: Sendable {
    nonisolated(unsafe) let raw: OpaquePointer

    /// Takes ownership of the reference.
    init(owning raw: OpaquePointer) { unsafe self.raw = raw }

    deinit { unsafe EVP_PKEY_free(self.raw) }

    /// The kind of key: P-256 or RSA of at least 2,048 bits, which the protocols here use; nil for any other key.
    var kind: KeyKind? {
        let type = unsafe EVP_PKEY_get_base_id(self.raw)
        if type == EVP_PKEY_RSA { return unsafe EVP_PKEY_get_bits(self.raw) >= KeyKind.rsaBitsMin ? .rsa : nil }
        guard type == EVP_PKEY_EC else { return nil }
        return self.groupName == SN_X9_62_prime256v1 ? .p256 : nil
    }

    private var groupName: String {
        var name = [CChar](repeating: 0, count: 64)
        var length = 0
        guard unsafe EVP_PKEY_get_group_name(self.raw, &name, name.count, &length) == 1 else { return "" }
        return String(decoding: name[..<length].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Parses a private key of any kind from PEM. It never asks for a passphrase.
    static func privateKey(pem: [UInt8]) throws(TLSError) -> KeyHandle {
        ErrorQueue.clear()
        var wantsPassphrase = false
        let raw = unsafe MemoryBIO.reading(pem) { bio in
            unsafe withUnsafeMutablePointer(to: &wantsPassphrase) { flag in
                unsafe PEM_read_bio_PrivateKey(
                    bio,
                    nil,
                    { _, _, _, flag in
                        unsafe flag?.assumingMemoryBound(to: Bool.self).pointee = true
                        return -1
                    },
                    flag,
                )
            }
        }
        let reason = ErrorQueue.drain("it has no private key in PEM, which begins with -----BEGIN PRIVATE KEY-----")
        if wantsPassphrase {
            throw TLSError(
                .keyEncrypted,
                "the private key is encrypted with a passphrase: store it as unencrypted PKCS#8"
            )
        }
        guard let raw = unsafe raw else { throw TLSError(.invalidKey, reason) }
        return unsafe KeyHandle(owning: raw)
    }

    /// Parses a public key of any kind from PEM (`BEGIN PUBLIC KEY`).
    static func publicKey(pem: [UInt8]) throws(TLSError) -> KeyHandle {
        ErrorQueue.clear()
        let raw = unsafe MemoryBIO.reading(pem) { bio in unsafe PEM_read_bio_PUBKEY(bio, nil, nil, nil) }
        let reason = ErrorQueue.drain("not a public key in PEM")
        guard let raw = unsafe raw else { throw TLSError(.invalidKey, reason) }
        return unsafe KeyHandle(owning: raw)
    }

    /// Parses a private key of any kind from DER.
    static func privateKey(der: [UInt8]) throws(TLSError) -> KeyHandle {
        ErrorQueue.clear()
        let raw = unsafe MemoryBIO.reading(der) { bio in unsafe d2i_PrivateKey_bio(bio, nil) }
        let reason = ErrorQueue.drain("not a private key")
        guard let raw = unsafe raw else { throw TLSError(.invalidKey, reason) }
        return unsafe KeyHandle(owning: raw)
    }

    /// Parses a public key of any kind from DER (`SubjectPublicKeyInfo`).
    static func publicKey(der: [UInt8]) throws(TLSError) -> KeyHandle {
        ErrorQueue.clear()
        let raw = unsafe MemoryBIO.reading(der) { bio in unsafe d2i_PUBKEY_bio(bio, nil) }
        let reason = ErrorQueue.drain("not a public key")
        guard let raw = unsafe raw else { throw TLSError(.invalidKey, reason) }
        return unsafe KeyHandle(owning: raw)
    }

    /// Returns true when the key's halves belong together and the point lies on the curve.
    func isConsistent(privateHalf: Bool) -> Bool {
        let context = unsafe EVP_PKEY_CTX_new_from_pkey(nil, self.raw, nil)
        defer {
            unsafe EVP_PKEY_CTX_free(context)
            ErrorQueue.clear()
        }
        return unsafe (privateHalf ? EVP_PKEY_check(context) : EVP_PKEY_public_check(context)) == 1
    }
}

/// The kinds of key that the protocols here use.
package enum KeyKind: Sendable {
    /// Elliptic curve P-256 (secp256r1): tokens by ES256, and messages encrypted for one recipient.
    case p256
    /// RSA of at least 2,048 bits: service accounts, RS256.
    case rsa

    /// The smallest accepted RSA modulus, in bits (RFC 7518 §3.3).
    static let rsaBitsMin: CInt = 2_048
}
