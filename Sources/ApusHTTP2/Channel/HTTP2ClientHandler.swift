package import NIOCore

/// Receives the events of a client's connection, on its event loop.
package protocol HTTP2ClientDelegate: AnyObject {
    /// Receives an event. An answer's body and header values can be asked for at `handler` until this returns; requests may be
    /// submitted from here.
    func http2(_ handler: HTTP2ClientHandler, received event: HTTP2ClientEvent)
    /// Says that there is room again after a request was turned away as `full`. Called once, after a turn's events.
    func http2CapacityAvailable(_ handler: HTTP2ClientHandler)
}

/// Drives an ``HTTP2ClientSession`` on one channel. Everything is to be called on its event loop.
///
/// Belongs above the TLS handler. Preface and SETTINGS go out when the channel is active. Whoever must see the ALPN result
/// first adds the handler in the very call that reports the handshake: a server's first bytes may come right behind it,
/// and a pipeline drops what nobody reads. Requests are gathered and flushed once per turn of the loop.
package final class HTTP2ClientHandler: HTTP2ConnectionHandler {
    private var session: HTTP2ClientSession
    private var delegate: (any HTTP2ClientDelegate)?
    private var isDelivering = false
    private var isCapacityWanted = false
    private var timer: Scheduled<Void>?
    private var timerDeadline = UInt64.max
    /// When the last bytes were read, in nanoseconds of the monotonic clock; the same for all answers in them.
    package private(set) var readAt: UInt64 = 0

    /// A handler that reports to `delegate`, which is held until `closed` was delivered.
    package init(
        configuration: HTTP2ClientConfiguration = HTTP2ClientConfiguration(),
        delegate: any HTTP2ClientDelegate,
    ) throws(HTTP2Error) {
        self.session = try HTTP2ClientSession(configuration: configuration)
        self.delegate = delegate
        super.init()
    }

    // MARK: Requests

    /// As ``HTTP2ClientSession/submit(_:authorization:token:id:tag:deadline:)``; `full` also while the channel is not
    /// writable. After `full` the delegate is called when there is room.
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

    // MARK: State

    /// Streams that are open.
    package var inFlight: Int { self.session.inFlight }
    /// Requests at a time.
    package var streamsMax: Int { self.session.streamsMax }
    /// Whether the connection takes requests at all.
    package var isOpen: Bool { self.session.isOpen }
    /// Whether a request would be taken now.
    package var hasCapacity: Bool { self.isWritable && self.session.hasCapacity }
    /// As ``HTTP2ClientSession/streamsForbiddenSince``.
    package var streamsForbiddenSince: NIODeadline? {
        self.session.streamsForbiddenSince.map(NIODeadline.uptimeNanoseconds)
    }
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

    /// Sends a PING that must be answered before `deadline`; false when one is on its way or the connection is over.
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

    // MARK: The turn

    override func receive(_ bytes: ByteBuffer) {
        self.readAt = Self.now()
        self.session.receive(bytes.readableBytesUInt8Span, now: self.readAt)
        self.deliver()
    }

    /// Writes what is due and flushes once, then lets the delegate refill, then sets the timer.
    override func flush() {
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
        guard self.session.wantsWrite else { return }
        self.write { self.session.drainOutbound(into: &$0, limit: $1) }
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

    override func transportEnded(_ message: String) {
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
