internal import COpenSSL

/// Computes SHA-256 (FIPS 180-4), at once or piece by piece.
@safe package struct SHA256: ~Copyable {
    /// The length of a hash, in bytes.
    package static let bytesCount = 32

    /// The algorithm, fetched once: a look-up costs more than hashing a short text.
    private nonisolated(unsafe) static let algorithm: OpaquePointer = {
        guard let algorithm = unsafe EVP_MD_fetch(nil, "SHA256", nil) else {
            preconditionFailure("this OpenSSL has no SHA-256")
        }
        return unsafe algorithm
    }()

    private let raw: OpaquePointer

    /// Creates a hash of no bytes.
    package init() {
        guard let raw = unsafe EVP_MD_CTX_new() else { preconditionFailure("OpenSSL could not allocate a hash") }
        unsafe self.raw = raw
        self.restart()
    }

    deinit { unsafe EVP_MD_CTX_free(self.raw) }

    private func restart() {
        let code = unsafe EVP_DigestInit_ex2(self.raw, Self.algorithm, nil)
        precondition(code == 1, "SHA-256 did not start")
    }

    /// Adds bytes.
    package mutating func update(_ bytes: Span<UInt8>) {
        let code = unsafe bytes.withUnsafeBufferPointer { buffer in
            unsafe EVP_DigestUpdate(self.raw, buffer.baseAddress, buffer.count)
        }
        precondition(code == 1, "SHA-256 did not take bytes")
    }

    /// Adds bytes.
    package mutating func update(_ bytes: [UInt8]) { self.update(bytes.span) }

    /// Adds a text's UTF-8 bytes.
    package mutating func update(utf8 text: String) { self.update(text.utf8.span) }

    /// Returns the hash, 32 bytes; afterwards the value can be reused for another hash.
    package mutating func finish() -> [UInt8] {
        let hash = unsafe [UInt8](unsafeUninitializedCapacity: Self.bytesCount) { buffer, count in
            let code = unsafe EVP_DigestFinal_ex(self.raw, buffer.baseAddress, nil)
            precondition(code == 1, "SHA-256 did not finish")
            count = Self.bytesCount
        }
        self.restart()
        return hash
    }

    /// Returns the hash of the concatenated parts.
    package static func hash(_ parts: [UInt8]...) -> [UInt8] {
        if parts.count == 1, let only = parts.first { return Self.hash(only.span) }
        var hash = SHA256()
        for part in parts { hash.update(part.span) }
        return hash.finish()
    }

    /// Returns the hash of bytes.
    package static func hash(_ bytes: Span<UInt8>) -> [UInt8] {
        unsafe bytes.withUnsafeBufferPointer { bytes in
            unsafe [UInt8](unsafeUninitializedCapacity: Self.bytesCount) { hash, count in
                let code = unsafe EVP_Digest(bytes.baseAddress, bytes.count, hash.baseAddress, nil, Self.algorithm, nil)
                precondition(code == 1, "SHA-256 did not hash")
                count = Self.bytesCount
            }
        }
    }

    /// Returns the hash of a text's UTF-8 bytes.
    package static func hash(utf8 text: String) -> [UInt8] { Self.hash(text.utf8.span) }
}
