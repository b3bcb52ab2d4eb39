internal import COpenSSL

/// Creates and verifies signatures with SHA-256, and converts the two forms of ECDSA.
enum Signature {
    /// Signs a message in the form of the key's kind: PKCS#1 v1.5 for RSA, DER for P-256.
    static func make(over message: [UInt8], with key: KeyHandle) throws(TLSError) -> [UInt8] {
        ErrorQueue.clear()
        guard let context = unsafe EVP_MD_CTX_new() else { throw TLSError(.outOfMemory, "no signature") }
        defer { unsafe EVP_MD_CTX_free(context) }
        var length = Int(unsafe EVP_PKEY_get_size(key.raw))
        var signature = [UInt8](repeating: 0, count: length)
        let done =
            unsafe EVP_DigestSignInit(context, nil, EVP_sha256(), nil, key.raw) == 1
            && EVP_DigestSign(context, &signature, &length, message, message.count) == 1
        guard done else { throw TLSError(.keyUnsuitable, ErrorQueue.drain("the key cannot sign")) }
        return Array(signature[..<length])
    }

    /// Returns true when the signature, in the form that `make` returns, is by the key over the message.
    static func isValid(_ signature: [UInt8], over message: [UInt8], by key: KeyHandle) -> Bool {
        guard let context = unsafe EVP_MD_CTX_new() else { return false }
        defer {
            unsafe EVP_MD_CTX_free(context)
            ErrorQueue.clear()
        }
        return unsafe EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key.raw) == 1
            && EVP_DigestVerify(context, signature, signature.count, message, message.count) == 1
    }

    /// Converts OpenSSL's DER to R and S, 32 bytes each, big endian (RFC 7518 §3.4).
    static func fixedForm(ofDER der: [UInt8]) throws(TLSError) -> [UInt8] {
        let half = PublicKey.coordinateBytes
        let parsed = unsafe der.withUnsafeBufferPointer { buffer in
            var cursor = buffer.baseAddress
            return unsafe d2i_ECDSA_SIG(nil, &cursor, buffer.count)
        }
        guard let parsed = unsafe parsed else { throw TLSError(.keyUnsuitable, "not an ECDSA signature") }
        defer { unsafe ECDSA_SIG_free(parsed) }
        var bytes = [UInt8](repeating: 0, count: 2 * half)
        let done = unsafe bytes.withUnsafeMutableBufferPointer { buffer in
            let second = unsafe buffer.baseAddress.map { unsafe $0 + half }
            return unsafe BN_bn2binpad(ECDSA_SIG_get0_r(parsed), buffer.baseAddress, CInt(half)) == CInt(half)
                && BN_bn2binpad(ECDSA_SIG_get0_s(parsed), second, CInt(half)) == CInt(half)
        }
        precondition(done, "R and S of P-256 fit 32 bytes")
        return bytes
    }

    /// Converts R and S, 32 bytes each, to DER.
    static func der(ofFixedForm bytes: [UInt8]) -> [UInt8] {
        let half = PublicKey.coordinateBytes
        precondition(bytes.count == 2 * half, "R and S have 32 bytes each")
        let numbers = unsafe bytes.withUnsafeBufferPointer { buffer in
            let second = unsafe buffer.baseAddress.map { unsafe $0 + half }
            return unsafe (
                BN_bin2bn(buffer.baseAddress, CInt(half), nil), BN_bin2bn(second, CInt(half), nil)
            )
        }
        guard let signature = unsafe ECDSA_SIG_new(), unsafe ECDSA_SIG_set0(signature, numbers.0, numbers.1) == 1
        else { preconditionFailure("OpenSSL could not allocate a signature") }
        defer { unsafe ECDSA_SIG_free(signature) }
        var start: UnsafeMutablePointer<UInt8>?
        let count = unsafe i2d_ECDSA_SIG(signature, &start)
        defer { unsafe COpenSSL_free(start) }
        precondition(count > 0, "R and S can be written")
        return unsafe [UInt8](UnsafeBufferPointer(start: start, count: Int(count)))
    }
}
