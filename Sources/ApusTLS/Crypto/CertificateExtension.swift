internal import COpenSSL

/// An extension of a certificate (RFC 5280 §4.2).
package struct CertificateExtension: Hashable, Sendable {
    /// The object identifier, such as "1.2.840.113635.100.6.3.6".
    package let identifier: String
    /// The contents, in DER.
    package let value: [UInt8]

    /// Creates an extension.
    package init(identifier: String, value: [UInt8]) {
        self.identifier = identifier
        self.value = value
    }
}

extension Certificate {
    /// Returns the contents of the extension with an object identifier, in DER; nil when the certificate has none.
    package func extensionValue(_ identifier: String) -> [UInt8]? {
        ErrorQueue.clear()
        defer { ErrorQueue.clear() }
        guard let object = unsafe OBJ_txt2obj(identifier, 1) else { return nil }
        defer { unsafe ASN1_OBJECT_free(object) }
        let index = unsafe X509_get_ext_by_OBJ(self.raw, object, -1)
        guard index >= 0, let found = unsafe X509_get_ext(self.raw, index),
            let value = unsafe X509_EXTENSION_get_data(found), let start = unsafe ASN1_STRING_get0_data(value)
        else { return nil }
        return unsafe Array(UnsafeBufferPointer(start: start, count: Int(ASN1_STRING_length(value))))
    }
}

extension CertificateBuilder {
    /// Adds an extension that OpenSSL does not know by name.
    func add(_ added: CertificateExtension) throws(TLSError) {
        ErrorQueue.clear()
        let object = unsafe OBJ_txt2obj(added.identifier, 1)
        let octets = unsafe ASN1_OCTET_STRING_new()
        defer {
            unsafe ASN1_OBJECT_free(object)
            unsafe ASN1_OCTET_STRING_free(octets)
        }
        let isFilled =
            unsafe object != nil && octets != nil
            && ASN1_OCTET_STRING_set(octets, added.value, CInt(added.value.count)) == 1
        guard isFilled else {
            throw TLSError(.invalidCertificate, ErrorQueue.drain("no extension \(added.identifier)"))
        }
        let made = unsafe X509_EXTENSION_create_by_OBJ(nil, object, 0, octets)
        defer { unsafe X509_EXTENSION_free(made) }
        guard unsafe made != nil, unsafe X509_add_ext(self.raw, made, -1) == 1 else {
            throw TLSError(.invalidCertificate, ErrorQueue.drain("the extension \(added.identifier) was not made"))
        }
    }
}
