/// The supported signature algorithms (RFC 7518 §3.1).
package enum JWSAlgorithm: String, Sendable, CaseIterable {
    /// ECDSA on P-256 with SHA-256; the signature is R and S, 32 bytes each.
    case es256 = "ES256"
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    case rs256 = "RS256"
    /// HMAC with SHA-256, by a shared secret.
    case hs256 = "HS256"
}

/// A key that signs tokens and determines the algorithm.
package enum SigningKey: Sendable {
    /// ES256 for P-256, RS256 for RSA.
    case privateKey(PrivateKey)
    /// HS256: at least 32 bytes.
    case sharedSecret([UInt8])

    /// The algorithm of the key.
    package var algorithm: JWSAlgorithm {
        switch self {
        case .privateKey(let key): key.kind == .p256 ? .es256 : .rs256
        case .sharedSecret: .hs256
        }
    }
}

/// A key that verifies tokens.
package enum VerificationKey: Sendable {
    /// ES256 for P-256, RS256 for RSA.
    case publicKey(PublicKey)
    /// HS256: at least 32 bytes.
    case sharedSecret([UInt8])

    /// The algorithm of the key.
    package var algorithm: JWSAlgorithm {
        switch self {
        case .publicKey(let key): key.kind == .p256 ? .es256 : .rs256
        case .sharedSecret: .hs256
        }
    }
}
