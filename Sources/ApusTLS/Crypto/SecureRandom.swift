internal import COpenSSL

/// Random bytes fit for keys, salts and nonces.
package enum SecureRandom {
    /// That many bytes. Traps if the system has no randomness: there is no safe way on.
    package static func bytes(_ count: Int) -> [UInt8] {
        precondition(count >= 0, "a count of bytes is not negative")
        guard count > 0 else { return [] }
        return unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            let code = unsafe RAND_bytes(buffer.baseAddress, CInt(count))
            precondition(code == 1, "no secure randomness")
            initialized = count
        }
    }
}
