internal import NIOCore

/// Drives the pipeline and the parser of one connection on its event loop. All commands of one turn of the loop are sent in one write.
final class RedisChannelHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// The minimum bytes of a command that is written from its own buffer, without a copy into the common buffer.
    private static let ownWriteBytesMin = 32 * 1_024
    /// The maximum capacity of a common buffer that is kept for the next write.
    private static let outboundKeptBytesMax = 1_024 * 1_024

    private let eventLoop: any EventLoop
    private let observer: (any RedisObserver)?
    private var pipeline: RedisPipeline<SentCommand>
    private var parser = RESPParser()
    private var context: ChannelHandlerContext?
    private var outbound = ByteBuffer()
    private var outboundIsSent = true
    private var isFlushScheduled = false
    private var isLateFlushScheduled = false
    private var isReading = false
    private var wakeUp: Scheduled<Void>?
    private var wakeUpAt = NIODeadline.distantFuture
    private(set) var closeReason: RedisError?
    /// The handle by which replies reach this connection after they have left the event loop.
    private let link: Link

    /// Closes the connection from any thread.
    private final class Link: ReplyConnection {
        private let eventLoop: any EventLoop
        private let handler: NIOLoopBoundBox<RedisChannelHandler?>

        init(_ eventLoop: any EventLoop) {
            self.eventLoop = eventLoop
            self.handler = NIOLoopBoundBox(nil, eventLoop: eventLoop)
        }

        func attach(_ handler: RedisChannelHandler?) { self.handler.value = handler }

        func close(because error: RedisError) {
            self.eventLoop.execute { self.handler.value?.close(error) }
        }
    }

    init(
        limits: RedisPipeline<SentCommand>.Limits,
        eventLoop: any EventLoop,
        observer: (any RedisObserver)?,
    ) {
        self.eventLoop = eventLoop
        self.observer = observer
        self.pipeline = RedisPipeline(limits: limits, now: eventLoop.now)
        self.link = Link(eventLoop)
    }

    /// True while commands are accepted.
    var isOpen: Bool { self.context != nil && self.closeReason == nil }

    /// The number of commands that await their replies.
    var pendingCount: Int { self.pipeline.pendingCount }

    /// Sends a command.
    ///
    /// - Parameters:
    ///   - mayWait: when true, the command is sent with the next one that may not wait, or by itself after ``RedisLimits/waitMax``.
    ///   - receive: takes the reply, or the error that the server answered.
    func submit(
        _ command: RedisCommand,
        timeout: TimeAmount,
        mayBlock: Bool,
        mayWait: Bool,
        _ receive: @escaping ReceiveReply,
    ) {
        self.eventLoop.assertInEventLoop()
        guard self.isOpen else { return receive(.failure(RedisError(.notConnected, "the connection is closed"))) }
        let byteCount = command.encoded.readableBytes
        let now = self.eventLoop.now
        let sent = SentCommand(
            receive: receive,
            label: command.label,
            name: command.function ?? command.label,
            at: mayBlock ? nil : now
        )
        switch self.pipeline.submit(sent, byteCount: byteCount, deadline: now + timeout) {
        case .write:
            self.write(command.encoded, mayWait: mayWait)
            self.scheduleWakeUp()
        case .refuse(let error):
            receive(.failure(error))
        }
    }

    /// Closes the connection; commands that await a reply fail with `disconnected`.
    func close(_ reason: RedisError) {
        guard self.closeReason == nil else { return }
        self.closeReason = reason
        self.context?.close(promise: nil)
    }

    // MARK: Events of the channel

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        self.link.attach(self)
        self.scheduleWakeUp()
    }

    func handlerRemoved(context: ChannelHandlerContext) { self.end() }

    func channelInactive(context: ChannelHandlerContext) {
        self.end()
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        self.close(RedisError(error))
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let bytes = self.unwrapInboundIn(data)
        guard self.closeReason == nil else { return }
        self.isReading = true
        let now = self.eventLoop.now
        self.pipeline.bytesReceived(now: now)
        var violation: RedisError?
        do throws(RedisError) {
            try self.parser.receive(bytes.readableBytesUInt8Span)
        } catch {
            violation = error
        }
        while let reply = self.parser.nextReply() {
            switch self.pipeline.replyReceived() {
            case .complete(let command): self.complete(command, with: reply, now: now)
            case .drop: break
            case .violation(let error): violation = violation ?? error
            }
        }
        if let violation { self.close(violation) }
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        self.noteWritability()
        context.fireChannelWritabilityChanged()
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        self.isReading = false
        self.flush()
        context.fireChannelReadComplete()
    }

    private func complete(_ command: SentCommand, with reply: RESPReply, now: NIODeadline) {
        do throws(RedisError) {
            reply.received(from: RESPReply.Origin(command: command.name, connection: self.link))
            let answer = try reply.checked()
            self.report(command, .answered, now)
            command.receive(.success(answer))
        } catch {
            self.report(command, .refused, now)
            command.receive(.failure(error))
        }
    }

    private func report(_ command: SentCommand, _ ending: RedisCommandEnding, _ now: NIODeadline) {
        guard let observer = self.observer else { return }
        observer.commandEnded(command.label, ending, nanoseconds: command.at.map { (now - $0).nanoseconds })
    }

    /// Fails all waiting commands after the channel is gone.
    private func end() {
        guard self.context != nil else { return }
        self.context = nil
        self.link.attach(nil)
        self.wakeUp?.cancel()
        self.wakeUp = nil
        let reason = self.closeReason ?? RedisError(.disconnected, "the server closed the connection")
        self.closeReason = reason
        let now = self.eventLoop.now
        for command in self.pipeline.closed() {
            self.report(command, RedisCommandEnding(closedBecause: reason), now)
            command.receive(.failure(Self.commandError(reason)))
        }
    }

    /// Returns the error for a command that was accepted and has no reply.
    private static func commandError(_ reason: RedisError) -> RedisError {
        // Before the end of the handshake nothing was sent.
        if reason.code == .tls || reason.code == .notConnected { return reason }
        // Whatever the cause, the outcome of a command that was sent is unknown.
        return reason.isOutcomeUnknown ? reason : RedisError(.disconnected, reason.message)
    }

    // MARK: Writing

    private func write(_ bytes: ByteBuffer, mayWait: Bool = false) {
        if self.outboundIsSent {
            // The socket has usually released the buffer by now: then this reuses its memory.
            if self.outbound.capacity > Self.outboundKeptBytesMax { self.outbound = ByteBuffer() }
            self.outbound.clear()
            self.outboundIsSent = false
        }
        if bytes.readableBytes >= Self.ownWriteBytesMin {
            self.writeOutbound()
            self.writeToChannel(bytes)
        } else {
            self.outbound.writeImmutableBuffer(bytes)
        }
        guard !self.isReading, !self.isFlushScheduled else { return }
        guard !mayWait else { return self.scheduleLateFlush() }
        self.isFlushScheduled = true
        self.eventLoop.assumeIsolated().execute {
            self.isFlushScheduled = false
            self.flush()
        }
    }

    /// Schedules a write for commands that wait for others, in case none comes.
    private func scheduleLateFlush() {
        guard !self.isLateFlushScheduled else { return }
        self.isLateFlushScheduled = true
        self.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(RedisLimits.waitMax)) {
            self.isLateFlushScheduled = false
            self.flush()
        }
    }

    private func flush() {
        self.writeOutbound()
        self.context?.flush()
        self.noteWritability()
    }

    /// Tells the pipeline when the socket has taken all but a few bytes: NIO calls it writable then.
    private func noteWritability() {
        if self.context?.channel.isWritable == true { self.pipeline.drained() }
    }

    private func writeOutbound() {
        guard !self.outboundIsSent else { return }
        self.outboundIsSent = true
        guard self.outbound.readableBytes > 0 else { return }
        self.writeToChannel(self.outbound)
    }

    private func writeToChannel(_ bytes: ByteBuffer) {
        self.context?.write(self.wrapOutboundOut(bytes), promise: nil)
    }

    // MARK: Time

    private func scheduleWakeUp() {
        let deadline = self.pipeline.nextDeadline
        guard deadline < self.wakeUpAt, self.context != nil else { return }
        self.wakeUp?.cancel()
        self.wakeUpAt = deadline
        self.wakeUp = self.eventLoop.assumeIsolated().scheduleTask(deadline: deadline) { self.wakeUpNow() }
    }

    private func wakeUpNow() {
        self.wakeUpAt = .distantFuture
        self.wakeUp = nil
        switch self.pipeline.hitDeadline(now: self.eventLoop.now) {
        case .wait:
            self.scheduleWakeUp()
        case .ping:
            self.write(RedisPipelinePing.command.encoded)
            self.scheduleWakeUp()
        case .close(let error):
            self.close(error)
        case .stop:
            break
        }
    }
}

