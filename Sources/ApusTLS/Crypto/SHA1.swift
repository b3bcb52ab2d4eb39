internal import COpenSSL

/// Computes SHA-1 (FIPS 180-4), for what must agree with others who have no better hash. It withstands no attacker.
package enum SHA1 {
    /// The length of a hash, in bytes.
    package static let bytesCount = 20

    /// The algorithm, fetched once: a look-up costs more than hashing a short text.
    private nonisolated(unsafe) static let algorithm: OpaquePointer = {
        guard let algorithm = unsafe EVP_MD_fetch(nil, "SHA1", nil) else {
            preconditionFailure("this OpenSSL has no SHA-1")
        }
        return unsafe algorithm
    }()

    /// Returns the hash of bytes.
    package static func hash(_ bytes: Span<UInt8>) -> [UInt8] {
        unsafe bytes.withUnsafeBufferPointer { bytes in
            unsafe [UInt8](unsafeUninitializedCapacity: Self.bytesCount) { hash, count in
                let code = unsafe EVP_Digest(bytes.baseAddress, bytes.count, hash.baseAddress, nil, Self.algorithm, nil)
                precondition(code == 1, "SHA-1 did not hash")
                count = Self.bytesCount
            }
        }
    }
}
