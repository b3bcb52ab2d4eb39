internal import COpenSSL

/// A Diffie-Hellman exchange on P-256 as RFC 8291 §3.1 needs one for each message: the sender's key pair is used once.
///
/// It uses the curve's arithmetic directly: through OpenSSL's general interface for keys the same takes half as long again, most of it for
/// looking up algorithms.
package struct EphemeralAgreement: Sendable {
    /// Our half of the key pair, to be sent to the peer: 65 bytes, 0x04 first.
    package let publicPoint: [UInt8]
    /// The x coordinate that both sides compute: 32 bytes, a secret.
    package let secret: [UInt8]

    /// The curve. OpenSSL only reads it after its creation, on any thread.
    private nonisolated(unsafe) static let curve: OpaquePointer = {
        guard let curve = unsafe EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1) else {
            preconditionFailure("OpenSSL has no P-256")
        }
        return unsafe curve
    }()

    /// Generates a key pair and computes the secret with the owner of a point.
    ///
    /// A point that is not on the curve is refused (`invalidKey`). On P-256 every point of the curve is safe, since the
    /// curve has no small subgroup (NIST SP 800-56A §5.6.2.3.4), so the costly check of the order is left out.
    ///
    /// - Parameter point: the peer's point, 65 bytes, 0x04 first.
    package init(with point: [UInt8]) throws(TLSError) {
        ErrorQueue.clear()
        let scalar = unsafe BN_secure_new()
        defer { unsafe BN_clear_free(scalar) }
        // 0 is no key; it comes once in 2²⁵⁶.
        repeat {
            guard unsafe BN_priv_rand_range(scalar, EC_GROUP_get0_order(Self.curve)) == 1 else {
                throw TLSError(.outOfMemory, ErrorQueue.drain("no key was generated"))
            }
        } while unsafe BN_is_zero(scalar) == 1
        try unsafe self.init(with: point, scalar)
    }

    /// Computes the secret with a given private key of 32 bytes: of the recipient, who has it for longer, or of published vectors.
    package init(with point: [UInt8], privateKey: [UInt8]) throws(TLSError) {
        precondition(privateKey.count == PublicKey.coordinateBytes, "a P-256 private key has 32 bytes")
        ErrorQueue.clear()
        let scalar = unsafe BN_bin2bn(privateKey, CInt(privateKey.count), nil)
        defer { unsafe BN_clear_free(scalar) }
        try unsafe self.init(with: point, scalar)
    }

    private init(with point: [UInt8], _ scalar: OpaquePointer?) throws(TLSError) {
        guard point.count == PublicKey.uncompressedPointBytes, point[0] == 0x04 else {
            throw TLSError(.invalidKey, "not an uncompressed P-256 point")
        }
        let (own, shared) = unsafe (EC_POINT_new(Self.curve), EC_POINT_new(Self.curve))
        let (context, x) = unsafe (BN_CTX_secure_new(), BN_secure_new())
        defer {
            unsafe EC_POINT_free(own)
            unsafe EC_POINT_clear_free(shared)
            unsafe BN_clear_free(x)
            unsafe BN_CTX_free(context)
        }
        guard let own = unsafe own, let shared = unsafe shared, let context = unsafe context, let x = unsafe x,
            let scalar = unsafe scalar
        else {
            throw TLSError(.outOfMemory, ErrorQueue.drain("no memory for a key"))
        }
        // The time of a multiplication must not depend on the scalar.
        unsafe BN_set_flags(scalar, BN_FLG_CONSTTIME)
        // Reading a point checks that it is on the curve.
        guard unsafe EC_POINT_oct2point(Self.curve, shared, point, point.count, context) == 1 else {
            throw TLSError(.invalidKey, ErrorQueue.drain("the point is not on the curve"))
        }
        var publicPoint = [UInt8](repeating: 0, count: PublicKey.uncompressedPointBytes)
        var secret = [UInt8](repeating: 0, count: PublicKey.coordinateBytes)
        let isDone =
            unsafe EC_POINT_mul(Self.curve, own, scalar, nil, nil, context) == 1
            && EC_POINT_point2oct(
                Self.curve,
                own,
                POINT_CONVERSION_UNCOMPRESSED,
                &publicPoint,
                publicPoint.count,
                context
            ) == publicPoint.count
            && EC_POINT_mul(Self.curve, shared, nil, shared, scalar, context) == 1
            && EC_POINT_get_affine_coordinates(Self.curve, shared, x, nil, context) == 1
            && BN_bn2binpad(x, &secret, CInt(secret.count)) == CInt(secret.count)
        guard isDone else { throw TLSError(.keyUnsuitable, ErrorQueue.drain("no shared secret")) }
        self.publicPoint = publicPoint
        self.secret = secret
    }

    /// Returns the public half of a private key of 32 bytes: 65 bytes, 0x04 first; nil when the key is none of the curve's.
    package static func publicPoint(ofPrivateKey key: [UInt8]) -> [UInt8]? {
        precondition(key.count == PublicKey.coordinateBytes, "a P-256 private key has 32 bytes")
        let (scalar, own) = unsafe (BN_bin2bn(key, CInt(key.count), nil), EC_POINT_new(Self.curve))
        defer {
            unsafe BN_clear_free(scalar)
            unsafe EC_POINT_free(own)
            ErrorQueue.clear()
        }
        guard unsafe BN_is_zero(scalar) == 0, unsafe BN_cmp(scalar, EC_GROUP_get0_order(Self.curve)) < 0 else {
            return nil
        }
        unsafe BN_set_flags(scalar, BN_FLG_CONSTTIME)
        var point = [UInt8](repeating: 0, count: PublicKey.uncompressedPointBytes)
        let isDone =
            unsafe EC_POINT_mul(Self.curve, own, scalar, nil, nil, nil) == 1
            && EC_POINT_point2oct(Self.curve, own, POINT_CONVERSION_UNCOMPRESSED, &point, point.count, nil)
                == point.count
        return isDone ? point : nil
    }
}
