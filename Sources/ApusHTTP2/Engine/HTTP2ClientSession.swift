package import NIOCore

/// A client's HTTP/2 connection as a pure engine: bytes in, bytes out, events out, the time as an argument.
///
/// Not for several threads. Nothing is allocated per templated request by this type; slots, queue and buffers are made
/// once and used again. Times are nanoseconds of one monotonic clock.
@safe package struct HTTP2ClientSession: ~Copyable {
    let state: UnsafeMutablePointer<ClientState>
    let wire: ClientWire
    private var goodbye: [UInt8] = []
    private var isDraining = false
    /// Whether the wire's ``ClientWire/Standing`` is that of last words.
    private var isDeaf = false
    /// Whether `closed` is among the events.
    package private(set) var isFinished = false

    /// A connection that has sent nothing yet; preface and SETTINGS are the first outbound bytes.
    package init(configuration: HTTP2ClientConfiguration = HTTP2ClientConfiguration()) throws(HTTP2Error) {
        let state = UnsafeMutablePointer<ClientState>.allocate(capacity: 1)
        unsafe state.initialize(to: ClientState(configuration: configuration))
        do throws(HTTP2Error) {
            self.wire = try unsafe ClientWire(configuration.engine, state)
        } catch {
            unsafe state.deinitialize(count: 1)
            unsafe state.deallocate()
            throw error
        }
        unsafe self.state = state
    }

    deinit {
        self.wire.free()
        unsafe self.state.deinitialize(count: 1)
        unsafe self.state.deallocate()
    }

    // MARK: How it stands

    /// Streams that are open, those being cancelled included.
    package var inFlight: Int { unsafe self.state.pointee.openStreams }

    /// Requests at a time: the smaller of our limit and the peer's.
    package var streamsMax: Int {
        unsafe min(self.state.pointee.configuration.streamsMax, Int(self.state.pointee.peerStreamsMax))
    }

    /// Bytes that the peer lets us send on the connection now.
    package var connectionWindow: Int { self.wire.connectionWindow }

    /// Whether the connection takes requests at all: neither side said goodbye.
    package var isOpen: Bool {
        unsafe !self.isFinished && !self.isDraining && self.state.pointee.goAwayCode == nil
    }

    /// Whether a request would be taken now.
    package var hasCapacity: Bool { self.isOpen && self.inFlight < self.streamsMax }

    /// Whether ``drainOutbound(into:limit:)`` has something to say.
    package var wantsWrite: Bool {
        if self.isFinished { return !self.goodbye.isEmpty }
        return self.wire.wantsWrite
    }

    // MARK: Bytes

    /// Reads what the peer sent. Its effects are events; what it makes us say is outbound.
    package mutating func receive(_ bytes: Span<UInt8>, now: UInt64) {
        guard !self.isFinished, !self.isDeaf else { return }
        unsafe self.state.pointee.now = now
        do throws(WireFailure) {
            try unsafe bytes.withUnsafeBufferPointer { bytes throws(WireFailure) in
                try unsafe self.wire.receive(bytes)
            }
            self.finishIfOver()
        } catch {
            self.fail(error)
        }
    }

    /// Appends frames to `buffer`, about `limit` bytes and at most two frames more. True: more is waiting.
    package mutating func drainOutbound(into buffer: inout ByteBuffer, limit: Int) -> Bool {
        precondition(limit > 0)
        guard !self.isFinished else {
            buffer.writeBytes(self.goodbye)
            self.goodbye = []
            return false
        }
        var failure: WireFailure?
        unsafe buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: OutputCursor.room(for: limit)) { room in
            guard let start = unsafe room.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return 0 }
            unsafe self.state.pointee.output.begin(start, limit: limit)
            do throws(WireFailure) {
                try self.wire.drain()
            } catch {
                failure = error
            }
            unsafe self.state.pointee.output.end()
            return unsafe self.state.pointee.output.count
        }
        if let failure {
            self.fail(failure)
            return false
        }
        self.finishIfOver()
        return unsafe self.state.pointee.output.isBlocked || !self.state.pointee.output.hasRoom
    }

    // MARK: Events

    /// The next event, in order. What the one before lent is taken back.
    package mutating func nextEvent() -> HTTP2ClientEvent? {
        unsafe self.state.pointee.releaseLent()
        guard unsafe self.state.pointee.eventCount > 0 else { return nil }
        guard let slot = unsafe self.state.pointee.dequeue() else { return unsafe self.state.pointee.dequeueRare() }
        let tag = unsafe slot.pointee.tag
        switch unsafe slot.pointee.outcome {
        case .open: preconditionFailure("an event of an open request")
        case .refused: return .refused(tag: tag)
        case .reset: return unsafe .reset(tag: tag, code: HTTP2ErrorCode(rawValue: slot.pointee.code))
        case .lost: return .reset(tag: tag, code: nil)
        case .timedOut: return .timedOut(tag: tag)
        case .answered:
            // Answered before all was sent, or more than is kept: the rest is not wanted.
            if unsafe slot.pointee.isStreamOpen { unsafe self.wire.cancel(slot) }
            return unsafe .answered(
                HTTP2Answer(
                    tag: tag,
                    status: Int(slot.pointee.status),
                    bodyCount: slot.pointee.answer.count - slot.pointee.answerFieldBytes,
                    isBodyTruncated: slot.pointee.isBodyTruncated,
                    slot: slot.pointee.index,
                    serial: self.state.pointee.lentSerial,
                )
            )
        }
    }

    /// Lends the body of the answer that was taken last.
    package func withBody<Result, Failure: Error>(
        of answer: HTTP2Answer,
        _ read: (Span<UInt8>) throws(Failure) -> Result,
    ) throws(Failure) -> Result {
        let slot = unsafe self.lentSlot(answer)
        let start = unsafe slot.pointee.answer.start.map { unsafe $0 + slot.pointee.answerFieldBytes }
        let bytes = unsafe UnsafeBufferPointer(start: start, count: answer.bodyCount)
        return try unsafe read(Span(_unsafeElements: bytes))
    }

    /// Lends a header value of the answer that was taken last; nil to the reader when there is none.
    package func value(of field: HTTP2AnswerField, in answer: HTTP2Answer) -> String? {
        let slot = unsafe self.lentSlot(answer)
        guard let range = unsafe slot.pointee.range(of: field), let start = unsafe slot.pointee.answer.start else {
            return nil
        }
        let bytes = unsafe UnsafeBufferPointer(start: start + range.lowerBound, count: range.count)
        return unsafe String(decoding: bytes, as: UTF8.self)
    }

    /// A copy of the body of the answer that was taken last.
    package func body(of answer: HTTP2Answer) -> [UInt8] {
        self.withBody(of: answer) { span in
            var copy: [UInt8] = []
            copy.reserveCapacity(span.count)
            for index in span.indices { copy.append(span[index]) }
            return copy
        }
    }

    private func lentSlot(_ answer: HTTP2Answer) -> UnsafeMutablePointer<ClientSlot> {
        precondition(
            unsafe self.state.pointee.lent == answer.slot && self.state.pointee.lentSerial == answer.serial,
            "an answer is lent only until the next event is taken",
        )
        return unsafe self.state.pointee.slots + Int(answer.slot)
    }

    // MARK: Time

    /// When ``hitDeadline(now:)`` is due at the latest; nil: nothing is awaited.
    package var nextDeadline: UInt64? {
        let head = unsafe self.state.pointee.deadlineHead
        let request = head >= 0 ? unsafe self.state.pointee.slots[Int(head)].deadline : .max
        let first = unsafe min(request, self.state.pointee.pingDeadline)
        return first == .max ? nil : first
    }

    /// Times out what is due: requests are cancelled; a PING without answer ends the connection.
    package mutating func hitDeadline(now: UInt64) {
        guard !self.isFinished else { return }
        unsafe self.state.pointee.now = now
        while unsafe self.state.pointee.deadlineHead >= 0 {
            let slot = unsafe self.state.pointee.slots + Int(self.state.pointee.deadlineHead)
            guard unsafe slot.pointee.deadline <= now else { break }
            unsafe self.state.pointee.settle(slot, .timedOut, code: 0)
            unsafe self.wire.cancel(slot)
        }
        if unsafe self.state.pointee.pingDeadline <= now { self.close(.pingTimeout) }
        // What never left is gone without a byte to write.
        self.finishIfOver()
    }

    /// Sends a PING; its answer must come before `deadline`. False: one is already on its way, or it is over.
    package mutating func ping(now: UInt64, deadline: UInt64) -> Bool {
        precondition(deadline > now)
        guard !self.isFinished, unsafe self.state.pointee.pingSentAt == nil else { return false }
        guard self.wire.ping() else { return false }
        unsafe self.state.pointee.pingSentAt = now
        unsafe self.state.pointee.pingDeadline = deadline
        return true
    }

    // MARK: The end

    /// Takes no more requests; says GOAWAY and ends when the last open one is over.
    package mutating func startDraining() {
        guard !self.isFinished else { return }
        self.isDraining = true
        self.finishIfOver()
    }

    /// Ends now. Requests that are open are refused when they never left and reset otherwise.
    package mutating func close(_ reason: HTTP2CloseReason = .closed) {
        guard !self.isFinished else { return }
        if case .transport = reason {} else { self.sayGoodbye(.noError) }
        self.finish(reason)
    }

    private mutating func finishIfOver() {
        guard !self.isFinished else { return }
        if self.isDraining, self.inFlight == 0 {
            self.sayGoodbye(.noError)
            return self.finish(.drained)
        }
        switch self.wire.standing {
        case .alive: break
        case .lastWords: self.isDeaf = true
        case .over: self.finish(self.reason)
        }
    }

    private mutating func fail(_ failure: WireFailure) {
        if let code = failure.goodbye { self.sayGoodbye(code) }
        self.finish(failure.reason ?? self.reason)
    }

    private var reason: HTTP2CloseReason {
        if let limit = unsafe self.state.pointee.violation { return .limitExceeded(limit) }
        if unsafe self.state.pointee.isNotHTTP2 { return .notHTTP2 }
        if self.isDraining { return .drained }
        if let code = unsafe self.state.pointee.goAwayCode { return .goAway(code) }
        return unsafe .protocolViolation(self.state.pointee.message)
    }

    /// Settles what is open and announces the end.
    private mutating func finish(_ reason: HTTP2CloseReason) {
        precondition(!self.isFinished)
        self.isFinished = true
        for index in 0..<(unsafe self.state.pointee.slotCount) {
            let slot = unsafe self.state.pointee.slots + index
            guard unsafe slot.pointee.isStreamOpen else { continue }
            unsafe self.state.pointee.abandon(slot, wasSent: self.wire.wasSent(slot))
        }
        unsafe self.state.pointee.pingDeadline = .max
        unsafe self.state.pointee.enqueue(.closed(reason))
    }

    /// A GOAWAY written by hand: the wire may be beyond sending.
    private mutating func sayGoodbye(_ code: HTTP2ErrorCode) {
        self.goodbye = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, UInt8(truncatingIfNeeded: code.rawValue)]
    }

    /// No more streams can be opened.
    mutating func streamsExhausted() { self.isDraining = true }
}
