import Testing

@testable import ApusTLS

@Suite struct ErrorWordsTests {
    @Test(arguments: TLSError.Verification.allCases)
    func `Every reason to refuse a certificate is told in words, and not by its code`(_ reason: TLSError.Verification) {
        let error = TLSError(.certificateVerificationFailed, "the text of OpenSSL", verification: reason)
        #expect(error.explanation.hasPrefix("its certificate is refused: "))
        #expect(!error.explanation.contains(TLSError.Code.certificateVerificationFailed.description))
        #expect(reason == .other || error.refusal.contains("; "), "the cure is missing: \(error.refusal)")
        for word in ["nameMismatch", "notYetValid", "selfSigned", "unknownIssuer", "invalidPurpose"] {
            #expect(!error.explanation.contains(word))
        }
    }

    @Test(arguments: [
        (TLSError.Code.protocolViolation, "does not speak TLS"), (.peerAlert, "ended the handshake with an alert"),
        (.protocolVersionUnsupported, "neither TLS 1.2 nor 1.3"),
        (.closedDuringHandshake, "check that the port speaks TLS"),
    ])
    func `A failed handshake says what to look at`(_ code: TLSError.Code, _ words: String) {
        let error = TLSError(code, "the text of OpenSSL")
        #expect(error.explanation.contains(words) && !error.explanation.contains("\(code)"))
    }

    @Test func `An alert about a certificate has a name, and any other has none`() {
        let names = (0...UInt8.max).compactMap { TLSError(.peerAlert, "text", alert: $0).certificateAlert }
        #expect(
            names == [
                "bad_certificate", "unsupported_certificate", "certificate_revoked", "certificate_expired",
                "certificate_unknown", "unknown_ca", "access_denied", "certificate_required",
            ]
        )
        #expect(TLSError(.closed, "text").certificateAlert == nil)
    }
}
