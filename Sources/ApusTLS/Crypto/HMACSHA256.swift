internal import COpenSSL

/// Computes HMAC with SHA-256 (RFC 2104): proves that a message was written by a holder of a secret.
package enum HMACSHA256 {
    /// The length of a code, in bytes.
    package static let bytesCount = 32

    /// Returns the code of the concatenated parts.
    package static func authenticate(_ parts: [UInt8]..., key: [UInt8]) -> [UInt8] {
        let message = parts.count == 1 ? parts[0] : Array(parts.joined())
        // A null key would mean "the key of the last call" to OpenSSL: an empty one gets an address as well.
        var padded = key.isEmpty ? [0] : key
        defer { SecretBytes.wipe(&padded) }
        return unsafe [UInt8](unsafeUninitializedCapacity: Self.bytesCount) { buffer, count in
            var length: CUnsignedInt = 0
            let code = unsafe HMAC(
                EVP_sha256(),
                padded,
                CInt(key.count),
                message,
                message.count,
                buffer.baseAddress,
                &length,
            )
            precondition(unsafe code != nil && length == Self.bytesCount, "HMAC-SHA-256 failed")
            count = Self.bytesCount
        }
    }

    /// Returns true when `code` is that of the parts; the time does not depend on where they differ.
    package static func verify(_ code: [UInt8], of parts: [UInt8]..., key: [UInt8]) -> Bool {
        ConstantTime.equals(Self.authenticate(Array(parts.joined()), key: key), code)
    }
}
