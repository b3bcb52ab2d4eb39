package import ApusCore
internal import COpenSSL

/// An X.509 certificate.
///
/// Sendable: nothing changes it after `init`, and OpenSSL counts references to a certificate atomically.
@safe package final class Certificate: Sendable {
    nonisolated(unsafe) let raw: OpaquePointer

    /// Takes ownership of the reference. The lazily computed parts of a certificate are computed here, by one thread.
    init(owning raw: OpaquePointer) {
        unsafe self.raw = raw
        _ = unsafe X509_check_purpose(raw, -1, 0)
        ErrorQueue.clear()
    }

    deinit { unsafe X509_free(self.raw) }

    /// Parses the first certificate of a PEM text. Throws `invalidCertificate`.
    package convenience init(pem: String) throws(TLSError) {
        ErrorQueue.clear()
        let raw = unsafe MemoryBIO.reading(Array(pem.utf8)) { bio in unsafe PEM_read_bio_X509(bio, nil, nil, nil) }
        guard let raw = unsafe raw else {
            throw TLSError(.invalidCertificate, ErrorQueue.drain("not a certificate in PEM"))
        }
        unsafe self.init(owning: raw)
    }

    /// Parses all certificates of a PEM text, in order. Throws `invalidCertificate` for a broken one, or if there is none.
    static func all(pem: String) throws(TLSError) -> [Certificate] {
        ErrorQueue.clear()
        var certificates: [Certificate] = []
        unsafe MemoryBIO.reading(Array(pem.utf8)) { bio in
            while let raw = unsafe PEM_read_bio_X509(bio, nil, nil, nil) {
                certificates.append(unsafe Certificate(owning: raw))
            }
        }
        // Each certificate clears the queue; the text must end by a regular "no start line", not by a broken block.
        let lines = pem.split(whereSeparator: \.isNewline)
        let blocks = lines.count { $0.hasPrefix("-----BEGIN") && $0.contains("CERTIFICATE") }
        ErrorQueue.clear()
        guard !certificates.isEmpty, certificates.count == blocks else {
            throw TLSError(.invalidCertificate, "not a chain of certificates in PEM")
        }
        return certificates
    }

    /// The certificate in PEM.
    package var pem: String {
        let pem = unsafe MemoryBIO.written { bio in unsafe PEM_write_bio_X509(bio, self.raw) == 1 }
        guard let pem else { preconditionFailure("a certificate can be written") }
        return String(decoding: pem, as: UTF8.self)
    }

    /// The certificate in DER.
    package var der: [UInt8] {
        guard let der = unsafe MemoryBIO.written({ bio in unsafe i2d_X509_bio(bio, self.raw) == 1 }) else {
            preconditionFailure("a certificate can be written")
        }
        return der
    }

    /// The time at which its validity begins.
    package var notBefore: UnixMilliseconds { unsafe Self.time(X509_get0_notBefore(self.raw)) }

    /// The time at which its validity ends.
    package var notAfter: UnixMilliseconds { unsafe Self.time(X509_get0_notAfter(self.raw)) }

    /// The subject's common name, for people; no decision depends on it.
    package var commonName: String? { self.subject(NID_commonName) }

    /// The subject's UID attribute: in a push certificate, the app's bundle id, hence its topic.
    package var userID: String? { self.subject(NID_userId) }

    private func subject(_ attribute: CInt) -> String? {
        let name = unsafe X509_get_subject_name(self.raw)
        let index = unsafe X509_NAME_get_index_by_NID(name, attribute, -1)
        guard index >= 0, let entry = unsafe X509_NAME_get_entry(name, index) else { return nil }
        var start: UnsafeMutablePointer<UInt8>?
        let count = unsafe ASN1_STRING_to_UTF8(&start, X509_NAME_ENTRY_get_data(entry))
        defer { unsafe COpenSSL_free(start) }
        guard count >= 0 else { return nil }
        return unsafe String(decoding: UnsafeBufferPointer(start: start, count: Int(count)), as: UTF8.self)
    }

    private static func time(_ time: UnsafePointer<ASN1_TIME>?) -> UnixMilliseconds {
        guard let epoch = unsafe ASN1_TIME_set(nil, 0) else { preconditionFailure("OpenSSL could not allocate") }
        defer { unsafe ASN1_TIME_free(epoch) }
        var days: CInt = 0
        var seconds: CInt = 0
        let code = unsafe ASN1_TIME_diff(&days, &seconds, epoch, time)
        precondition(code == 1, "a certificate has times")
        return UnixMilliseconds(seconds: Int64(days) * 86_400 + Int64(seconds))
    }
}
