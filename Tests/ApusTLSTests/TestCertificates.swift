import ApusCore
import ApusTLS
import Foundation

/// Certificates of today for tests that shake hands: verification looks at the real clock.
enum TestCertificates {
    static let now = UnixMilliseconds(Int64(Date().timeIntervalSince1970 * 1_000))
    static let valid = CertificateValidity(from: now)
    static let over = CertificateValidity(
        from: now.advanced(byMilliseconds: -86_400_000),
        until: now.advanced(byMilliseconds: -60_000),
    )
    static let toCome = CertificateValidity(
        from: now.advanced(byMilliseconds: 3_600_000),
        until: now.advanced(byMilliseconds: 86_400_000),
    )

    static func authority(_ name: String = "Test root") throws -> CertificateAuthority {
        try CertificateAuthority(name: name, validity: self.valid)
    }

    static func profile(
        _ purpose: CertificateProfile.Purpose = .server,
        dnsNames: [String] = ["localhost"],
        ipAddresses: [String] = ["127.0.0.1"],
        userID: String? = nil,
        validity: CertificateValidity = valid,
    ) -> CertificateProfile {
        CertificateProfile(
            purpose,
            commonName: "localhost",
            dnsNames: dnsNames,
            ipAddresses: ipAddresses,
            userID: userID,
            validity: validity,
        )
    }
}
