extension TLSError {
    /// The alerts that are about the certificate of whoever receives them.
    private static let certificateAlerts: [UInt8: String] = [
        42: "bad_certificate", 43: "unsupported_certificate", 44: "certificate_revoked", 45: "certificate_expired",
        46: "certificate_unknown", 48: "unknown_ca", 49: "access_denied", 116: "certificate_required",
    ]

    /// The name of the alert by which the peer refuses our certificate, or to go on without one; nil for all other errors.
    ///
    /// Source: https://www.rfc-editor.org/rfc/rfc8446#section-6
    package var certificateAlert: String? { self.alert.flatMap { Self.certificateAlerts[$0] } }

    /// Describes for a person what is wrong between us and a server, and what mends it, without the names of codes.
    package var explanation: String {
        switch self.code {
        case .certificateVerificationFailed: "its certificate is refused: \(self.refusal)"
        case .protocolVersionUnsupported: "it offers neither TLS 1.2 nor 1.3; let it offer one of them"
        case .noCommonApplicationProtocol: "it agrees to no protocol that we offer (ALPN)"
        case .peerAlert:
            "it ended the handshake with an alert (\(self.message)); its log says why, such as a client certificate that it wants"
        case .protocolViolation:
            "what answers there does not speak TLS (\(self.message)); check the port, and whether TLS is switched on there"
        case .closedDuringHandshake: "it ended the connection during the handshake; check that the port speaks TLS"
        case .handshakeTimedOut: "it did not finish the handshake in time; check that the port speaks TLS"
        case .invalidServerName: "\(self.message); a certificate is valid for a host name or an IP address"
        default: self.message
        }
    }

    /// Describes why the certificate is refused, and what mends it: a sentence whose subject is the certificate.
    package var refusal: String {
        switch self.verification {
        case .nameMismatch: "it is for another name; connect by a name that it has, or issue one for this name"
        case .expired: "it has expired; renew it, or set this machine's clock right"
        case .notYetValid: "it is not valid yet; set the clocks of both machines right"
        case .selfSigned: "it is signed by itself and not trusted here; name its file as the authority that is trusted"
        case .unknownIssuer:
            "its issuer is not trusted here; name that authority's file as trusted, "
                + "and let the server send its intermediate certificates"
        case .invalidPurpose: "it must not be used by a server; issue one with that purpose"
        case .revoked: "it was revoked; issue another"
        case .missing: "the server showed none; check that the port speaks TLS"
        case .other, nil: self.message
        }
    }
}
