internal import COpenSSL

/// Comparison of secrets.
package enum ConstantTime {
    /// Whether both hold the same bytes. The time depends on the lengths only, never on where they differ.
    package static func equals(_ one: [UInt8], _ other: [UInt8]) -> Bool {
        guard one.count == other.count else { return false }
        return unsafe CRYPTO_memcmp(one, other, one.count) == 0
    }
}
