internal import COpenSSL

/// HMAC with SHA-256 (RFC 2104): proves that a message was written by somebody who knows a secret.
package enum HMACSHA256 {
    /// Length of a code, in bytes.
    package static let bytesCount = 32

    /// The code of the parts one after another.
    package static func authenticate(_ parts: [UInt8]..., key: [UInt8]) -> [UInt8] {
        let message = parts.count == 1 ? parts[0] : Array(parts.joined())
        // A null key would mean "the key of the last call" to OpenSSL: an empty one gets an address all the same.
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

    /// Returns true when `code` is that of the parts; takes as long for a near miss as for any.
    package static func verify(_ code: [UInt8], of parts: [UInt8]..., key: [UInt8]) -> Bool {
        ConstantTime.equals(Self.authenticate(Array(parts.joined()), key: key), code)
    }
}
