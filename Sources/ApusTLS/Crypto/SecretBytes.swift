internal import COpenSSL

/// Wipes memory that held a secret.
package enum SecretBytes {
    /// Overwrites the bytes with zeros, in a way that no optimiser removes, and empties the array.
    ///
    /// Other copies of the array are not reached: wipe the original, before it is shared.
    package static func wipe(_ bytes: inout [UInt8]) {
        unsafe bytes.withUnsafeMutableBufferPointer { buffer in
            unsafe OPENSSL_cleanse(buffer.baseAddress, buffer.count)
        }
        bytes.removeAll()
    }
}

/// Compares secrets in constant time.
package enum ConstantTime {
    /// Returns true when both hold the same bytes. The time depends on the lengths only, never on where they differ.
    package static func equals(_ one: [UInt8], _ other: [UInt8]) -> Bool {
        guard one.count == other.count else { return false }
        return unsafe CRYPTO_memcmp(one, other, one.count) == 0
    }
}

/// Generates random bytes for keys, salts and nonces.
package enum SecureRandom {
    /// Returns random bytes. Traps if the system has no randomness, since there is no safe alternative.
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
