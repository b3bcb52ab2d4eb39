package import NIOCore

/// Gets what clients want, on the connection's event loop.
package protocol HTTP2ServerDelegate: AnyObject {
    /// An event. Requests may be answered from here, or later.
    func http2(_ handler: HTTP2ServerHandler, received event: HTTP2ServerEvent)
}

/// Drives an ``HTTP2ServerSession`` on one channel, for simulators and tests. Everything is to be called on its event loop.
package final class HTTP2ServerHandler: ChannelInboundHandler {
    /// Bytes from the client.
    package typealias InboundIn = ByteBuffer
    /// Nothing goes further up.
    package typealias InboundOut = Never
    /// Bytes to the client.
    package typealias OutboundOut = ByteBuffer

    private var session: HTTP2ServerSession
    private var delegate: (any HTTP2ServerDelegate)?
    private var context: ChannelHandlerContext?
    private var outbound = ByteBuffer()
    private var isFlushScheduled = false
    private var isReading = false
    private var isDelivering = false

    /// A handler that tells `delegate` everything; it is held until `closed` was delivered.
    package init(
        configuration: HTTP2ServerConfiguration = HTTP2ServerConfiguration(),
        delegate: any HTTP2ServerDelegate,
    ) throws(HTTP2Error) {
        self.session = try HTTP2ServerSession(configuration: configuration)
        self.delegate = delegate
    }

    // MARK: How it stands

    /// Streams that are open.
    package var openStreams: Int { self.session.openStreams }
    /// The most that ever were open at a time.
    package var streamsOpenMax: Int { self.session.streamsOpenMax }
    /// Bytes that the client lets us send on the connection now.
    package var connectionWindow: Int { self.session.connectionWindow }
    /// Bytes that the client may still send on the connection.
    package var receiveWindow: Int { self.session.receiveWindow }
    /// The loop that everything happens on; nil before the handler is in a pipeline.
    package var eventLoop: (any EventLoop)? { self.context?.eventLoop }

    // MARK: What to do

    /// Answers a request. False: its stream is over, or it was answered.
    @discardableResult
    package func respond(to streamID: Int32, _ response: HTTP2Response) -> Bool {
        let isTaken = self.session.respond(to: streamID, response)
        self.scheduleFlush()
        return isTaken
    }

    /// Answers later, if the stream is still there then.
    package func respond(to streamID: Int32, _ response: HTTP2Response, after delay: TimeAmount) {
        guard let context = self.context else { return }
        _ = context.eventLoop.assumeIsolated().scheduleTask(in: delay) {
            _ = self.respond(to: streamID, response)
        }
    }

    /// Resets a stream.
    package func reset(_ streamID: Int32, code: HTTP2ErrorCode) {
        self.session.reset(streamID, code: code)
        self.scheduleFlush()
    }

    /// Says GOAWAY; streams above `lastStreamID` are dropped.
    package func goAway(lastStreamID: Int32, code: HTTP2ErrorCode, debug: [UInt8] = []) {
        self.session.goAway(lastStreamID: lastStreamID, code: code, debug: debug)
        self.scheduleFlush()
    }

    /// Changes what the client is allowed; nil: as before.
    package func updateSettings(maxConcurrentStreams: UInt32? = nil, streamWindow: Int? = nil) {
        self.session.updateSettings(maxConcurrentStreams: maxConcurrentStreams, streamWindow: streamWindow)
        self.scheduleFlush()
    }

    /// Sends a PING.
    package func ping() {
        self.session.ping()
        self.scheduleFlush()
    }

    /// Closes now, without a word.
    package func close() {
        self.session.close()
        self.deliver()
    }

    // MARK: Channel

    /// Starts at once on an active channel.
    package func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        if context.channel.isActive { self.flush() }
    }

    /// The pipeline is being taken down.
    package func handlerRemoved(context: ChannelHandlerContext) {
        self.transportEnded("the pipeline was taken down")
        self.context = nil
    }

    /// Starts.
    package func channelActive(context: ChannelHandlerContext) {
        self.flush()
        context.fireChannelActive()
    }

    /// The transport is gone.
    package func channelInactive(context: ChannelHandlerContext) {
        self.transportEnded("closed by the peer")
        context.fireChannelInactive()
    }

    /// Reads.
    package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        self.isReading = true
        let bytes = self.unwrapInboundIn(data)
        self.session.receive(bytes.readableBytesUInt8Span)
        self.deliver()
    }

    /// The end of a turn of reading: all answers leave together.
    package func channelReadComplete(context: ChannelHandlerContext) {
        self.isReading = false
        self.flush()
        context.fireChannelReadComplete()
    }

    /// What waited may go on.
    package func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable { self.scheduleFlush() }
        context.fireChannelWritabilityChanged()
    }

    /// What fails below ends the connection.
    package func errorCaught(context: ChannelHandlerContext, error: any Error) {
        self.transportEnded(String(describing: error))
        context.close(promise: nil)
    }

    // MARK: The turn

    private func scheduleFlush() {
        guard !self.isFlushScheduled, !self.isReading, let context = self.context else { return }
        self.isFlushScheduled = true
        context.eventLoop.assumeIsolated().execute {
            self.isFlushScheduled = false
            self.flush()
        }
    }

    private func flush() {
        if let context = self.context, context.channel.isActive, self.session.wantsWrite {
            var hasMore = true
            while hasMore, context.channel.isWritable {
                self.outbound.clear()
                hasMore = self.session.drainOutbound(into: &self.outbound, limit: HTTP2ClientHandler.writeBytesMax)
                guard self.outbound.readableBytes > 0 else { break }
                context.writeAndFlush(self.wrapOutboundOut(self.outbound), promise: nil)
            }
        }
        self.deliver()
    }

    private func deliver() {
        guard !self.isDelivering else { return }
        self.isDelivering = true
        defer { self.isDelivering = false }
        while let event = self.session.nextEvent() {
            self.delegate?.http2(self, received: event)
            guard case .closed = event else { continue }
            self.delegate = nil
            self.context?.close(promise: nil)
        }
    }

    private func transportEnded(_ message: String) {
        self.session.close(.transport(message))
        self.deliver()
    }
}
