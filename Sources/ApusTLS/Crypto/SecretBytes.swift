internal import COpenSSL

/// Care for memory that held a secret.
package enum SecretBytes {
    /// Overwrites the bytes with zeros, in a way that no optimiser drops, and empties the array.
    ///
    /// Other copies of the array are not reached: wipe the one that was read, before it is shared.
    package static func wipe(_ bytes: inout [UInt8]) {
        unsafe bytes.withUnsafeMutableBufferPointer { buffer in
            unsafe OPENSSL_cleanse(buffer.baseAddress, buffer.count)
        }
        bytes.removeAll()
    }
}
