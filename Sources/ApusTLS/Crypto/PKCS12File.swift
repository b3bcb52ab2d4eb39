internal import COpenSSL

/// Reads and writes PKCS#12 (RFC 7292).
enum PKCS12File {
    /// A library that supports the old ciphers too. It is separate from the process's own, so that nothing else can use them.
    private nonisolated(unsafe) static let legacyLibrary: OpaquePointer? = {
        guard let library = unsafe OSSL_LIB_CTX_new() else { return nil }
        // Where the system has no legacy module, newer files can still be read.
        _ = unsafe OSSL_PROVIDER_load(library, "default")
        _ = unsafe OSSL_PROVIDER_load(library, "legacy")
        ErrorQueue.clear()
        return unsafe library
    }()

    static func open(_ bytes: [UInt8], password: String) throws(TLSError) -> ([Certificate], KeyHandle) {
        ErrorQueue.clear()
        var file = unsafe PKCS12_init_ex(NID_pkcs7_data, Self.legacyLibrary, nil)
        let read = unsafe MemoryBIO.reading(bytes) { bio in unsafe d2i_PKCS12_bio(bio, &file) }
        defer { unsafe PKCS12_free(file) }
        guard unsafe read != nil else { throw TLSError(.invalidPKCS12, ErrorQueue.drain("not a PKCS#12 file")) }
        var key: OpaquePointer?
        var own: OpaquePointer?
        var others: OpaquePointer?
        let parsed = unsafe PKCS12_parse(file, password, &key, &own, &others)
        defer {
            unsafe EVP_PKEY_free(key)
            unsafe COpenSSL_sk_X509_pop_free(others)
        }
        guard parsed == 1 else {
            throw TLSError(.invalidPKCS12, ErrorQueue.drain("the file cannot be opened with this password"))
        }
        guard let own = unsafe own else { throw TLSError(.invalidPKCS12, "the file has no certificate for its key") }
        var certificates = unsafe [Certificate(owning: own)]
        for index in 0..<max(0, unsafe COpenSSL_sk_X509_num(others)) {
            guard let other = unsafe COpenSSL_sk_X509_value(others, index) else { continue }
            _ = unsafe X509_up_ref(other)
            certificates.append(unsafe Certificate(owning: other))
        }
        guard let key = unsafe key else { throw TLSError(.invalidPKCS12, "the file has no private key") }
        return (certificates.map(Self.movedToDefaultLibrary), try unsafe Self.movedToDefaultLibrary(key))
    }

    static func make(
        certificates: [Certificate],
        key: KeyHandle,
        password: String,
    ) throws(TLSError) -> [UInt8] {
        ErrorQueue.clear()
        let others = unsafe OPENSSL_sk_new_null()
        defer { unsafe OPENSSL_sk_free(others) }
        for certificate in certificates.dropFirst() {
            _ = unsafe OPENSSL_sk_push(others, UnsafeRawPointer(certificate.raw))
        }
        let file = unsafe PKCS12_create(password, nil, key.raw, certificates[0].raw, others, 0, 0, 0, 0, 0)
        defer { unsafe PKCS12_free(file) }
        let bytes = unsafe MemoryBIO.written { bio in unsafe file != nil && i2d_PKCS12_bio(bio, file) == 1 }
        guard let bytes else { throw TLSError(.invalidPKCS12, ErrorQueue.drain("the file was not made")) }
        return bytes
    }

    /// Copies an object from the library with the old ciphers; handshakes use the process's own library.
    private static func movedToDefaultLibrary(_ certificate: Certificate) -> Certificate {
        let moved = unsafe MemoryBIO.reading(certificate.der) { bio in unsafe d2i_X509_bio(bio, nil) }
        guard let moved = unsafe moved else { preconditionFailure("a certificate can be read again") }
        return unsafe Certificate(owning: moved)
    }

    private static func movedToDefaultLibrary(_ key: OpaquePointer) throws(TLSError) -> KeyHandle {
        var der = unsafe MemoryBIO.written { bio in unsafe i2d_PrivateKey_bio(bio, key) == 1 } ?? []
        defer { SecretBytes.wipe(&der) }
        let moved = unsafe MemoryBIO.reading(der) { bio in unsafe d2i_PrivateKey_bio(bio, nil) }
        guard let moved = unsafe moved else {
            throw TLSError(.invalidPKCS12, ErrorQueue.drain("the private key is of an unknown kind"))
        }
        return unsafe KeyHandle(owning: moved)
    }
}
