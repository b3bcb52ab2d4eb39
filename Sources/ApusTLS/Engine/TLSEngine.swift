internal import COpenSSL
package import NIOCore

/// A TLS connection as a pure engine: ciphertext in, plaintext out, and the other way round. It has no socket and no clock.
///
/// After every call that can create ciphertext (all mutating ones, also those that throw: an alert tells the peer why),
/// take it with `takeCiphertext()` and send it.
@safe package struct TLSEngine: ~Copyable {
    /// The states of the connection.
    package enum State: Sendable {
        /// The handshake is under way: nothing can be written yet. Can become `open` or `failed`.
        case handshaking
        /// Plaintext flows. Can become `closedByPeer` or `failed`.
        case open
        /// The peer announced that it sends no more. Later bytes from it are ignored.
        case closedByPeer
        /// The connection has failed.
        case failed
    }

    /// The bytes of plaintext in a full record (RFC 8446 §5.1).
    package static let recordBytesMax = 16_384
    /// The maximum bytes that a record adds to its plaintext with our ciphers: header, nonce, content type, tag.
    static let recordOverheadBytesMax = 5 + 8 + 1 + 16
    /// The minimum room for a read, in bytes.
    private static let readBytesMin = 512

    /// The state of the connection.
    package private(set) var state = State.handshaking
    /// The result of the handshake; nil during it.
    package private(set) var handshake: TLSHandshakeCompleted?
    /// True after a call of `closeNotify()`.
    package private(set) var isOutputClosed = false

    private let context: TLSContext
    private let pipe: CiphertextPipe
    private let ssl: OpaquePointer

    private init(_ context: TLSContext, configure: (OpaquePointer) throws(TLSError) -> Void) throws(TLSError) {
        ErrorQueue.clear()
        guard let ssl = unsafe SSL_new(context.raw) else {
            throw TLSError(.outOfMemory, ErrorQueue.drain("no connection"))
        }
        do throws(TLSError) {
            unsafe try configure(ssl)
        } catch {
            unsafe SSL_free(ssl)
            throw error
        }
        let pipe = CiphertextPipe()
        let bio = unsafe pipe.makeBIO()
        // One reference serves both directions, and now belongs to the connection.
        unsafe SSL_set_bio(ssl, bio, bio)
        self.context = context
        self.pipe = pipe
        unsafe self.ssl = ssl
    }

    /// Creates the engine of a client. `serverName` is a host name or an IP address, for which the server's certificate must be valid.
    ///
    /// Throws `invalidServerName` for anything else.
    package init(client context: TLSContext, serverName: String) throws(TLSError) {
        precondition(context.role == .client, "a client needs a client's context")
        try unsafe self.init(context) { ssl throws(TLSError) in
            try unsafe ServerName.apply(serverName, to: ssl)
            unsafe SSL_set_connect_state(ssl)
        }
    }

    /// Creates the engine of a server.
    package init(server context: TLSContext) throws(TLSError) {
        precondition(context.role == .server, "a server needs a server's context")
        try unsafe self.init(context) { ssl throws(TLSError) in unsafe SSL_set_accept_state(ssl) }
    }

    deinit { unsafe SSL_free(self.ssl) }

    /// Starts the handshake: a client's first message is ready afterwards.
    package mutating func start() throws(TLSError) {
        guard self.state == .handshaking else { return }
        try self.continueHandshake()
    }

    /// Processes ciphertext from the peer and appends its plaintext to `plaintext`.
    ///
    /// All of `ciphertext` is consumed; an incomplete record is kept for the next call. Plaintext appended before an
    /// error is authentic. Check `state` afterwards. Throws the error that ends the connection.
    package mutating func receive(_ ciphertext: ByteBuffer, into plaintext: inout ByteBuffer) throws(TLSError) {
        var failure: TLSError?
        unsafe ciphertext.withUnsafeReadableBytes { bytes in
            unsafe self.pipe.lend(bytes)
            do throws(TLSError) {
                if self.state == .handshaking { try self.continueHandshake() }
                if self.state == .open { try self.decrypt(into: &plaintext) }
            } catch {
                failure = error
            }
            self.pipe.takeBack()
        }
        if let failure { throw failure }
    }

    /// Encrypts all of `plaintext`, in full records and one shorter one.
    ///
    /// The connection must be open. Throws `closed` after `closeNotify()` or a failure.
    package mutating func write(_ plaintext: ByteBuffer) throws(TLSError) {
        precondition(self.state != .handshaking, "nothing is written before the handshake is over")
        guard self.state != .failed, !self.isOutputClosed else { throw TLSError(.closed, "nothing more is written") }
        let count = plaintext.readableBytes
        guard count > 0 else { return }
        let records = (count + Self.recordBytesMax - 1) / Self.recordBytesMax
        self.pipe.outbound.reserveCapacity(minimumWritableBytes: count + records * Self.recordOverheadBytesMax)
        ErrorQueue.clear()
        var written = 0
        let code = unsafe plaintext.withUnsafeReadableBytes { bytes in
            unsafe SSL_write_ex(self.ssl, bytes.baseAddress, bytes.count, &written)
        }
        guard code == 1, written == count else { throw self.failed(unsafe SSL_get_error(self.ssl, code)) }
    }

    /// Announces that nothing more will be written. Does nothing during the handshake, after a failure, or the second time.
    package mutating func closeNotify() {
        guard self.state != .handshaking, self.state != .failed, !self.isOutputClosed else { return }
        self.isOutputClosed = true
        ErrorQueue.clear()
        _ = unsafe SSL_shutdown(self.ssl)
        ErrorQueue.clear()
    }

    /// Handles the end of the connection below. Throws `closedWithoutCloseNotify` or `closedDuringHandshake` unless the
    /// peer announced it: cutting a connection must not make a part pass for the whole.
    package mutating func receivedEnd() throws(TLSError) {
        switch self.state {
        case .handshaking:
            self.state = .failed
            throw TLSError(.closedDuringHandshake, "the peer closed the connection during the handshake")
        case .open:
            self.state = .failed
            throw TLSError(.closedWithoutCloseNotify, "the connection ended without the peer saying so")
        case .closedByPeer, .failed: return
        }
    }

    /// Returns the bytes to be sent; nil when there are none.
    package mutating func takeCiphertext() -> ByteBuffer? {
        guard self.pipe.outbound.readableBytes > 0 else { return nil }
        var taken = ByteBuffer()
        swap(&taken, &self.pipe.outbound)
        return taken
    }

    /// Takes a buffer of `takeCiphertext()` back after it was sent, so that the next one needs no new memory.
    package mutating func recycle(_ buffer: consuming ByteBuffer) {
        guard self.pipe.outbound.readableBytes == 0, self.pipe.outbound.capacity < buffer.capacity else { return }
        buffer.clear()
        self.pipe.outbound = buffer
    }

    private mutating func continueHandshake() throws(TLSError) {
        ErrorQueue.clear()
        let code = unsafe SSL_do_handshake(self.ssl)
        guard code != 1 else {
            self.state = .open
            return try self.finishHandshake()
        }
        let error = unsafe SSL_get_error(self.ssl, code)
        guard error != SSL_ERROR_WANT_READ else { return }
        throw self.failed(error)
    }

    private mutating func finishHandshake() throws(TLSError) {
        var start: UnsafePointer<UInt8>?
        var count: CUnsignedInt = 0
        unsafe SSL_get0_alpn_selected(self.ssl, &start, &count)
        let selected = unsafe UnsafeBufferPointer(start: start, count: Int(count))
        let alpn = unsafe selected.isEmpty ? nil : String(decoding: selected, as: UTF8.self)
        // A server without ALPN support answers nothing, and speaks HTTP/1.1 if it speaks a protocol of ours.
        let allowsNone = self.context.protocols.isEmpty || self.context.protocols.contains("http/1.1")
        guard alpn != nil || self.context.role == .server || allowsNone else {
            self.closeNotify()
            self.state = .failed
            throw TLSError(.noCommonApplicationProtocol, "the server agreed to none of our protocols")
        }
        let peer = unsafe SSL_get1_peer_certificate(self.ssl)
        let name = unsafe SSL_get_servername(self.ssl, TLSEXT_NAMETYPE_host_name)
        self.handshake = TLSHandshakeCompleted(
            alpn: alpn,
            version: unsafe String(cString: SSL_get_version(self.ssl)),
            serverName: unsafe name.map { unsafe String(cString: $0) },
            peerCertificate: unsafe peer.map { unsafe Certificate(owning: $0) },
        )
    }

    private mutating func decrypt(into plaintext: inout ByteBuffer) throws(TLSError) {
        while true {
            let waiting = Int(unsafe SSL_pending(self.ssl))
            let arriving = min(self.pipe.inboundCount, Self.recordBytesMax)
            guard waiting + arriving > 0 else { return }
            ErrorQueue.clear()
            var code: CInt = 0
            let room = max(waiting, arriving, Self.readBytesMin)
            unsafe plaintext.writeWithUnsafeMutableBytes(minimumWritableBytes: room) { bytes in
                var read = 0
                code = unsafe SSL_read_ex(self.ssl, bytes.baseAddress, bytes.count, &read)
                return code == 1 ? read : 0
            }
            if code == 1 { continue }
            switch unsafe SSL_get_error(self.ssl, code) {
            case SSL_ERROR_WANT_READ: return
            case SSL_ERROR_ZERO_RETURN:
                self.state = .closedByPeer
                return
            case let error: throw self.failed(error)
            }
        }
    }

    private mutating func failed(_ error: CInt) -> TLSError {
        let phase = self.state
        self.state = .failed
        return unsafe TLSError.ofConnection(self.ssl, error: error, handshaking: phase == .handshaking)
    }
}

/// The result of a handshake.
///
/// ``TLSHandler`` fires it as a user inbound event, before the first plaintext.
package struct TLSHandshakeCompleted: Sendable {
    /// The application protocol (`h2`, `http/1.1`); nil if none was asked for, or if the server agreed to none and HTTP/1.1 would do.
    package let alpn: String?
    /// `TLSv1.3` or `TLSv1.2`.
    package let version: String
    /// On a server, the name that the client asked for.
    package let serverName: String?
    /// The peer's own certificate, verified; on a server nil if the client showed none.
    package let peerCertificate: Certificate?

    /// Creates the result of a handshake.
    package init(alpn: String?, version: String = "", serverName: String? = nil, peerCertificate: Certificate? = nil) {
        self.alpn = alpn
        self.version = version
        self.serverName = serverName
        self.peerCertificate = peerCertificate
    }
}