/// Takes the reply to a command, or the error because of which there is none: once, on the connection's event loop.
///
/// A command under way has no future: making and ending one takes NIO longer than the rest of a command takes here.
typealias ReceiveReply = (Result<RESPReply, RedisError>) -> Void

extension EventLoopPromise<RESPReply> {
    /// Completes the promise with the reply to a command.
    func receive(_ result: Result<RESPReply, RedisError>) {
        switch result {
        case .success(let reply): self.succeed(reply)
        case .failure(let error): self.fail(error)
        }
    }
}

/// A command that awaits its reply.
struct SentCommand {
    let receive: ReceiveReply
    /// The command's name in lower case, as metrics show it.
    let label: String
    /// The command's name in errors: the function of a call, otherwise the label.
    let name: String
    /// The time of sending; nil for a command that may block, whose duration is not measured.
    let at: NIODeadline?
}

extension RedisConfiguration {
    /// The limits of a connection's pipeline.
    var pipelineLimits: RedisPipeline<SentCommand>.Limits {
        RedisPipeline.Limits(
            pendingMax: self.pendingCommandsMax,
            outboundBytesMax: RedisLimits.outboundBytesMax,
            keepAlive: TimeAmount(self.keepAlive),
            pingTimeout: TimeAmount(self.requestTimeout),
        )
    }
}
