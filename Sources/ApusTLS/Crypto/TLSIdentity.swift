internal import COpenSSL

/// Holds a certificate chain with the private key of its first certificate.
package struct TLSIdentity: Sendable {
    /// The maximum bytes of a PKCS#12 file.
    package static let pkcs12BytesMax = 1_024 * 1_024

    let key: KeyHandle

    /// The own certificate first, then its intermediates; the root may be omitted.
    package let certificates: [Certificate]

    /// Parses PEM texts: the own certificate first, then intermediates; an unencrypted key of any kind that TLS supports.
    ///
    /// Throws `invalidCertificate` (also when key and certificate do not belong together), `invalidKey`,
    /// `keyEncrypted`.
    package init(certificateChainPEM: String, privateKeyPEM: String) throws(TLSError) {
        try self.init(
            certificates: Certificate.all(pem: certificateChainPEM),
            key: KeyHandle.privateKey(pem: Array(privateKeyPEM.utf8)),
        )
    }

    /// Parses a PKCS#12 file (`.p12`), also in the old encryptions (RC2-40, 3DES) that keychains export.
    ///
    /// Throws `invalidPKCS12` if it is not one, the password is wrong, or it holds no key.
    package init(pkcs12: [UInt8], password: String) throws(TLSError) {
        guard pkcs12.count <= Self.pkcs12BytesMax else { throw TLSError(.invalidPKCS12, "the file is too large") }
        let (certificates, key) = try PKCS12File.open(pkcs12, password: password)
        try self.init(certificates: certificates, key: key)
    }

    init(certificates: [Certificate], key: KeyHandle) throws(TLSError) {
        precondition(!certificates.isEmpty, "an identity has a certificate")
        let fits = unsafe X509_check_private_key(certificates[0].raw, key.raw) == 1
        ErrorQueue.clear()
        guard fits else {
            throw TLSError(.invalidCertificate, "the private key is not that of the first certificate")
        }
        self.certificates = certificates
        self.key = key
    }

    /// The own certificate, with its expiry and subject.
    package var certificate: Certificate { self.certificates[0] }

    /// The own certificate and the intermediates in PEM.
    package var certificateChainPEM: String { self.certificates.map(\.pem).joined() }

    /// The key as unencrypted PKCS#8 in PEM. The text is a secret.
    package var privateKeyPEM: String { self.key.privatePEM }

    /// Returns the own certificate, intermediates and key as a PKCS#12 file under a password, in a modern encryption (AES-256).
    package func pkcs12(password: String) throws(TLSError) -> [UInt8] {
        try PKCS12File.make(certificates: self.certificates, key: self.key, password: password)
    }
}
