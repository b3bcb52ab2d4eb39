internal import COpenSSL

/// Sets the name of the server that a client connects to: for SNI, and for the check of its certificate.
enum ServerName {
    /// The maximum bytes of a host name (RFC 1035 §2.3.4, in text form).
    static let bytesMax = 253

    /// Sets the name on a connection. Throws `invalidServerName`.
    ///
    /// An IP address is verified as such and not sent (RFC 6066 §3 allows names only). A name is searched among the
    /// certificate's DNS names, never in its subject (RFC 9525 §6.2); a wildcard stands for a whole first label.
    static func apply(_ name: String, to ssl: OpaquePointer) throws(TLSError) {
        let parameters = unsafe SSL_get0_param(ssl)
        if unsafe X509_VERIFY_PARAM_set1_ip_asc(parameters, name) == 1 { return }
        ErrorQueue.clear()
        let host = name.hasSuffix(".") ? String(name.dropLast()) : name
        // OpenSSL would take a leading dot for "any name below".
        guard 1...Self.bytesMax ~= host.utf8.count, host.utf8.allSatisfy(Self.isHostByte), !host.hasPrefix(".") else {
            throw TLSError(.invalidServerName, "'\(name.prefix(80))' is neither a host name nor an IP address")
        }
        let flags = CUnsignedInt(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT)
        unsafe SSL_set_hostflags(ssl, flags)
        guard unsafe SSL_set1_host(ssl, host) == 1, unsafe COpenSSL_SSL_set_tlsext_host_name(ssl, host) == 1 else {
            throw TLSError(.outOfMemory, "no server name")
        }
    }

    private static func isHostByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"):
            true
        default: false
        }
    }
}
