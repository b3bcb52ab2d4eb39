package import NIOCore

/// Gets what happens on a connection, on its event loop.
package protocol HTTP2ClientDelegate: AnyObject {
    /// An event. An answer's body and header values can be asked for at `handler` until this returns; requests may be
    /// submitted from here.
    func http2(_ handler: HTTP2ClientHandler, received event: HTTP2ClientEvent)
    /// A request was turned away as `full` before, and now there is room. Called once, after a turn's events.
    func http2CapacityAvailable(_ handler: HTTP2ClientHandler)
}

/// Drives an ``HTTP2ClientSession`` on one channel. Everything is to be called on its event loop.
///
/// Belongs above the TLS handler. Preface and SETTINGS go out when the channel is active. Whoever must see the ALPN result
/// first adds the handler in the very call that tells of the handshake: a server's first bytes may come right behind it,
/// and a pipeline drops what nobody reads. Requests are gathered and flushed once per turn of the loop.
package final class HTTP2ClientHandler: ChannelInboundHandler {
    /// Bytes from the peer.
    package typealias InboundIn = ByteBuffer
    /// Nothing goes further up.
    package typealias InboundOut = Never
    /// Bytes to the peer.
    package typealias OutboundOut = ByteBuffer

    /// Bytes gathered into one write.
    package static let writeBytesMax = 64 * 1_024
    /// Writes before a flush; then the rest waits for the next turn, so that one connection cannot hog the loop.
    package static let writesPerTurnMax = 8

    private var session: HTTP2ClientSession
    private var delegate: (any HTTP2ClientDelegate)?
    private var context: ChannelHandlerContext?
    private var outbound = ByteBuffer()
    private var isFlushScheduled = false
    private var isReading = false
    private var isDelivering = false
    private var isCapacityWanted = false
    private var timer: Scheduled<Void>?
    private var timerDeadline = UInt64.max
    /// When the bytes came that were read last: nanoseconds of the monotonic clock. One reading serves all answers in them.
    package private(set) var readAt: UInt64 = 0
    /// Bytes written to the channel, and read from it.
    package private(set) var bytesSent: UInt64 = 0
    package private(set) var bytesReceived: UInt64 = 0

    /// A handler that tells `delegate` everything; it is held until `closed` was delivered.
    package init(
        configuration: HTTP2ClientConfiguration = HTTP2ClientConfiguration(),
        delegate: any HTTP2ClientDelegate,
    ) throws(HTTP2Error) {
        self.session = try HTTP2ClientSession(configuration: configuration)
        self.delegate = delegate
    }

    // MARK: Requests

    /// As ``HTTP2ClientSession/submit(_:authorization:token:id:tag:deadline:)``; `full` also while the channel is not
    /// writable. After `full` the delegate hears when there is room.
    package func submit(
        _ template: RequestTemplate,
        authorization: HeaderValue?,
        token: Span<UInt8>,
        number: UInt32 = 0,
        id: RequestID?,
        tag: UInt64,
        deadline: NIODeadline,
    ) -> HTTP2Submission {
        guard self.isWritable else { return self.turnedAway(self.session.isOpen ? .full : .closed) }
        let result = self.session.submit(
            template,
            authorization: authorization,
            token: token,
            number: number,
            id: id,
            tag: tag,
            deadline: deadline.uptimeNanoseconds,
        )
        return self.submitted(result)
    }

    /// As ``HTTP2ClientSession/submitPlain(_:tag:deadline:)``, likewise.
    package func submitPlain(_ request: PlainRequest, tag: UInt64, deadline: NIODeadline) -> HTTP2Submission {
        guard self.isWritable else { return self.turnedAway(self.session.isOpen ? .full : .closed) }
        return self.submitted(self.session.submitPlain(request, tag: tag, deadline: deadline.uptimeNanoseconds))
    }

    @inline(__always)
    private func submitted(_ result: HTTP2Submission) -> HTTP2Submission {
        guard result == .submitted else { return self.turnedAway(result) }
        self.scheduleFlush()
        return result
    }

    private func turnedAway(_ result: HTTP2Submission) -> HTTP2Submission {
        if result == .full { self.isCapacityWanted = true }
        return result
    }

    // MARK: How it stands

    /// Streams that are open.
    package var inFlight: Int { self.session.inFlight }
    /// Requests at a time.
    package var streamsMax: Int { self.session.streamsMax }
    /// Whether the connection takes requests at all.
    package var isOpen: Bool { self.session.isOpen }
    /// Whether a request would be taken now.
    package var hasCapacity: Bool { self.isWritable && self.session.hasCapacity }
    /// Whether what was written before has left. A channel that is not active yet counts as writable.
    package private(set) var isWritable = true
    /// Bytes that the peer lets us send on the connection now.
    package var connectionWindow: Int { self.session.connectionWindow }

    /// A copy of the body of the answer that is being delivered.
    package func body(of answer: HTTP2Answer) -> [UInt8] { self.session.body(of: answer) }

    /// Lends the body of the answer that is being delivered. The closure must not call the handler.
    package func withBody<Result, Failure: Error>(
        of answer: HTTP2Answer,
        _ read: (Span<UInt8>) throws(Failure) -> Result,
    ) throws(Failure) -> Result {
        try self.session.withBody(of: answer, read)
    }

    /// A header value of the answer that is being delivered.
    package func value(of field: HTTP2AnswerField, in answer: HTTP2Answer) -> String? {
        self.session.value(of: field, in: answer)
    }

    // MARK: Control

    /// Sends a PING that must be answered before `deadline`. False: one is on its way, or it is over.
    package func ping(deadline: NIODeadline) -> Bool {
        let isSent = self.session.ping(now: Self.now(), deadline: deadline.uptimeNanoseconds)
        if isSent { self.scheduleFlush() }
        return isSent
    }

    /// Takes no more requests and closes when the last one is over.
    package func startDraining() {
        self.session.startDraining()
        self.scheduleFlush()
    }

    /// Closes now.
    package func close() {
        self.session.close()
        self.scheduleFlush()
    }

    // MARK: Channel

    /// Starts at once on an active channel.
    package func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        self.isWritable = context.channel.isWritable
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

    /// Reads, and tells the delegate at once; what it submits goes out at the end of the turn.
    package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        self.isReading = true
        let bytes = self.unwrapInboundIn(data)
        self.readAt = Self.now()
        self.bytesReceived += UInt64(bytes.readableBytes)
        self.session.receive(bytes.readableBytesUInt8Span, now: self.readAt)
        self.deliver()
    }

    /// The end of a turn of reading.
    package func channelReadComplete(context: ChannelHandlerContext) {
        self.isReading = false
        self.flush()
        context.fireChannelReadComplete()
    }

    /// What waited may go on.
    package func channelWritabilityChanged(context: ChannelHandlerContext) {
        self.isWritable = context.channel.isWritable
        if self.isWritable { self.scheduleFlush() }
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

    /// Writes what is due and flushes once, then lets the delegate refill, then sets the timer.
    private func flush() {
        self.deliver()
        self.write()
        self.deliver()
        if self.isCapacityWanted, self.hasCapacity {
            self.isCapacityWanted = false
            self.isDelivering = true
            self.delegate?.http2CapacityAvailable(self)
            self.isDelivering = false
            self.write()
            self.deliver()
        }
        self.setTimer()
    }

    private func write() {
        guard let context = self.context, context.channel.isActive, self.session.wantsWrite else { return }
        var isWritten = false
        var hasMore = true
        var writes = 0
        while hasMore, context.channel.isWritable, writes < Self.writesPerTurnMax {
            self.outbound.clear()
            hasMore = self.session.drainOutbound(into: &self.outbound, limit: Self.writeBytesMax)
            guard self.outbound.readableBytes > 0 else { break }
            self.bytesSent += UInt64(self.outbound.readableBytes)
            context.write(self.wrapOutboundOut(self.outbound), promise: nil)
            isWritten = true
            writes += 1
        }
        if isWritten { context.flush() }
        if hasMore, context.channel.isWritable { self.scheduleFlush() }
    }

    private func deliver() {
        guard !self.isDelivering else { return }
        self.isDelivering = true
        defer { self.isDelivering = false }
        while let event = self.session.nextEvent() {
            self.delegate?.http2(self, received: event)
            guard case .closed = event else { continue }
            self.delegate = nil
            self.write()
            self.timer?.cancel()
            self.timer = nil
            self.context?.close(promise: nil)
        }
    }

    private func transportEnded(_ message: String) {
        self.session.close(.transport(message))
        self.deliver()
    }

    /// Sets the timer anew only when an earlier deadline came: an early alarm finds the next one itself.
    private func setTimer() {
        guard let next = self.session.nextDeadline, next < self.timerDeadline, let context = self.context else {
            return
        }
        self.timer?.cancel()
        self.timerDeadline = next
        self.timer = context.eventLoop.assumeIsolated().scheduleTask(deadline: .uptimeNanoseconds(next)) {
            self.timerDeadline = .max
            self.session.hitDeadline(now: Self.now())
            self.flush()
        }
    }

    private static func now() -> UInt64 { NIODeadline.now().uptimeNanoseconds }
}
