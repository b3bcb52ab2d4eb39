internal import COpenSSL

extension TLSError {
    /// Reasons of OpenSSL from here on are alerts of the peer: their number (RFC 8446 §6) plus this.
    private static let alertReasonBase: CInt = 1_000

    /// Makes the error that ended a connection from the error queue and the result of verification.
    static func ofConnection(_ ssl: OpaquePointer, error: CInt, handshaking: Bool) -> TLSError {
        let packed = ERR_peek_error()
        let reason = CInt(truncatingIfNeeded: packed & 0x7f_ffff)
        let isTLS = packed >> 23 & 0xff == UInt(ERR_LIB_SSL)
        let text = ErrorQueue.drain(handshaking ? "the handshake failed" : "the connection failed")
        guard isTLS else { return TLSError(.protocolViolation, text) }
        switch reason {
        case SSL_R_CERTIFICATE_VERIFY_FAILED: return unsafe Self.ofVerification(SSL_get_verify_result(ssl))
        case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
            return TLSError(.certificateVerificationFailed, "the peer showed no certificate", verification: .missing)
        case SSL_R_NO_APPLICATION_PROTOCOL, alertReasonBase + SSL_AD_NO_APPLICATION_PROTOCOL:
            return TLSError(.noCommonApplicationProtocol, text)
        case SSL_R_UNSUPPORTED_PROTOCOL, SSL_R_VERSION_TOO_LOW, SSL_R_UNKNOWN_PROTOCOL,
            alertReasonBase + SSL_AD_PROTOCOL_VERSION:
            return TLSError(.protocolVersionUnsupported, text)
        case alertReasonBase...(alertReasonBase + 255):
            return TLSError(.peerAlert, text, alert: UInt8(reason - alertReasonBase))
        default: return TLSError(.protocolViolation, text)
        }
    }

    private static func ofVerification(_ result: Int) -> TLSError {
        let text = unsafe String(cString: X509_verify_cert_error_string(result))
        let verification: Verification =
            switch CInt(truncatingIfNeeded: result) {
            case X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH: .nameMismatch
            case X509_V_ERR_CERT_HAS_EXPIRED: .expired
            case X509_V_ERR_CERT_NOT_YET_VALID: .notYetValid
            case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT: .selfSigned
            case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT,
                X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE,
                X509_V_ERR_CERT_UNTRUSTED:
                .unknownIssuer
            case X509_V_ERR_INVALID_PURPOSE, X509_V_ERR_INVALID_CA, X509_V_ERR_KEYUSAGE_NO_CERTSIGN,
                X509_V_ERR_PATH_LENGTH_EXCEEDED:
                .invalidPurpose
            case X509_V_ERR_CERT_REVOKED: .revoked
            default: .other
            }
        return TLSError(.certificateVerificationFailed, text, verification: verification)
    }
}
