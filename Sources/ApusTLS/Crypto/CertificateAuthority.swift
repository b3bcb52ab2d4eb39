package import ApusCore
internal import COpenSSL

/// A window of time in which a certificate is valid.
package struct CertificateValidity: Hashable, Sendable {
    /// From when on.
    package let notBefore: UnixMilliseconds
    /// Until when.
    package let notAfter: UnixMilliseconds

    /// From one time until another; whole seconds count.
    package init(from notBefore: UnixMilliseconds, until notAfter: UnixMilliseconds) {
        precondition(notBefore < notAfter, "a certificate's validity ends after it starts")
        self.notBefore = notBefore
        self.notAfter = notAfter
    }

    /// From an hour before `now`, because clocks differ, for that many days.
    package init(days: Int64 = 30, from now: UnixMilliseconds) {
        self.init(
            from: now.advanced(byMilliseconds: -3_600_000),
            until: now.advanced(byMilliseconds: days * 86_400_000),
        )
    }
}

/// What a certificate is issued for.
package struct CertificateProfile: Sendable {
    /// Which end of a connection the certificate is for.
    package enum Purpose: String, Sendable {
        /// A server proves its name.
        case server = "serverAuth"
        /// A client proves who it is.
        case client = "clientAuth"
    }

    /// Which end it is for.
    package var purpose: Purpose
    /// The subject's common name, for people.
    package var commonName: String
    /// Names it is valid for; the first label may be `*`. Nothing is checked, so that abuse can be tested.
    package var dnsNames: [String]
    /// Addresses it is valid for, IPv4 or IPv6.
    package var ipAddresses: [String]
    /// The subject's UID attribute; a push certificate's topic.
    package var userID: String?
    /// The time at which it is valid.
    package var validity: CertificateValidity
    /// What else it says.
    package var extensions: [CertificateExtension] = []

    package init(
        _ purpose: Purpose,
        commonName: String,
        dnsNames: [String] = [],
        ipAddresses: [String] = [],
        userID: String? = nil,
        validity: CertificateValidity,
    ) {
        self.purpose = purpose
        self.commonName = commonName
        self.dnsNames = dnsNames
        self.ipAddresses = ipAddresses
        self.userID = userID
        self.validity = validity
    }
}

/// A certificate authority of one process, on P-256: for the simulator, the demo and tests.
package final class CertificateAuthority: Sendable {
    private let certificate: Certificate
    private let key: PrivateKey
    /// The intermediates between this authority and its root, this one first; empty for a root.
    private let intermediates: [Certificate]

    /// Creates a new root that vouches for itself.
    package convenience init(name: String, validity: CertificateValidity) throws(TLSError) {
        let key = try PrivateKey.generate(.p256)
        let builder = try CertificateBuilder(subject: name, userID: nil, key: key, validity: validity)
        try builder.addAuthorityExtensions()
        let certificate = try builder.signed(by: key, issuer: nil)
        self.init(certificate: certificate, key: key, intermediates: [])
    }

    private init(certificate: Certificate, key: PrivateKey, intermediates: [Certificate]) {
        self.certificate = certificate
        self.key = key
        self.intermediates = intermediates
    }

    /// What peers have to trust (for a root), in PEM.
    package var certificatePEM: String { self.certificate.pem }

    /// An authority that this one vouches for; what it issues carries it along in the chain.
    package func intermediate(name: String, validity: CertificateValidity) throws(TLSError) -> CertificateAuthority {
        let key = try PrivateKey.generate(.p256)
        let builder = try CertificateBuilder(subject: name, userID: nil, key: key, validity: validity)
        try builder.addAuthorityExtensions()
        let certificate = try builder.signed(by: self.key, issuer: self.certificate)
        return CertificateAuthority(
            certificate: certificate,
            key: key,
            intermediates: [certificate] + self.intermediates,
        )
    }

    /// A certificate with its chain (without the root), and its key: a new P-256 one unless given.
    package func issue(_ profile: CertificateProfile, key: PrivateKey? = nil) throws(TLSError) -> TLSIdentity {
        let key = if let key { key } else { try PrivateKey.generate(.p256) }
        let builder = try CertificateBuilder(
            subject: profile.commonName,
            userID: profile.userID,
            key: key,
            validity: profile.validity,
        )
        try builder.addLeafExtensions(profile)
        let certificate = try builder.signed(by: self.key, issuer: self.certificate)
        return try TLSIdentity(certificates: [certificate] + self.intermediates, key: key.handle)
    }
}
