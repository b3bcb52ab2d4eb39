internal import COpenSSL

/// An error of a key, a token, a certificate, a handshake or a connection.
package struct TLSError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The kind of failure: a closed set, fit for a metric's label.
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

        /// OpenSSL could not allocate.
        package static let outOfMemory = Code(kind: .outOfMemory)
        /// Not a key, or not a valid one.
        package static let invalidKey = Code(kind: .invalidKey)
        /// A private key under a passphrase; keys are read unencrypted only.
        package static let keyEncrypted = Code(kind: .keyEncrypted)
        /// A good key of a kind or size that this use does not allow.
        package static let keyUnsuitable = Code(kind: .keyUnsuitable)
        /// Not a certificate, or one that does not belong to its key.
        package static let invalidCertificate = Code(kind: .invalidCertificate)
        /// Not a PKCS#12 file, a wrong password, or no key in it.
        package static let invalidPKCS12 = Code(kind: .invalidPKCS12)
        /// The trusted certificates cannot be read.
        package static let trustUnavailable = Code(kind: .trustUnavailable)
        /// Not a host name and not an IP address.
        package static let invalidServerName = Code(kind: .invalidServerName)
        /// Not a compact JWS, or too long.
        package static let tokenMalformed = Code(kind: .tokenMalformed)
        /// The token names another algorithm than the caller demands.
        package static let tokenAlgorithmWrong = Code(kind: .tokenAlgorithmWrong)
        /// The token's signature is not by that key over that text.
        package static let tokenSignatureWrong = Code(kind: .tokenSignatureWrong)
        /// A ciphertext was altered or belongs to another key.
        package static let decryptionFailed = Code(kind: .decryptionFailed)
        /// The peer's certificate is refused; `TLSError.verification` says why.
        package static let certificateVerificationFailed = Code(kind: .certificateVerificationFailed)
        /// The peer speaks no TLS version that we do.
        package static let protocolVersionUnsupported = Code(kind: .protocolVersionUnsupported)
        /// No application protocol (ALPN) in common.
        package static let noCommonApplicationProtocol = Code(kind: .noCommonApplicationProtocol)
        /// The peer refused us with an alert; the message names it.
        package static let peerAlert = Code(kind: .peerAlert)
        /// The peer's bytes are not TLS, or were altered.
        package static let protocolViolation = Code(kind: .protocolViolation)
        /// The connection ended before the handshake did.
        package static let closedDuringHandshake = Code(kind: .closedDuringHandshake)
        /// The handshake took too long.
        package static let handshakeTimedOut = Code(kind: .handshakeTimedOut)
        /// The connection ended without the peer saying so: what arrived may be truncated.
        package static let closedWithoutCloseNotify = Code(kind: .closedWithoutCloseNotify)
        /// Nothing can be written any more.
        package static let closed = Code(kind: .closed)
        /// More plaintext waits for the handshake than the limit allows.
        package static let bufferFull = Code(kind: .bufferFull)

        /// The name of the code.
        package var description: String { self.kind.rawValue }
    }

    /// The reason why a certificate was refused: a closed set, fit for a metric's label.
    package enum Verification: String, Sendable, CaseIterable {
        /// It is for other names or addresses.
        case nameMismatch
        /// It has expired.
        case expired
        /// It is not valid yet.
        case notYetValid
        /// It is self-signed and not trusted.
        case selfSigned
        /// Its issuer is unknown: an untrusted authority, or an intermediate that was not sent.
        case unknownIssuer
        /// It must not be used for this: a client's as a server's, a leaf as an authority.
        case invalidPurpose
        /// It was revoked.
        case revoked
        /// No certificate was sent.
        case missing
        /// Anything else; the message has OpenSSL's text.
        case other
    }

    /// The kind of failure.
    package let code: Code
    /// The reason why the certificate was refused; nil for other codes.
    package let verification: Verification?
    /// A message for an operator. Never has key material.
    package let message: String

    package init(_ code: Code, _ message: String, verification: Verification? = nil) {
        self.code = code
        self.message = message
        self.verification = verification
    }

    /// Code, reason and message in one line.
    package var description: String {
        guard let verification = self.verification else { return "\(self.code): \(self.message)" }
        return "\(self.code) (\(verification.rawValue)): \(self.message)"
    }
}

/// OpenSSL's error queue of the calling thread.
///
/// The queue is per thread: clear, call, drain must stand in one function, without an `await` between.
enum ErrorQueue {
    /// Forgets older errors, so that what the next call adds is its own.
    static func clear() { ERR_clear_error() }

    /// Takes all errors: the text of the first, which is the cause, else `fallback`.
    static func drain(_ fallback: String) -> String {
        let code = ERR_get_error()
        ERR_clear_error()
        guard code != 0, let text = unsafe ERR_reason_error_string(code) else { return fallback }
        return unsafe fallback + ": " + String(cString: text)
    }
}
