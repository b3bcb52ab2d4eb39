package import NIOCore

/// Drives a session on one channel: the common part of ``HTTP2ClientHandler`` and ``HTTP2ServerHandler``.
///
/// All calls must be made on the channel's event loop. Everything written in a turn of the loop is gathered and flushed once.
package class HTTP2ConnectionHandler: ChannelInboundHandler {
    /// Bytes from the peer.
    package typealias InboundIn = ByteBuffer
    /// The handler passes nothing on to later handlers.
    package typealias InboundOut = Never
    /// Bytes to the peer.
    package typealias OutboundOut = ByteBuffer

    /// The maximum bytes gathered into one write.
    static let writeBytesMax = 64 * 1_024
    /// The maximum number of writes before a flush; the rest waits for the next turn, so that one connection cannot monopolise the loop.
    static let writesPerTurnMax = 8

    final private(set) var context: ChannelHandlerContext?
    private var outbound = ByteBuffer()
    private var isFlushScheduled = false
    private var isReading = false
    /// True when earlier writes have left the channel's buffer. A channel that is not active yet counts as writable.
    package final private(set) var isWritable = true
    /// The bytes written to the channel, and read from it.
    package final private(set) var bytesSent: UInt64 = 0
    package final private(set) var bytesReceived: UInt64 = 0
    /// The error of a handler below that ended the connection; nil when there was none.
    package final private(set) var failure: (any Error)?

    init() {}

    // MARK: Methods for subclasses

    /// Passes bytes to the session and delivers its events.
    func receive(_ bytes: ByteBuffer) { preconditionFailure("a subclass receives") }

    /// Delivers events and writes pending frames.
    func flush() { preconditionFailure("a subclass flushes") }

    /// Ends the session because its transport has ended.
    func transportEnded(_ message: String) { preconditionFailure("a subclass ends") }

    // MARK: Channel

    /// Starts the session at once on an active channel.
    package func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        self.isWritable = context.channel.isWritable
        if context.channel.isActive { self.flush() }
    }

    /// Ends the session when the pipeline is taken down.
    package func handlerRemoved(context: ChannelHandlerContext) {
        self.transportEnded("the pipeline was taken down")
        self.context = nil
    }

    /// Starts the session.
    package func channelActive(context: ChannelHandlerContext) {
        self.flush()
        context.fireChannelActive()
    }

    /// Ends the session.
    package func channelInactive(context: ChannelHandlerContext) {
        self.transportEnded("closed by the peer")
        context.fireChannelInactive()
    }

    /// Reads; requests that the delegate submits meanwhile are sent at the end of the turn.
    package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        self.isReading = true
        let bytes = self.unwrapInboundIn(data)
        self.bytesReceived += UInt64(bytes.readableBytes)
        self.receive(bytes)
    }

    /// Flushes at the end of a turn of reading.
    package func channelReadComplete(context: ChannelHandlerContext) {
        self.isReading = false
        self.flush()
        context.fireChannelReadComplete()
    }

    /// Resumes writing.
    package func channelWritabilityChanged(context: ChannelHandlerContext) {
        self.isWritable = context.channel.isWritable
        if self.isWritable { self.scheduleFlush() }
        context.fireChannelWritabilityChanged()
    }

    /// Ends the connection when a handler below fails.
    package func errorCaught(context: ChannelHandlerContext, error: any Error) {
        self.failure = self.failure ?? error
        self.transportEnded(String(describing: error))
        context.close(promise: nil)
    }

    // MARK: Writing

    /// Schedules a flush in this turn of the loop; not while reading, whose end flushes.
    final func scheduleFlush() {
        guard !self.isFlushScheduled, !self.isReading, let context = self.context else { return }
        self.isFlushScheduled = true
        context.eventLoop.assumeIsolated().execute {
            self.isFlushScheduled = false
            self.flush()
        }
    }

    /// Writes a session's frames, and flushes once. `drain` gets the buffer and a limit, and returns true when more is waiting.
    final func write(_ drain: (inout ByteBuffer, Int) -> Bool) {
        guard let context = self.context, context.channel.isActive else { return }
        var isWritten = false
        var hasMore = true
        var writes = 0
        while hasMore, context.channel.isWritable, writes < Self.writesPerTurnMax {
            self.outbound.clear()
            hasMore = drain(&self.outbound, Self.writeBytesMax)
            guard self.outbound.readableBytes > 0 else { break }
            self.bytesSent += UInt64(self.outbound.readableBytes)
            context.write(self.wrapOutboundOut(self.outbound), promise: nil)
            isWritten = true
            writes += 1
        }
        if isWritten { context.flush() }
        if hasMore, context.channel.isWritable { self.scheduleFlush() }
    }
}
