internal import COpenSSL

/// AES-128 in Galois/counter mode (NIST SP 800-38D), as the `aes128gcm` content coding uses it (RFC 8188).
package enum AES128GCM {
    /// The length of a key, in bytes.
    package static let keyBytes = 16
    /// The length of a nonce, in bytes. A nonce must never be used twice with one key.
    package static let nonceBytes = 12
    /// The length of the tag behind the ciphertext, in bytes.
    package static let tagBytes = 16

    /// Returns the ciphertext with its tag behind it.
    package static func seal(_ plaintext: [UInt8], key: [UInt8], nonce: [UInt8]) -> [UInt8] {
        precondition(key.count == Self.keyBytes, "an AES-128 key has 16 bytes")
        precondition(nonce.count == Self.nonceBytes, "a GCM nonce has 12 bytes")
        guard let cipher = unsafe EVP_CIPHER_CTX_new() else { preconditionFailure("OpenSSL could not allocate") }
        defer { unsafe EVP_CIPHER_CTX_free(cipher) }
        let total = plaintext.count + Self.tagBytes
        return unsafe [UInt8](unsafeUninitializedCapacity: total) { buffer, count in
            var written: CInt = 0
            var finished: CInt = 0
            let tag = unsafe buffer.baseAddress.map { unsafe $0 + plaintext.count }
            let done =
                unsafe EVP_EncryptInit_ex(cipher, EVP_aes_128_gcm(), nil, key, nonce) == 1
                && EVP_EncryptUpdate(cipher, buffer.baseAddress, &written, plaintext, CInt(plaintext.count)) == 1
                && EVP_EncryptFinal_ex(cipher, tag, &finished) == 1
                && EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_GET_TAG, CInt(Self.tagBytes), tag) == 1
            precondition(done && Int(written) == plaintext.count, "AES-128-GCM failed")
            count = total
        }
    }

    /// Returns the plaintext of a result of `seal`. Throws `decryptionFailed` if a byte was altered.
    package static func open(_ sealed: [UInt8], key: [UInt8], nonce: [UInt8]) throws(TLSError) -> [UInt8] {
        precondition(key.count == Self.keyBytes, "an AES-128 key has 16 bytes")
        precondition(nonce.count == Self.nonceBytes, "a GCM nonce has 12 bytes")
        guard sealed.count >= Self.tagBytes else { throw TLSError(.decryptionFailed, "shorter than its tag") }
        guard let cipher = unsafe EVP_CIPHER_CTX_new() else { throw TLSError(.outOfMemory, "no cipher") }
        defer { unsafe EVP_CIPHER_CTX_free(cipher) }
        let length = sealed.count - Self.tagBytes
        var tag = Array(sealed[length...])
        var authentic = false
        let plaintext = unsafe [UInt8](unsafeUninitializedCapacity: max(length, 1)) { buffer, count in
            var written: CInt = 0
            var finished: CInt = 0
            let end = unsafe buffer.baseAddress.map { unsafe $0 + length }
            authentic =
                unsafe EVP_DecryptInit_ex(cipher, EVP_aes_128_gcm(), nil, key, nonce) == 1
                && EVP_DecryptUpdate(cipher, buffer.baseAddress, &written, sealed, CInt(length)) == 1
                && EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_SET_TAG, CInt(Self.tagBytes), &tag) == 1
                && EVP_DecryptFinal_ex(cipher, end, &finished) == 1
            count = length
        }
        guard authentic else { throw TLSError(.decryptionFailed, "the tag does not match") }
        return plaintext
    }
}
