internal import ApusCore
internal import COpenSSL

/// Builds one certificate.
@safe final class CertificateBuilder {
    let raw: OpaquePointer

    init(subject: String, userID: String?, key: PrivateKey, validity: CertificateValidity) throws(TLSError) {
        ErrorQueue.clear()
        guard let raw = unsafe X509_new() else { throw TLSError(.outOfMemory, "no certificate") }
        unsafe self.raw = raw
        let serial = SecureRandom.bytes(16)
        let number = unsafe BN_bin2bn(serial, CInt(serial.count), nil)
        defer { unsafe BN_free(number) }
        let name = unsafe X509_get_subject_name(raw)
        var done =
            unsafe X509_set_version(raw, 2) == 1
            && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(raw)) != nil
            && X509_set_pubkey(raw, key.handle.raw) == 1
            && ASN1_TIME_set(X509_getm_notBefore(raw), Int(validity.notBefore.seconds)) != nil
            && ASN1_TIME_set(X509_getm_notAfter(raw), Int(validity.notAfter.seconds)) != nil
        for (attribute, text) in [(NID_commonName, subject), (NID_userId, userID)] {
            guard let text else { continue }
            let bytes = Array(text.utf8)
            let count = CInt(bytes.count)
            done =
                unsafe done && X509_NAME_add_entry_by_NID(name, attribute, MBSTRING_UTF8, bytes, count, -1, 0) == 1
        }
        guard done else { throw TLSError(.invalidCertificate, ErrorQueue.drain("no certificate was made")) }
    }

    deinit { unsafe X509_free(self.raw) }

    /// Adds the extensions of a certificate that may sign others.
    func addAuthorityExtensions() throws(TLSError) {
        try self.add(NID_basic_constraints, "critical,CA:TRUE")
        try self.add(NID_key_usage, "critical,keyCertSign,cRLSign")
        try self.add(NID_subject_key_identifier, "hash")
    }

    /// Adds the extensions of a certificate for one end of a connection.
    func addLeafExtensions(_ profile: CertificateProfile) throws(TLSError) {
        try self.add(NID_basic_constraints, "critical,CA:FALSE")
        try self.add(NID_key_usage, "critical,digitalSignature")
        try self.add(NID_ext_key_usage, profile.purpose.rawValue)
        let names = profile.dnsNames.map { "DNS:" + $0 } + profile.ipAddresses.map { "IP:" + $0 }
        // The text form separates by commas: one in a name would start another name.
        guard names.allSatisfy({ !$0.contains(",") }) else {
            throw TLSError(.invalidCertificate, "a name has a comma")
        }
        if !names.isEmpty { try self.add(NID_subject_alt_name, names.joined(separator: ",")) }
        for added in profile.extensions { try self.add(added) }
    }

    /// Signs the certificate; without an issuer it is self-signed.
    func signed(by key: PrivateKey, issuer: Certificate?) throws(TLSError) -> Certificate {
        let issuerRaw = unsafe issuer?.raw ?? self.raw
        guard unsafe X509_set_issuer_name(self.raw, X509_get_subject_name(issuerRaw)) == 1 else {
            throw TLSError(.outOfMemory, "no issuer")
        }
        if let issuer { try self.add(NID_authority_key_identifier, "keyid", issuer: issuer) }
        ErrorQueue.clear()
        guard unsafe X509_sign(self.raw, key.handle.raw, EVP_sha256()) > 0, unsafe X509_up_ref(self.raw) == 1 else {
            throw TLSError(.invalidCertificate, ErrorQueue.drain("the certificate was not signed"))
        }
        return unsafe Certificate(owning: self.raw)
    }

    private func add(_ kind: CInt, _ value: String, issuer: Certificate? = nil) throws(TLSError) {
        ErrorQueue.clear()
        var context = unsafe X509V3_CTX()
        unsafe COpenSSL_X509V3_set_ctx(&context, issuer?.raw ?? self.raw, self.raw)
        let made = unsafe X509V3_EXT_conf_nid(nil, &context, kind, value)
        defer { unsafe X509_EXTENSION_free(made) }
        guard unsafe made != nil, unsafe X509_add_ext(self.raw, made, -1) == 1 else {
            throw TLSError(.invalidCertificate, ErrorQueue.drain("the extension '\(value)' was not made"))
        }
    }
}
