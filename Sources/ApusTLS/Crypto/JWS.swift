internal import ApusCore
internal import COpenSSL

/// Signs and verifies tokens in compact form (RFC 7515): `base64url(header).base64url(payload).base64url(signature)`.
package enum JWS {
    /// The maximum bytes of a token.
    package static let tokenBytesMax = 16 * 1_024
    /// The minimum bytes of a shared secret (RFC 7518 §3.2: as long as the hash, or longer).
    package static let sharedSecretBytesMin = 32
    /// The length of an ES256 signature, in bytes (RFC 7518 §3.4).
    private static let es256SignatureBytes = 64

    /// Signs a token with the given header and payload, both JSON and used byte for byte.
    ///
    /// The header's `alg` must be that of the key: `tokenAlgorithmWrong` otherwise, `tokenMalformed` if it is not a
    /// JSON object, `keyUnsuitable` for a shared secret under 32 bytes.
    package static func sign(header: [UInt8], payload: [UInt8], with key: SigningKey) throws(TLSError) -> String {
        let parsed = try JOSEHeader(json: header)
        guard parsed.algorithm == key.algorithm.rawValue else {
            throw TLSError(.tokenAlgorithmWrong, "the header's alg must be \(key.algorithm.rawValue) for this key")
        }
        let text = Base64URL.encode(header) + "." + Base64URL.encode(payload)
        let signature: [UInt8]
        switch key {
        case .privateKey(let key):
            let raw = try Signature.make(over: Array(text.utf8), with: key.handle)
            signature = key.kind == .p256 ? try Signature.fixedForm(ofDER: raw) : raw
        case .sharedSecret(let secret):
            try Self.checkStrength(of: secret)
            signature = HMACSHA256.authenticate(Array(text.utf8), key: secret)
        }
        return text + "." + Base64URL.encode(signature)
    }

    /// Signs a token like `sign(header:payload:with:)`, from text.
    package static func sign(header: String, payload: String, with key: SigningKey) throws(TLSError) -> String {
        try Self.sign(header: Array(header.utf8), payload: Array(payload.utf8), with: key)
    }

    /// Returns the contents of a token with a valid signature.
    ///
    /// The caller determines the algorithm, never the token: one that names another is refused before any key is used
    /// (RFC 8725 §3.1). Also refused: `crit` headers, padding, more or fewer parts than three, tokens over
    /// `tokenBytesMax`. The caller must check the claims (`exp`, `aud`, …).
    package static func verify(
        _ token: String,
        algorithm: JWSAlgorithm,
        key: VerificationKey,
    ) throws(TLSError) -> JWSContents {
        guard key.algorithm == algorithm else {
            throw TLSError(.keyUnsuitable, "a \(algorithm.rawValue) token cannot be verified with this kind of key")
        }
        let parts = try Self.parts(of: token)
        let header = try JOSEHeader(json: parts.header)
        guard header.algorithm == algorithm.rawValue else {
            throw TLSError(.tokenAlgorithmWrong, "the token is not signed with \(algorithm.rawValue)")
        }
        guard !header.isCritical else {
            throw TLSError(.tokenMalformed, "the token demands extensions (crit) that are not understood")
        }
        let valid: Bool
        switch key {
        case .publicKey(let key) where key.kind == .p256:
            guard parts.signature.count == Self.es256SignatureBytes else {
                throw TLSError(.tokenSignatureWrong, "an ES256 signature has 64 bytes")
            }
            let der = Signature.der(ofFixedForm: parts.signature)
            valid = Signature.isValid(der, over: parts.signed, by: key.handle)
        case .publicKey(let key):
            valid = Signature.isValid(parts.signature, over: parts.signed, by: key.handle)
        case .sharedSecret(let secret):
            try Self.checkStrength(of: secret)
            valid = HMACSHA256.verify(parts.signature, of: parts.signed, key: secret)
        }
        guard valid else { throw TLSError(.tokenSignatureWrong, "the signature does not match") }
        return JWSContents(header: parts.header, payload: parts.payload, keyID: header.keyID)
    }

    /// Returns the header of a token that nobody has verified yet: only for choosing the key by `kid`.
    package static func unverifiedHeader(of token: String) throws(TLSError) -> JOSEHeader {
        try JOSEHeader(json: Self.parts(of: token).header)
    }

    private static func checkStrength(of secret: [UInt8]) throws(TLSError) {
        guard secret.count >= Self.sharedSecretBytesMin else {
            throw TLSError(.keyUnsuitable, "a shared secret has at least \(Self.sharedSecretBytesMin) bytes")
        }
    }

    private struct Parts {
        let header: [UInt8]
        let payload: [UInt8]
        let signature: [UInt8]
        /// The header and payload as they stand in the token, with the dot.
        let signed: [UInt8]
    }

    private static func parts(of token: String) throws(TLSError) -> Parts {
        guard token.utf8.count <= Self.tokenBytesMax else { throw TLSError(.tokenMalformed, "the token is too long") }
        let texts = token.split(separator: ".", omittingEmptySubsequences: false)
        // Padding is legal base64url, but not in a JWS (RFC 7515 §2): one token has one spelling.
        guard texts.count == 3, !token.utf8.contains(UInt8(ascii: "=")) else {
            throw TLSError(.tokenMalformed, "not three parts in base64url")
        }
        guard let header = Base64URL.decode(texts[0]), let payload = Base64URL.decode(texts[1]),
            let signature = Base64URL.decode(texts[2])
        else { throw TLSError(.tokenMalformed, "not three parts in base64url") }
        let signed = Array(token.utf8.prefix(texts[0].utf8.count + 1 + texts[1].utf8.count))
        return Parts(header: header, payload: payload, signature: signature, signed: signed)
    }
}

/// The contents of a verified token.
package struct JWSContents: Equatable, Sendable {
    /// The header's JSON.
    package let header: [UInt8]
    /// The payload, as a rule JSON with claims.
    package let payload: [UInt8]
    /// The header's `kid`, if any.
    package let keyID: String?
}
