internal import COpenSSL

/// Holds a public key, P-256 or RSA of at least 2,048 bits.
package final class PublicKey: Sendable {
    /// The length of a P-256 coordinate, in bytes.
    package static let coordinateBytes = 32
    /// The length of an uncompressed P-256 point, in bytes: 0x04, x, y.
    package static let uncompressedPointBytes = 65

    let handle: KeyHandle

    /// The kind: P-256 or RSA.
    package let kind: KeyKind

    init(trusted handle: KeyHandle, kind: KeyKind) {
        self.handle = handle
        self.kind = kind
    }

    private convenience init(_ handle: KeyHandle) throws(TLSError) {
        guard let kind = handle.kind else {
            throw TLSError(.keyUnsuitable, "the key is neither P-256 nor RSA of at least 2,048 bits")
        }
        guard handle.isConsistent(privateHalf: false) else { throw TLSError(.invalidKey, "not a valid public key") }
        self.init(trusted: handle, kind: kind)
    }

    /// Parses PEM (`BEGIN PUBLIC KEY`). Throws `invalidKey` or `keyUnsuitable`.
    package convenience init(pem: String) throws(TLSError) {
        try self.init(KeyHandle.publicKey(pem: Array(pem.utf8)))
    }

    /// Creates a P-256 key from its point: 65 bytes, 0x04 first, as in messages encrypted for it. A point
    /// that is not on the curve is refused.
    package convenience init(uncompressedPoint point: [UInt8]) throws(TLSError) {
        guard point.count == Self.uncompressedPointBytes, point[0] == 0x04 else {
            throw TLSError(.invalidKey, "not an uncompressed P-256 point")
        }
        let algorithm = DER.sequence(DER.ellipticCurveKey, DER.p256)
        try self.init(KeyHandle.publicKey(der: DER.sequence(algorithm, DER.bits(point))))
    }

    /// Creates a P-256 key from a JWK's decoded `x` and `y`: 32 bytes each (RFC 7518 §6.2.1).
    package convenience init(x: [UInt8], y: [UInt8]) throws(TLSError) {
        guard x.count == Self.coordinateBytes, y.count == Self.coordinateBytes else {
            throw TLSError(.invalidKey, "a P-256 coordinate has 32 bytes")
        }
        try self.init(uncompressedPoint: [0x04] + x + y)
    }

    /// Creates an RSA key from a JWK's decoded `n` and `e`: big endian (RFC 7518 §6.3.1).
    package convenience init(modulus: [UInt8], exponent: [UInt8]) throws(TLSError) {
        guard modulus.count <= Self.modulusBytesMax, exponent.count <= Self.exponentBytesMax else {
            throw TLSError(.keyUnsuitable, "the RSA key is too large")
        }
        // This is an RSAPublicKey (RFC 8017 A.1.1) in its wrapping (RFC 3279 §2.3.1).
        let numbers = DER.sequence(DER.integer(modulus), DER.integer(exponent))
        let der = DER.sequence(DER.sequence(DER.rsaKey), DER.bits(numbers))
        try self.init(KeyHandle.publicKey(der: der))
    }

    /// The largest RSA modulus accepted from outside, in bytes: the time to verify grows with it.
    package static let modulusBytesMax = 1_024
    /// The largest RSA exponent accepted from outside, in bytes: the time to verify grows with it.
    static let exponentBytesMax = 4

    /// The key in PEM (`BEGIN PUBLIC KEY`).
    package var pem: String {
        let pem = unsafe MemoryBIO.written { bio in unsafe PEM_write_bio_PUBKEY(bio, self.handle.raw) == 1 }
        guard let pem else { preconditionFailure("a public key can be written") }
        return String(decoding: pem, as: UTF8.self)
    }

    /// The P-256 point, 65 bytes; nil for RSA.
    package var uncompressedPoint: [UInt8]? {
        guard self.kind == .p256 else { return nil }
        var bytes = [UInt8](repeating: 0, count: Self.uncompressedPointBytes)
        var count = 0
        let code = unsafe EVP_PKEY_get_octet_string_param(
            self.handle.raw,
            OSSL_PKEY_PARAM_ENCODED_PUBLIC_KEY,
            &bytes,
            bytes.count,
            &count,
        )
        precondition(code == 1, "a P-256 key has a point")
        // A key that was read in compressed form returns its point in that form.
        return count == bytes.count ? bytes : self.expandedPoint
    }

    private var expandedPoint: [UInt8]? {
        var coordinates: [UInt8] = [0x04]
        for name in [OSSL_PKEY_PARAM_EC_PUB_X, OSSL_PKEY_PARAM_EC_PUB_Y] {
            var number: OpaquePointer?
            guard unsafe EVP_PKEY_get_bn_param(self.handle.raw, name, &number) == 1 else { return nil }
            defer { unsafe BN_free(number) }
            var bytes = [UInt8](repeating: 0, count: Self.coordinateBytes)
            guard unsafe BN_bn2binpad(number, &bytes, CInt(bytes.count)) == CInt(bytes.count) else { return nil }
            coordinates += bytes
        }
        return coordinates
    }
}
