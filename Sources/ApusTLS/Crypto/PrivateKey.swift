internal import COpenSSL

/// Holds a private key, P-256 or RSA of at least 2,048 bits. Its memory is wiped when the last reference is released.
package final class PrivateKey: Sendable {
    /// The kinds of keys that can be generated.
    package enum Generated: Sendable {
        /// Elliptic curve P-256.
        case p256
        /// RSA of 2,048 bits.
        case rsa2048
    }

    let handle: KeyHandle

    /// The kind: P-256 or RSA.
    package let kind: KeyKind

    init(_ handle: KeyHandle) throws(TLSError) {
        guard let kind = handle.kind else {
            throw TLSError(.keyUnsuitable, "the key is neither P-256 nor RSA of at least 2,048 bits")
        }
        // An RSA check searches for primes and takes long; an inconsistent key creates signatures that nobody accepts.
        guard kind == .rsa || handle.isConsistent(privateHalf: true) else {
            throw TLSError(.invalidKey, "the private key does not match its public key")
        }
        self.handle = handle
        self.kind = kind
    }

    /// Parses PEM: PKCS#8 (a `.p8` file, a service account's `private_key`), or the older SEC 1 and PKCS#1 forms.
    ///
    /// Throws `keyEncrypted` for a key with a passphrase, `keyUnsuitable` for other kinds and for short RSA keys,
    /// `invalidKey` for anything else. The caller may wipe `pemBytes` afterwards.
    package convenience init(pemBytes: [UInt8]) throws(TLSError) {
        try self.init(KeyHandle.privateKey(pem: pemBytes))
    }

    /// Parses PEM like `init(pemBytes:)`.
    package convenience init(pem: String) throws(TLSError) { try self.init(pemBytes: Array(pem.utf8)) }

    /// Creates a P-256 key from its secret number: 32 bytes, big endian, as in JWKs (`d`).
    package convenience init(p256Scalar scalar: [UInt8]) throws(TLSError) {
        guard scalar.count == PublicKey.coordinateBytes else {
            throw TLSError(.invalidKey, "a P-256 private key has 32 bytes, not \(scalar.count)")
        }
        // This is an ECPrivateKey (RFC 5915 §3) without the public half, which is computed.
        var der = DER.sequence(DER.integer([1]), DER.octets(scalar), DER.tagged(0, DER.p256))
        defer { SecretBytes.wipe(&der) }
        try self.init(KeyHandle.privateKey(der: der))
    }

    /// Generates a new key.
    package static func generate(_ kind: Generated) throws(TLSError) -> PrivateKey {
        ErrorQueue.clear()
        let raw =
            switch kind {
            case .p256: unsafe COpenSSL_generate_p256()
            case .rsa2048: unsafe COpenSSL_generate_rsa(2_048)
            }
        guard let raw = unsafe raw else { throw TLSError(.outOfMemory, ErrorQueue.drain("no key was generated")) }
        return try PrivateKey(unsafe KeyHandle(owning: raw))
    }

    /// The key as unencrypted PKCS#8 in PEM. The text is a secret.
    package var pem: String { self.handle.privatePEM }

    /// The public half of the key.
    package var publicKey: PublicKey {
        let der = unsafe MemoryBIO.written { bio in unsafe i2d_PUBKEY_bio(bio, self.handle.raw) == 1 }
        guard let der, let handle = unsafe MemoryBIO.reading(der, { bio in unsafe d2i_PUBKEY_bio(bio, nil) }) else {
            preconditionFailure("a private key has a public half")
        }
        return PublicKey(trusted: unsafe KeyHandle(owning: handle), kind: self.kind)
    }
}

extension KeyHandle {
    /// The key as unencrypted PKCS#8 in PEM.
    var privatePEM: String {
        var pem = unsafe MemoryBIO.written { bio in
            unsafe PEM_write_bio_PKCS8PrivateKey(bio, self.raw, nil, nil, 0, nil, nil) == 1
        }
        guard pem != nil else { preconditionFailure("a private key can be written") }
        defer { if var bytes = pem.take() { SecretBytes.wipe(&bytes) } }
        return String(decoding: pem ?? [], as: UTF8.self)
    }
}
