package import NIOCore

/// Encrypts and decrypts a channel with TLS, by a ``TLSEngine``.
///
/// It fires ``TLSHandshakeCompleted`` as a user inbound event before the first plaintext; earlier writes wait here. An
/// error is fired as ``TLSError``, then the channel closes. Writes are gathered until the flush and sent as full
/// records in as few buffers as possible.
package final class TLSHandler: ChannelDuplexHandler {
    package typealias InboundIn = ByteBuffer
    package typealias InboundOut = ByteBuffer
    package typealias OutboundIn = ByteBuffer
    package typealias OutboundOut = ByteBuffer

    /// The limits of a handler.
    package struct Limits: Sendable {
        /// The longest time that the handshake may take.
        package var handshakeTimeout = TimeAmount.seconds(10)
        /// The longest time that a close waits for the last bytes to be sent.
        package var closeTimeout = TimeAmount.seconds(5)
        /// The maximum bytes of plaintext that may wait for the handshake.
        package var waitingBytesMax = 16 * 1_024 * 1_024

        package init() {}
    }

    /// The phases of the handler.
    private enum Phase {
        /// The channel is not active. Can become `handshaking` or `closed`.
        case idle
        /// The handshake is under way. Can become `open` or `closed`.
        case handshaking
        /// Plaintext flows. Can become `closing` or `closed`.
        case open
        /// Our last bytes are being sent. Can become `closed`.
        case closing
        /// The connection has ended.
        case closed
    }

    /// The bytes of plaintext that are encrypted into one buffer: 16 full records.
    package static let chunkBytes = 16 * TLSEngine.recordBytesMax
    /// The largest buffers that are kept for the next time, in bytes.
    private static let keptBytesMax = 2 * TLSHandler.chunkBytes

    private let limits: Limits
    private var engine: TLSEngine
    private var phase = Phase.idle
    private var gathering = PlaintextGathering()
    private var flushWaits = false
    private var delivered = false
    private var plaintext = ByteBuffer()
    private var timer: Scheduled<Void>?

    /// Creates the handler of a client. `serverName` is a host name or an IP address, for which the server's certificate must be valid.
    ///
    /// Throws `invalidServerName` for anything else.
    package init(client context: TLSContext, serverName: String, limits: Limits = Limits()) throws(TLSError) {
        self.engine = try TLSEngine(client: context, serverName: serverName)
        self.limits = limits
    }

    /// Creates the handler of a server.
    package init(server context: TLSContext, limits: Limits = Limits()) throws(TLSError) {
        self.engine = try TLSEngine(server: context)
        self.limits = limits
    }

    // MARK: Life of the channel

    package func handlerAdded(context: ChannelHandlerContext) {
        if context.channel.isActive { self.begin(context) }
    }

    package func handlerRemoved(context: ChannelHandlerContext) {
        self.close(failing: TLSError(.closed, "the TLS handler was removed"))
    }

    package func channelActive(context: ChannelHandlerContext) {
        self.begin(context)
        context.fireChannelActive()
    }

    package func channelInactive(context: ChannelHandlerContext) {
        self.end(context)
        context.fireChannelInactive()
    }

    package func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .inputClosed? = event as? ChannelEvent { self.end(context) }
        context.fireUserInboundEventTriggered(event)
    }

    private func begin(_ context: ChannelHandlerContext) {
        guard self.phase == .idle else { return }
        self.phase = .handshaking
        self.timer = context.eventLoop.assumeIsolated().scheduleTask(in: self.limits.handshakeTimeout) {
            self.fail(context, TLSError(.handshakeTimedOut, "the peer did not finish the handshake in time"))
        }
        do throws(TLSError) {
            try self.engine.start()
        } catch {
            return self.fail(context, error)
        }
        self.send(context)
    }

    /// Handles the end of the connection below.
    private func end(_ context: ChannelHandlerContext) {
        switch self.phase {
        case .idle, .closing, .closed: self.close(failing: TLSError(.closed, "the connection is closed"))
        case .handshaking, .open:
            do throws(TLSError) {
                try self.engine.receivedEnd()
                self.close(failing: TLSError(.closed, "the connection is closed"))
            } catch {
                self.fail(context, error)
            }
        }
    }

    // MARK: Inbound

    package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard self.phase == .handshaking || self.phase == .open else { return }
        // The buffer is moved out for the call: the receiver of the plaintext may write, and so call back into this handler.
        var plaintext = ByteBuffer()
        swap(&plaintext, &self.plaintext)
        var failure: TLSError?
        do throws(TLSError) {
            try self.engine.receive(self.unwrapInboundIn(data), into: &plaintext)
        } catch {
            failure = error
        }
        self.send(context)
        if self.phase == .handshaking, let handshake = self.engine.handshake { self.open(context, handshake) }
        if plaintext.readableBytes > 0, self.phase == .open {
            self.delivered = true
            context.fireChannelRead(self.wrapInboundOut(plaintext))
        }
        self.keep(consume plaintext)
        if let failure { return self.fail(context, failure) }
        if self.engine.state == .closedByPeer, self.phase == .open { self.closedByPeer(context) }
    }

    package func channelReadComplete(context: ChannelHandlerContext) {
        context.fireChannelReadComplete()
        // A reader on demand asked for plaintext and got none: a record was incomplete, or belonged to the handshake.
        if !self.delivered, self.phase == .handshaking || self.phase == .open { context.read() }
        self.delivered = false
    }

    private func open(_ context: ChannelHandlerContext, _ handshake: TLSHandshakeCompleted) {
        self.phase = .open
        self.timer?.cancel()
        self.timer = nil
        context.fireUserInboundEventTriggered(handshake)
        guard self.phase == .open, self.flushWaits else { return }
        self.flushWaits = false
        self.flushGathered(context)
    }

    private func keep(_ plaintext: consuming ByteBuffer) {
        guard plaintext.capacity <= Self.keptBytesMax, self.plaintext.capacity < plaintext.capacity else { return }
        plaintext.clear()
        self.plaintext = plaintext
    }

    private func closedByPeer(_ context: ChannelHandlerContext) {
        self.close(failing: TLSError(.closed, "the peer closed the connection"))
        self.engine.closeNotify()
        self.send(context)
        context.close(promise: nil)
    }

    // MARK: Outbound

    package func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        let bytes = self.unwrapOutboundIn(data)
        switch self.phase {
        case .idle, .handshaking:
            self.gathering.append(bytes, promise: promise)
            guard self.gathering.count > self.limits.waitingBytesMax else { return }
            self.fail(context, TLSError(.bufferFull, "too many bytes were written before the end of the handshake"))
        case .open where !self.engine.isOutputClosed:
            self.gathering.append(bytes, promise: promise)
            // Plaintext is encrypted early: from here on the channel counts it, and stops the writer when it is too much.
            if self.gathering.count >= Self.chunkBytes { self.encryptGathered(context, flushing: false) }
        case .open, .closing, .closed: promise?.fail(TLSError(.closed, "the connection is closed"))
        }
    }

    package func flush(context: ChannelHandlerContext) {
        switch self.phase {
        case .idle, .handshaking: self.flushWaits = true
        case .open: self.flushGathered(context)
        case .closing, .closed: context.flush()
        }
    }

    package func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        guard self.phase == .open, mode != .input else {
            if mode != .input { self.close(failing: TLSError(.closed, "the connection is closed")) }
            return context.close(mode: mode, promise: promise)
        }
        if mode == .all { self.phase = .closing }
        self.engine.closeNotify()
        // Unflushed bytes are not sent, as on any channel.
        self.failWaiting(TLSError(.closed, "the connection is closed"))
        guard let last = self.engine.takeCiphertext() else { return context.close(mode: mode, promise: promise) }
        let sent = context.eventLoop.makePromise(of: Void.self)
        let timer = context.eventLoop.assumeIsolated().scheduleTask(in: self.limits.closeTimeout) {
            sent.fail(TLSError(.closed, "the last bytes were not sent in time"))
        }
        sent.futureResult.assumeIsolated().whenComplete { _ in
            timer.cancel()
            context.close(mode: mode, promise: promise)
        }
        let written = context.eventLoop.makePromise(of: Void.self)
        written.futureResult.cascade(to: sent)
        context.writeAndFlush(self.wrapOutboundOut(last), promise: written)
    }

    private func flushGathered(_ context: ChannelHandlerContext) {
        guard !self.gathering.isEmpty else { return context.flush() }
        self.encryptGathered(context, flushing: true)
    }

    private func encryptGathered(_ context: ChannelHandlerContext, flushing: Bool) {
        let promise = self.gathering.takePromise()
        var bytes = self.gathering.takeBytes()
        while bytes.readableBytes > Self.chunkBytes, let chunk = bytes.readSlice(length: Self.chunkBytes) {
            guard let ciphertext = self.encrypt(context, chunk, promise) else { return }
            context.write(self.wrapOutboundOut(ciphertext), promise: nil)
        }
        guard let ciphertext = self.encrypt(context, bytes, promise) else { return }
        self.gathering.recycle(consume bytes)
        context.write(self.wrapOutboundOut(ciphertext), promise: promise)
        guard flushing else { return }
        context.flush()
        // The socket has usually taken everything at once, and the memory is free again.
        if ciphertext.capacity <= Self.keptBytesMax { self.engine.recycle(consume ciphertext) }
    }

    private func encrypt(
        _ context: ChannelHandlerContext,
        _ bytes: ByteBuffer,
        _ promise: EventLoopPromise<Void>?,
    ) -> ByteBuffer? {
        do throws(TLSError) {
            try self.engine.write(bytes)
        } catch {
            promise?.fail(error)
            self.fail(context, error)
            return nil
        }
        return self.engine.takeCiphertext() ?? ByteBuffer()
    }

    /// Sends the engine's own messages.
    private func send(_ context: ChannelHandlerContext) {
        guard let ciphertext = self.engine.takeCiphertext() else { return }
        context.writeAndFlush(self.wrapOutboundOut(ciphertext), promise: nil)
    }

    // MARK: Closing

    private func fail(_ context: ChannelHandlerContext, _ error: TLSError) {
        guard self.phase != .closed else { return }
        self.close(failing: error)
        self.send(context)
        context.fireErrorCaught(error)
        context.close(promise: nil)
    }

    private func close(failing error: TLSError) {
        self.phase = .closed
        self.timer?.cancel()
        self.timer = nil
        self.failWaiting(error)
    }

    /// Fails every gathered write. A callback may write again at once.
    private func failWaiting(_ error: TLSError) {
        let promise = self.gathering.takePromise()
        _ = self.gathering.takeBytes()
        promise?.fail(error)
    }
}
