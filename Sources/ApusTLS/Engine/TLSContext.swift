internal import COpenSSL
// Nothing of it is called: it is linked so that OpenSSL outlives the connections of a process that exits.
internal import COpenSSLSetup

/// Holds the configuration that all connections of one kind share: trust, identity and application protocols.
///
/// It is created once, at start or when a credential changes: loading trust and keys takes milliseconds. It allows TLS
/// 1.2 and 1.3 and forward secret ciphers only, no renegotiation, no compression and no resumption (so no ticket of one
/// host can meet another).
///
/// Sendable: nothing changes the context after `init`, and OpenSSL locks what connections share of it.
@safe package final class TLSContext: Sendable {
    /// The end of connections that a context is for.
    enum Role: Sendable {
        case client
        case server
    }

    /// The TLS 1.2 ciphers: ephemeral keys, authenticated encryption. AES-128 comes first: strong enough, and the fastest.
    private static let ciphers =
        "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384"
        + ":ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305"
    /// The TLS 1.3 ciphers, in the same order.
    private static let cipherSuites = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"

    nonisolated(unsafe) let raw: OpaquePointer
    let role: Role
    let protocols: ApplicationProtocols

    private init(_ role: Role, alpn: [String]) throws(TLSError) {
        ErrorQueue.clear()
        let method = unsafe role == .client ? TLS_client_method() : TLS_server_method()
        guard let raw = unsafe SSL_CTX_new(method) else {
            throw TLSError(.outOfMemory, ErrorQueue.drain("no TLS context"))
        }
        unsafe self.raw = raw
        self.role = role
        self.protocols = ApplicationProtocols(alpn)
        // The minimum is set here, not left to the system: Debian's openssl.cnf names none.
        let done =
            unsafe COpenSSL_SSL_CTX_set_min_proto_version(raw, TLS1_2_VERSION) == 1
            && SSL_CTX_set_cipher_list(raw, Self.ciphers) == 1
            && SSL_CTX_set_ciphersuites(raw, Self.cipherSuites) == 1
        precondition(done, "this OpenSSL does not support the ciphers")
        unsafe COpenSSL_SSL_CTX_set_mode(raw, Int(SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER))
        unsafe COpenSSL_SSL_CTX_set_session_cache_mode(raw, Int(SSL_SESS_CACHE_OFF))
        _ = unsafe SSL_CTX_set_num_tickets(raw, 0)
        unsafe COpenSSL_SSL_CTX_set_strict_options(raw)
    }

    deinit { unsafe SSL_CTX_free(self.raw) }

    /// Creates the context of connections that this process opens.
    ///
    /// - Parameters:
    ///   - trust: the authorities that servers' certificates must come from.
    ///   - certificate: the client certificate, for servers that request one.
    ///   - alpn: the supported protocols, the preferred one first. A server that agrees to none of them is refused.
    package static func client(
        trust: TLSTrust = .system,
        certificate: TLSIdentity? = nil,
        alpn: [String] = [],
    ) throws(TLSError) -> TLSContext {
        let context = try TLSContext(.client, alpn: alpn)
        try context.load(trust)
        unsafe SSL_CTX_set_verify(context.raw, SSL_VERIFY_PEER, nil)
        if let certificate { try context.load(certificate) }
        if !context.protocols.isEmpty {
            let wire = unsafe context.protocols.wire
            let code = unsafe SSL_CTX_set_alpn_protos(context.raw, wire.baseAddress, CUnsignedInt(wire.count))
            guard code == 0 else { throw TLSError(.outOfMemory, "no protocols") }
        }
        return context
    }

    /// Creates the context of connections that this process accepts.
    ///
    /// - Parameters:
    ///   - identity: the server's certificate and key.
    ///   - alpn: the supported protocols, the preferred one first. A client that offers only others is refused; one
    ///     that offers none is accepted, without a protocol.
    ///   - clientCA: the authorities that clients' certificates must come from; nil to request none.
    ///   - requiresClientCertificate: true when a client without one is refused.
    package static func server(
        identity: TLSIdentity,
        alpn: [String] = [],
        clientCA: TLSTrust? = nil,
        requiresClientCertificate: Bool = true,
    ) throws(TLSError) -> TLSContext {
        let context = try TLSContext(.server, alpn: alpn)
        try context.load(identity)
        if let clientCA {
            try context.load(clientCA)
            let mode = requiresClientCertificate ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0
            unsafe SSL_CTX_set_verify(context.raw, SSL_VERIFY_PEER | mode, nil)
        }
        if !context.protocols.isEmpty { context.selectProtocols() }
        return context
    }

    private func load(_ trust: TLSTrust) throws(TLSError) {
        ErrorQueue.clear()
        switch trust {
        case .system:
            guard unsafe SSL_CTX_set_default_verify_paths(self.raw) == 1 else {
                throw TLSError(.trustUnavailable, ErrorQueue.drain("the system's authorities cannot be read"))
            }
        case .file(let path):
            guard unsafe SSL_CTX_load_verify_file(self.raw, path) == 1 else {
                throw TLSError(.trustUnavailable, ErrorQueue.drain("no authorities can be read from \(path)"))
            }
        case .pem(let pem):
            let store = unsafe SSL_CTX_get_cert_store(self.raw)
            for certificate in try Certificate.all(pem: pem) {
                guard unsafe X509_STORE_add_cert(store, certificate.raw) == 1 else {
                    throw TLSError(.trustUnavailable, ErrorQueue.drain("an authority was not accepted"))
                }
            }
        }
        ErrorQueue.clear()
    }

    private func load(_ identity: TLSIdentity) throws(TLSError) {
        ErrorQueue.clear()
        var done =
            unsafe SSL_CTX_use_certificate(self.raw, identity.certificate.raw) == 1
            && SSL_CTX_use_PrivateKey(self.raw, identity.key.raw) == 1
        for intermediate in identity.certificates.dropFirst() {
            done = unsafe done && COpenSSL_SSL_CTX_add1_chain_cert(self.raw, intermediate.raw) == 1
        }
        guard done else { throw TLSError(.invalidCertificate, ErrorQueue.drain("the certificate was not accepted")) }
    }

    /// Installs the selection among clients' offers. The list outlives every connection: each holds this context.
    private func selectProtocols() {
        let ours = unsafe Unmanaged.passUnretained(self.protocols).toOpaque()
        unsafe SSL_CTX_set_alpn_select_cb(
            self.raw,
            { _, selected, selectedCount, offered, offeredCount, ours in
                guard let ours = unsafe ours else { return SSL_TLSEXT_ERR_ALERT_FATAL }
                let protocols = unsafe Unmanaged<ApplicationProtocols>.fromOpaque(ours).takeUnretainedValue()
                let wire = unsafe protocols.wire
                var choice: UnsafeMutablePointer<UInt8>?
                let code = unsafe SSL_select_next_proto(
                    &choice,
                    selectedCount,
                    wire.baseAddress,
                    CUnsignedInt(wire.count),
                    offered,
                    offeredCount,
                )
                guard code == OPENSSL_NPN_NEGOTIATED else { return SSL_TLSEXT_ERR_ALERT_FATAL }
                unsafe selected?.pointee = unsafe UnsafePointer(choice)
                return SSL_TLSEXT_ERR_OK
            },
            ours,
        )
    }
}

/// The authorities whose certificates are trusted.
package enum TLSTrust: Sendable {
    /// The authorities of the operating system (on Debian, the package `ca-certificates`).
    case system
    /// The authorities in that PEM file.
    case file(String)
    /// The authorities in that PEM text.
    case pem(String)
}
