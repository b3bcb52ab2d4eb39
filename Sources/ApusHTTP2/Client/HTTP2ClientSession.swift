package import NIOCore

/// A client's HTTP/2 connection as a pure engine: bytes in, bytes out, events out; the time is an argument.
///
/// ``HTTP2FrameCodec`` writes and reads the frames instead of nghttp2's session; it says why. The session is not
/// thread-safe. A templated request allocates nothing; slots, queue and buffers are allocated once and reused. Times
/// are nanoseconds of one monotonic clock.
@safe package struct HTTP2ClientSession: ~Copyable {
    private let state: UnsafeMutablePointer<ClientState>
    private var codec: HTTP2FrameCodec
    /// The GOAWAY that is sent when the connection ends.
    private var lastFrame: [UInt8] = []
    private var isDraining = false
    /// True when `closed` is among the events.
    package private(set) var isFinished = false

    /// Creates a connection that has sent nothing yet; preface and SETTINGS are the first outbound bytes.
    package init(configuration: HTTP2ClientConfiguration = HTTP2ClientConfiguration()) throws(HTTP2Error) {
        let state = UnsafeMutablePointer<ClientState>.allocate(capacity: 1)
        unsafe state.initialize(to: ClientState(configuration: configuration))
        do throws(HTTP2Error) {
            self.codec = try unsafe HTTP2FrameCodec(state)
        } catch {
            unsafe state.deinitialize(count: 1)
            unsafe state.deallocate()
            throw error
        }
        unsafe self.state = state
    }

    deinit {
        unsafe self.state.deinitialize(count: 1)
        unsafe self.state.deallocate()
    }

    // MARK: State

    /// The number of open streams, including those being cancelled.
    package var inFlight: Int { unsafe self.state.pointee.openStreams }

    /// The maximum number of concurrent requests: the smaller of our limit and the peer's.
    package var streamsMax: Int {
        unsafe min(self.state.pointee.configuration.streamsMax, Int(self.state.pointee.peerStreamsMax))
    }

    /// The time since which the peer allows no stream (SETTINGS_MAX_CONCURRENT_STREAMS = 0); nil while it allows some.
    ///
    /// Waiting requests cannot be sent on such a connection: replace it by another when this lasts.
    package var streamsForbiddenSince: UInt64? { unsafe self.state.pointee.streamsForbiddenSince }

    /// The bytes that the peer allows us to send on the connection now.
    package var connectionWindow: Int { self.codec.sendWindow }

    /// True while the connection accepts requests: neither side has ended it.
    package var isOpen: Bool {
        unsafe !self.isFinished && !self.isDraining && self.state.pointee.goAwayCode == nil
    }

    /// True when a request would be accepted now.
    package var hasCapacity: Bool { self.isOpen && self.inFlight < self.streamsMax }

    /// True when ``drainOutbound(into:limit:)`` has something to write.
    package var wantsWrite: Bool {
        if self.isFinished { return !self.lastFrame.isEmpty }
        return self.codec.wantsWrite
    }

    // MARK: Requests

    /// Submits a templated request, as every notification is.
    ///
    /// - Parameters:
    ///   - template: the constant parts; kept as long as the request needs them.
    ///   - authorization: the header of that name; nil for none.
    ///   - token: raw bytes or text, as the template requires; ignored by templates without a token.
    ///   - number: the number for the template's body, where it has a place for one.
    ///   - id: the value of the header with the request's id; nil for no such header.
    ///   - tag: returned with the request's one event.
    ///   - deadline: the time at which to stop waiting for the answer.
    ///   - validUntil: the time from which a request that still waits for its stream is not sent any more.
    package mutating func submit(
        _ template: RequestTemplate,
        authorization: HeaderValue?,
        token: Span<UInt8>,
        number: UInt32 = 0,
        id: RequestID?,
        tag: UInt64,
        deadline: UInt64,
        validUntil: UInt64 = .max,
    ) -> HTTP2Submission {
        guard self.isOpen else { return .closed }
        guard self.inFlight < self.streamsMax else { return .full }
        guard template.accepts(token) else { return .invalidToken }
        guard let slot = unsafe self.state.pointee.takeSlot() else { return .full }
        unsafe slot.pointee.begin(tag: tag, deadline: deadline, validUntil: validUntil)

        let hasPath = template.pathForm != nil
        let pathBytes = hasPath ? unsafe template.pathPrefix.count + token.count * 2 : 0
        let middleBytes = template.bodyMiddleBytesMax + template.bodyTokens * token.count
        let room = pathBytes + RequestID.textBytes + middleBytes
        let start = unsafe slot.pointee.request.reserve(room)
        var cursor = unsafe start
        if let form = template.pathForm {
            let prefix = unsafe template.pathPrefix
            unsafe cursor.update(from: prefix.start, count: prefix.count)
            unsafe cursor += prefix.count
            switch form {
            case .hexadecimal: unsafe token.writeHexadecimal(to: &cursor)
            case .text: unsafe token.copy(to: &cursor)
            }
        }
        unsafe slot.pointee.pathCount = cursor - start
        if let id {
            unsafe id.write(to: cursor)
            unsafe cursor += RequestID.textBytes
            unsafe slot.pointee.hasID = true
        }
        unsafe slot.pointee.template = self.state.pointee.templates.retain(template)
        unsafe slot.pointee.templateSerial = template.serial
        if let authorization {
            unsafe slot.pointee.authorization = self.state.pointee.authorizations.retain(authorization)
            unsafe slot.pointee.authorizationSerial = authorization.serial
        }

        let prefix = unsafe template.bodyPrefix
        let suffix = unsafe template.bodySuffix
        let middle = unsafe cursor - start
        unsafe template.writeBodyMiddle(token: token, number: number, to: &cursor)
        unsafe slot.pointee.bodyMiddle = unsafe middle..<cursor - start
        unsafe slot.pointee.bodyPrefix = UnsafeBufferPointer(start: prefix.start, count: prefix.count)
        unsafe slot.pointee.bodySuffix = UnsafeBufferPointer(start: suffix.start, count: suffix.count)
        unsafe slot.pointee.bodyCount = prefix.count + slot.pointee.bodyMiddle.count + suffix.count
        let isTaken = unsafe self.codec.submit(slot)
        return unsafe self.submitted(slot, isTaken)
    }

    /// Submits a request without a template; copies all of it.
    package mutating func submitPlain(
        _ request: PlainRequest,
        tag: UInt64,
        deadline: UInt64,
        validUntil: UInt64 = .max,
    ) -> HTTP2Submission {
        guard self.isOpen else { return .closed }
        guard self.inFlight < self.streamsMax else { return .full }
        guard let slot = unsafe self.state.pointee.takeSlot() else { return .full }
        unsafe slot.pointee.begin(tag: tag, deadline: deadline, validUntil: validUntil)
        let isTaken = unsafe self.codec.submitPlain(slot, request)
        return unsafe self.submitted(slot, isTaken)
    }

    @inline(__always)
    private mutating func submitted(_ slot: UnsafeMutablePointer<ClientSlot>, _ isTaken: Bool) -> HTTP2Submission {
        guard isTaken else {
            unsafe self.state.pointee.withdraw(slot)
            // No more streams can be opened.
            self.isDraining = true
            return .closed
        }
        unsafe self.state.pointee.opened(slot)
        return .submitted
    }

    // MARK: Bytes

    /// Parses bytes from the peer. Their effects are events; replies to them are outbound.
    package mutating func receive(_ bytes: Span<UInt8>, now: UInt64) {
        guard !self.isFinished else { return }
        unsafe self.state.pointee.now = now
        do throws(ConnectionError) {
            try unsafe bytes.withUnsafeBufferPointer { bytes throws(ConnectionError) in
                try unsafe self.codec.receive(bytes)
            }
            self.finishIfOver()
        } catch {
            self.fail(error)
        }
    }

    /// Appends frames to `buffer`, about `limit` bytes and at most two frames more. Returns true when more is waiting.
    ///
    /// A request whose time has passed is not among them, and gets its event.
    package mutating func drainOutbound(into buffer: inout ByteBuffer, limit: Int, now: UInt64) -> Bool {
        precondition(limit > 0)
        unsafe self.state.pointee.now = now
        guard !self.isFinished else {
            buffer.writeBytes(self.lastFrame)
            self.lastFrame = []
            return false
        }
        unsafe buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: OutputCursor.room(for: limit)) { room in
            guard let start = unsafe room.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return 0 }
            unsafe self.state.pointee.output.begin(start, limit: limit)
            self.codec.drain()
            unsafe self.state.pointee.output.end()
            return unsafe self.state.pointee.output.count
        }
        self.finishIfOver()
        return unsafe !self.state.pointee.output.hasRoom
    }

    // MARK: Events

    /// Returns the next event, in order. The answer that was lent with the previous one is released.
    package mutating func nextEvent() -> HTTP2ClientEvent? {
        unsafe self.state.pointee.releaseLent()
        guard unsafe self.state.pointee.eventCount > 0 else { return nil }
        guard let slot = unsafe self.state.pointee.dequeue() else { return unsafe self.state.pointee.dequeueRare() }
        let tag = unsafe slot.pointee.tag
        switch unsafe slot.pointee.outcome {
        case .open: preconditionFailure("an event of an open request")
        case .refused: return .refused(tag: tag)
        case .stale: return .unsent(tag: tag, isOverdue: false)
        case .overdue: return .unsent(tag: tag, isOverdue: true)
        case .reset: return unsafe .reset(tag: tag, code: HTTP2ErrorCode(rawValue: slot.pointee.code))
        case .lost: return .reset(tag: tag, code: nil)
        case .timedOut: return .timedOut(tag: tag)
        case .answered:
            // The answer came before the request was sent, or exceeds the kept part: the rest is not needed.
            if unsafe slot.pointee.isStreamOpen { unsafe self.codec.cancel(slot) }
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

    /// Lends the body of the latest answer.
    package func withBody<Result, Failure: Error>(
        of answer: HTTP2Answer,
        _ read: (Span<UInt8>) throws(Failure) -> Result,
    ) throws(Failure) -> Result {
        let slot = unsafe self.lentSlot(answer)
        let start = unsafe slot.pointee.answer.start.map { unsafe $0 + slot.pointee.answerFieldBytes }
        let bytes = unsafe UnsafeBufferPointer(start: start, count: answer.bodyCount)
        return try unsafe read(Span(_unsafeElements: bytes))
    }

    /// Returns a header value of the latest answer; nil when there is none.
    package func value(of field: HTTP2AnswerField, in answer: HTTP2Answer) -> String? {
        let slot = unsafe self.lentSlot(answer)
        guard let range = unsafe slot.pointee.range(of: field), let start = unsafe slot.pointee.answer.start else {
            return nil
        }
        let bytes = unsafe UnsafeBufferPointer(start: start + range.lowerBound, count: range.count)
        return unsafe String(decoding: bytes, as: UTF8.self)
    }

    /// Returns a copy of the body of the latest answer.
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

    /// The latest time at which ``hitDeadline(now:)`` must be called; nil when nothing is awaited.
    package var nextDeadline: UInt64? {
        let head = unsafe self.state.pointee.deadlineHead
        let request = head >= 0 ? unsafe self.state.pointee.slots[Int(head)].deadline : .max
        let first = unsafe min(request, self.state.pointee.pingDeadline)
        return first == .max ? nil : first
    }

    /// Handles deadlines that have passed: requests are cancelled; a PING without an answer ends the connection.
    package mutating func hitDeadline(now: UInt64) {
        guard !self.isFinished else { return }
        unsafe self.state.pointee.now = now
        while unsafe self.state.pointee.deadlineHead >= 0 {
            let slot = unsafe self.state.pointee.slots + Int(self.state.pointee.deadlineHead)
            guard unsafe slot.pointee.deadline <= now else { break }
            unsafe self.state.pointee.settle(slot, slot.pointee.streamID > 0 ? .timedOut : .overdue, code: 0)
            unsafe self.codec.cancel(slot)
        }
        if unsafe self.state.pointee.pingDeadline <= now { self.close(.pingTimeout) }
        // A request that was never sent ends without a byte to write.
        self.finishIfOver()
    }

    /// Sends a PING, whose answer must come before `deadline`. Returns false when one is under way, or the connection has ended.
    package mutating func ping(now: UInt64, deadline: UInt64) -> Bool {
        precondition(deadline > now)
        guard !self.isFinished, unsafe self.state.pointee.pingSentAt == nil else { return false }
        self.codec.ping()
        unsafe self.state.pointee.pingSentAt = now
        unsafe self.state.pointee.pingDeadline = deadline
        return true
    }

    // MARK: Closing

    /// Accepts no more requests; sends GOAWAY and ends after the last open one. Requests that have no stream and can
    /// get none, because the peer allows none, are refused.
    package mutating func startDraining() {
        guard !self.isFinished else { return }
        self.isDraining = true
        self.finishIfOver()
    }

    /// Ends the connection at once. Open requests are refused when they were never sent, otherwise reset.
    package mutating func close(_ reason: HTTP2CloseReason = .closed) {
        guard !self.isFinished else { return }
        if case .transport = reason {} else { self.prepareGoAway(.noError) }
        self.finish(reason)
    }

    private mutating func finishIfOver() {
        guard !self.isFinished else { return }
        if self.isDraining {
            if unsafe self.state.pointee.peerStreamsMax == 0 { self.codec.refuseWaiting() }
            guard self.inFlight > 0 else {
                self.prepareGoAway(.noError)
                return self.finish(.drained)
            }
        }
        if self.codec.isOver { self.finish(self.reason) }
    }

    private mutating func fail(_ error: ConnectionError) {
        if let code = error.code { self.prepareGoAway(code) }
        self.finish(error.reason ?? self.reason)
    }

    private var reason: HTTP2CloseReason {
        if let limit = unsafe self.state.pointee.violation { return .limitExceeded(limit) }
        if self.isDraining { return .drained }
        return unsafe .goAway(self.state.pointee.goAwayCode ?? .noError)
    }

    /// Settles open requests and announces the end.
    private mutating func finish(_ reason: HTTP2CloseReason) {
        precondition(!self.isFinished)
        self.isFinished = true
        for index in 0..<(unsafe self.state.pointee.slotCount) {
            let slot = unsafe self.state.pointee.slots + index
            guard unsafe slot.pointee.isStreamOpen else { continue }
            unsafe self.state.pointee.abandon(slot)
        }
        unsafe self.state.pointee.pingDeadline = .max
        unsafe self.state.pointee.enqueue(.closed(reason))
    }

    /// Prepares the last GOAWAY, which is sent even when the codec can send no more.
    private mutating func prepareGoAway(_ code: HTTP2ErrorCode) {
        self.lastFrame = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, UInt8(truncatingIfNeeded: code.rawValue)]
    }
}
