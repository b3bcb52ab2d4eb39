package import ApusCore
internal import COpenSSL

/// The period in which a certificate is valid.
package struct CertificateValidity: Hashable, Sendable {
    /// The start of the period.
    package let notBefore: UnixMilliseconds
    /// The end of the period.
    package let notAfter: UnixMilliseconds

    /// Creates a period between two times, in whole seconds.
    package init(from notBefore: UnixMilliseconds, until notAfter: UnixMilliseconds) {
        precondition(notBefore < notAfter, "a certificate's validity ends after it starts")
        self.notBefore = notBefore
        self.notAfter = notAfter
    }

    /// Creates a period that begins an hour before `now`, because clocks differ, and lasts the given days.
    package init(days: Int64 = 30, from now: UnixMilliseconds) {
        self.init(
            from: now.advanced(byMilliseconds: -3_600_000),
            until: now.advanced(byMilliseconds: days * 86_400_000),
        )
    }
}

/// Describes a certificate to be issued.
package struct CertificateProfile: Sendable {
    /// The end of a connection that the certificate is for.
    package enum Purpose: String, Sendable {
        /// The certificate proves a server's name.
        case server = "serverAuth"
        /// The certificate proves a client's identity.
        case client = "clientAuth"
        /// The certificate does both, as nodes of a Redis Cluster need it, which connect to each other.
        case peer = "serverAuth,clientAuth"
    }

    /// The end of a connection that the certificate is for.
    package var purpose: Purpose
    /// The subject's common name, for people.
    package var commonName: String
    /// The DNS names that the certificate is valid for; the first label may be `*`. Nothing is checked, so that abuse can be tested.
    package var dnsNames: [String]
    /// The addresses that the certificate is valid for, IPv4 or IPv6.
    package var ipAddresses: [String]
    /// The subject's UID attribute; a push certificate's topic.
    package var userID: String?
    /// The period of validity.
    package var validity: CertificateValidity
    /// The further extensions.
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

/// Issues certificates within one process, on P-256: for the simulator, the demo and tests.
package final class CertificateAuthority: Sendable {
    private let certificate: Certificate
    private let key: PrivateKey
    /// The intermediates between this authority and its root, this one first; empty for a root.
    private let intermediates: [Certificate]

    /// Creates a new self-signed root.
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

    /// The certificate that peers must trust (of a root), in PEM.
    package var certificatePEM: String { self.certificate.pem }

    /// Creates an authority that this one signs; certificates that it issues carry it in their chain.
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

    /// Issues a certificate with its chain (without the root), and its key: a new P-256 one unless given.
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
