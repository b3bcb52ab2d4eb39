internal import COpenSSL

/// A Diffie-Hellman exchange on P-256 whose own key pair is used once, as Web Push needs one for each message
/// (RFC 8291 §3.1).
package struct EphemeralAgreement: Sendable {
    /// Our half of the key pair, to be sent to the peer: 65 bytes, 0x04 first.
    package let publicPoint: [UInt8]
    /// The x coordinate that both sides compute: 32 bytes, a secret.
    package let secret: [UInt8]

    /// Generates a key pair and computes the secret with the owner of a point.
    ///
    /// A point that is not on the curve is refused (`invalidKey`). On P-256 every point of the curve is safe, since the
    /// curve has no small subgroup (NIST SP 800-56A §5.6.2.3.4), so the costly check of the order is left out.
    ///
    /// - Parameter point: the peer's point, 65 bytes, 0x04 first.
    package init(with point: [UInt8]) throws(TLSError) {
        ErrorQueue.clear()
        guard let raw = unsafe COpenSSL_generate_p256() else {
            throw TLSError(.outOfMemory, ErrorQueue.drain("no key was generated"))
        }
        try self.init(with: point, by: unsafe KeyHandle(owning: raw))
    }

    /// Computes the secret with a given key, for tests of published vectors.
    package init(with point: [UInt8], by key: PrivateKey) throws(TLSError) {
        precondition(key.kind == .p256, "Diffie-Hellman is done on P-256")
        try self.init(with: point, by: key.handle)
    }

    private init(with point: [UInt8], by key: KeyHandle) throws(TLSError) {
        guard point.count == PublicKey.uncompressedPointBytes, point[0] == 0x04 else {
            throw TLSError(.invalidKey, "not an uncompressed P-256 point")
        }
        ErrorQueue.clear()
        // The peer's key shares our parameters; reading the point checks that it is on the curve.
        guard let peer = unsafe EVP_PKEY_new() else { throw TLSError(.outOfMemory, "no key") }
        defer { unsafe EVP_PKEY_free(peer) }
        guard unsafe EVP_PKEY_copy_parameters(peer, key.raw) == 1,
            unsafe EVP_PKEY_set1_encoded_public_key(peer, point, point.count) == 1
        else { throw TLSError(.invalidKey, ErrorQueue.drain("the point is not on the curve")) }
        let context = unsafe EVP_PKEY_CTX_new_from_pkey(nil, key.raw, nil)
        defer { unsafe EVP_PKEY_CTX_free(context) }
        var secret = [UInt8](repeating: 0, count: PublicKey.coordinateBytes)
        var length = secret.count
        let isDerived =
            unsafe EVP_PKEY_derive_init(context) == 1
            && EVP_PKEY_derive_set_peer_ex(context, peer, 0) == 1
            && EVP_PKEY_derive(context, &secret, &length) == 1
        guard isDerived, length == secret.count else {
            throw TLSError(.keyUnsuitable, ErrorQueue.drain("no shared secret"))
        }
        var own = [UInt8](repeating: 0, count: PublicKey.uncompressedPointBytes)
        var count = 0
        let isWritten =
            unsafe EVP_PKEY_get_octet_string_param(
                key.raw,
                OSSL_PKEY_PARAM_ENCODED_PUBLIC_KEY,
                &own,
                own.count,
                &count,
            ) == 1
        precondition(isWritten && count == own.count, "a P-256 key has a point")
        self.publicPoint = own
        self.secret = secret
    }
}
