internal import COpenSSL

/// Reports an error of a key, a token, a certificate, a handshake or a connection.
package struct TLSError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The kinds of failures: a closed set, fit for a metric's label.
    package struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Kind: String {
            case outOfMemory
            case invalidKey
            case keyEncrypted
            case keyUnsuitable
            case invalidCertificate
            case invalidPKCS12
            case trustUnavailable
            case invalidServerName
            case tokenMalformed
            case tokenAlgorithmWrong
            case tokenSignatureWrong
            case decryptionFailed
            case certificateVerificationFailed
            case protocolVersionUnsupported
            case noCommonApplicationProtocol
            case peerAlert
            case protocolViolation
            case closedDuringHandshake
            case handshakeTimedOut
            case closedWithoutCloseNotify
            case closed
            case bufferFull
        }

        private let kind: Kind

        /// OpenSSL could not allocate memory.
        package static let outOfMemory = Code(kind: .outOfMemory)
        /// The bytes are not a key, or not a valid one.
        package static let invalidKey = Code(kind: .invalidKey)
        /// The private key is encrypted; keys are read unencrypted only.
        package static let keyEncrypted = Code(kind: .keyEncrypted)
        /// The key is valid, but of a kind or size that this use does not allow.
        package static let keyUnsuitable = Code(kind: .keyUnsuitable)
        /// The bytes are not a certificate, or it does not belong to its key.
        package static let invalidCertificate = Code(kind: .invalidCertificate)
        /// The bytes are not a PKCS#12 file, the password is wrong, or the file holds no key.
        package static let invalidPKCS12 = Code(kind: .invalidPKCS12)
        /// The trusted certificates cannot be read.
        package static let trustUnavailable = Code(kind: .trustUnavailable)
        /// The name is neither a host name nor an IP address.
        package static let invalidServerName = Code(kind: .invalidServerName)
        /// The text is not a compact JWS, or too long.
        package static let tokenMalformed = Code(kind: .tokenMalformed)
        /// The token names another algorithm than the caller requires.
        package static let tokenAlgorithmWrong = Code(kind: .tokenAlgorithmWrong)
        /// The token's signature is not by the key over its text.
        package static let tokenSignatureWrong = Code(kind: .tokenSignatureWrong)
        /// The ciphertext was altered or belongs to another key.
        package static let decryptionFailed = Code(kind: .decryptionFailed)
        /// The peer's certificate is refused; `TLSError.verification` says why.
        package static let certificateVerificationFailed = Code(kind: .certificateVerificationFailed)
        /// The peer supports no common TLS version.
        package static let protocolVersionUnsupported = Code(kind: .protocolVersionUnsupported)
        /// The peers have no application protocol (ALPN) in common.
        package static let noCommonApplicationProtocol = Code(kind: .noCommonApplicationProtocol)
        /// The peer refused us with an alert; the message names it.
        package static let peerAlert = Code(kind: .peerAlert)
        /// The peer's bytes are not TLS, or were altered.
        package static let protocolViolation = Code(kind: .protocolViolation)
        /// The connection ended before the handshake did.
        package static let closedDuringHandshake = Code(kind: .closedDuringHandshake)
        /// The handshake took too long.
        package static let handshakeTimedOut = Code(kind: .handshakeTimedOut)
        /// The connection ended without a close_notify from the peer: the received data may be truncated.
        package static let closedWithoutCloseNotify = Code(kind: .closedWithoutCloseNotify)
        /// The connection is closed for writing.
        package static let closed = Code(kind: .closed)
        /// The plaintext that waits for the handshake exceeds its limit.
        package static let bufferFull = Code(kind: .bufferFull)

        /// The name of the code.
        package var description: String { self.kind.rawValue }
    }

    /// The reasons for refusing a certificate: a closed set, fit for a metric's label.
    package enum Verification: String, Sendable, CaseIterable {
        /// The certificate is for other names or addresses.
        case nameMismatch
        /// The certificate has expired.
        case expired
        /// The certificate is not valid yet.
        case notYetValid
        /// The certificate is self-signed and not trusted.
        case selfSigned
        /// The issuer is unknown: an untrusted authority, or an intermediate that was not sent.
        case unknownIssuer
        /// The certificate must not be used for this: a client's as a server's, a leaf as an authority.
        case invalidPurpose
        /// The certificate was revoked.
        case revoked
        /// No certificate was sent.
        case missing
        /// Any other reason; the message has OpenSSL's text.
        case other
    }

    /// The kind of failure.
    package let code: Code
    /// The reason why the certificate was refused; nil for other codes.
    package let verification: Verification?
    /// The number of the peer's alert; nil for other codes.
    package let alert: UInt8?
    /// The message for an operator. It never has key material.
    package let message: String

    package init(_ code: Code, _ message: String, verification: Verification? = nil, alert: UInt8? = nil) {
        self.code = code
        self.message = message
        self.verification = verification
        self.alert = alert
    }

    /// The code, reason and message in one line.
    package var description: String {
        guard let verification = self.verification else { return "\(self.code): \(self.message)" }
        return "\(self.code) (\(verification.rawValue)): \(self.message)"
    }
}

/// Accesses OpenSSL's error queue of the calling thread.
///
/// The queue is per thread: clear, call and drain must be in one function, without an `await` between.
enum ErrorQueue {
    /// Removes older errors, so that the queue has only those of the next call.
    static func clear() { ERR_clear_error() }

    /// Removes all errors and returns the text of the first, which is the cause, or `fallback` when there is none.
    static func drain(_ fallback: String) -> String {
        let code = ERR_get_error()
        ERR_clear_error()
        guard code != 0, let text = unsafe ERR_reason_error_string(code) else { return fallback }
        return unsafe fallback + ": " + String(cString: text)
    }
}
