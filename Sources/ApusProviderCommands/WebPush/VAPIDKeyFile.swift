internal import ApusCore
internal import ApusTLS
internal import ApusTerminal
internal import Glibc

/// Makes files of VAPID keys (RFC 8292).
package enum VAPIDKeyFile {
    /// Makes a key and writes it in PEM to a new file that only its owner may read.
    ///
    /// - Returns: the public point in base64url.
    package static func create(_ path: String) throws -> String {
        let key: PrivateKey
        do throws(TLSError) { key = try PrivateKey.generate(.p256) } catch {
            throw CommandFailure("no key could be made: \(error)")
        }
        guard let point = key.publicKey.uncompressedPoint else { throw CommandFailure("no key could be made") }
        let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw CommandFailure(
                errno == EEXIST
                    ? "\(path) exists already: a key that browsers have subscribed with must not be lost"
                    : "\(path) cannot be written: \(unsafe String(cString: strerror(errno)))"
            )
        }
        defer { close(descriptor) }
        let pem = Array(key.pem.utf8)
        let count = unsafe pem.withUnsafeBytes { bytes in unsafe write(descriptor, bytes.baseAddress, bytes.count) }
        guard count == pem.count, fsync(descriptor) == 0 else {
            throw CommandFailure("\(path) cannot be written: \(unsafe String(cString: strerror(errno)))")
        }
        return Base64URL.encode(point)
    }
}
