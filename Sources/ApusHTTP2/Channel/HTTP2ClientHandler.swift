package import NIOCore

/// Receives the events of a client's connection, on its event loop.
package protocol HTTP2ClientDelegate: AnyObject {
    /// Receives an event. Until this returns, an answer's body and header values can be read from `handler`; requests
    /// may be submitted from here.
    func http2(_ handler: HTTP2ClientHandler, received event: HTTP2ClientEvent)
    /// Reports room after a request was turned away as `full`. Called once, after a turn's events.
    func http2CapacityAvailable(_ handler: HTTP2ClientHandler)
}

/// Drives an ``HTTP2ClientSession`` on one channel. All calls must be made on its event loop.
///
/// The handler belongs above the TLS handler. It sends the preface and SETTINGS when the channel is active. A caller
/// that must see the ALPN result first adds the handler within the call that reports the handshake: a server's first
/// bytes may follow immediately, and a pipeline drops what nobody reads. Requests are gathered and flushed once per
/// turn of the loop.
package final class HTTP2ClientHandler: HTTP2ConnectionHandler {
    private var session: HTTP2ClientSession
    private var delegate: (any HTTP2ClientDelegate)?
    private var isDelivering = false
    private var isCapacityWanted = false
    private var timer: Scheduled<Void>?
    private var timerDeadline = UInt64.max
    /// The time at which the last bytes were read, in nanoseconds of the monotonic clock; the same for all answers in them.
    package private(set) var readAt: UInt64 = 0

    /// Creates a handler that reports to `delegate`, which it holds until `closed` was delivered.
    package init(
        configuration: HTTP2ClientConfiguration = HTTP2ClientConfiguration(),
        delegate: any HTTP2ClientDelegate,
    ) throws(HTTP2Error) {
        self.session = try HTTP2ClientSession(configuration: configuration)
        self.delegate = delegate
        super.init()
    }

    // MARK: Requests

    /// Submits a request as the session does; returns `full`
    /// also while the channel is not writable. After `full` the delegate is called when there is room.
    package func submit(
        _ template: RequestTemplate,
        authorization: HeaderValue?,
        token: Span<UInt8>,
        number: UInt32 = 0,
        id: RequestID?,
        tag: UInt64,
        deadline: NIODeadline,
        validUntil: UInt64 = .max,
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
            validUntil: validUntil,
        )
        return self.submitted(result)
    }

    /// Submits a plain request as the session does, under the same conditions.
    package func submitPlain(
        _ request: PlainRequest,
        tag: UInt64,
        deadline: NIODeadline,
        validUntil: UInt64 = .max,
    ) -> HTTP2Submission {
        guard self.isWritable else { return self.turnedAway(self.session.isOpen ? .full : .closed) }
        let result = self.session.submitPlain(
            request,
            tag: tag,
            deadline: deadline.uptimeNanoseconds,
            validUntil: validUntil,
        )
        return self.submitted(result)
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

    /// The number of open streams.
    package var inFlight: Int { self.session.inFlight }
    /// The maximum number of concurrent requests.
    package var streamsMax: Int { self.session.streamsMax }
    /// True while the connection accepts requests.
    package var isOpen: Bool { self.session.isOpen }
    /// True when a request would be accepted now.
    package var hasCapacity: Bool { self.isWritable && self.session.hasCapacity }
    /// The time since which the peer allows no stream: see ``HTTP2ClientSession/streamsForbiddenSince``.
    package var streamsForbiddenSince: NIODeadline? {
        self.session.streamsForbiddenSince.map(NIODeadline.uptimeNanoseconds)
    }
    /// The bytes that the peer allows us to send on the connection now.
    package var connectionWindow: Int { self.session.connectionWindow }

    /// Returns a copy of the body of the answer that is being delivered.
    package func body(of answer: HTTP2Answer) -> [UInt8] { self.session.body(of: answer) }

    /// Lends the body of the answer that is being delivered. The closure must not call the handler.
    package func withBody<Result, Failure: Error>(
        of answer: HTTP2Answer,
        _ read: (Span<UInt8>) throws(Failure) -> Result,
    ) throws(Failure) -> Result {
        try self.session.withBody(of: answer, read)
    }

    /// Returns a header value of the answer that is being delivered.
    package func value(of field: HTTP2AnswerField, in answer: HTTP2Answer) -> String? {
        self.session.value(of: field, in: answer)
    }

    // MARK: Control

    /// Sends a PING that must be answered before `deadline`; returns false when one is under way or the connection has ended.
    package func ping(deadline: NIODeadline) -> Bool {
        let isSent = self.session.ping(now: Self.now(), deadline: deadline.uptimeNanoseconds)
        if isSent { self.scheduleFlush() }
        return isSent
    }

    /// Accepts no more requests and closes after the last one has ended.
    package func startDraining() {
        self.session.startDraining()
        self.scheduleFlush()
    }

    /// Closes the connection at once.
    package func close() {
        self.session.close()
        self.scheduleFlush()
    }

    // MARK: Reads and writes

    override func receive(_ bytes: ByteBuffer) {
        self.readAt = Self.now()
        self.session.receive(bytes.readableBytesUInt8Span, now: self.readAt)
        self.deliver()
    }

    /// Writes pending frames and flushes once, then lets the delegate refill, then sets the timer.
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
        let now = Self.now()
        self.write { self.session.drainOutbound(into: &$0, limit: $1, now: now) }
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

    /// Resets the timer only for an earlier deadline: a timer that fires early finds the next deadline itself.
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
