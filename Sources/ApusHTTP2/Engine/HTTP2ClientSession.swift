internal import CNghttp2
package import NIOCore

/// A client's HTTP/2 connection as a pure engine: bytes in, bytes out, events out, the time as an argument.
///
/// Not for several threads. Nothing is allocated per templated request by this type; slots, queue and buffers are made
/// once and used again. Times are nanoseconds of one monotonic clock.
@safe package struct HTTP2ClientSession: ~Copyable {
    let raw: OpaquePointer
    let state: UnsafeMutablePointer<ClientState>
    /// Room for the header list of one request.
    let fields: UnsafeMutablePointer<nghttp2_nv>
    private var goodbye: [UInt8] = []
    private var isDraining = false
    private var isTerminated = false
    /// Whether `closed` is among the events.
    package private(set) var isFinished = false

    private static let fieldsMax = HTTP2Limits.headersMax + 6

    /// A connection that has sent nothing yet; preface and SETTINGS are the first outbound bytes.
    package init(configuration: HTTP2ClientConfiguration = HTTP2ClientConfiguration()) throws(HTTP2Error) {
        let callbacks = unsafe try ClientCallbacks.make()
        defer { unsafe nghttp2_session_callbacks_del(callbacks) }
        var options: OpaquePointer?
        guard unsafe nghttp2_option_new(&options) == 0 else { throw HTTP2Error(.outOfMemory, "nghttp2_option_new") }
        defer { unsafe nghttp2_option_del(options) }
        unsafe nghttp2_option_set_no_closed_streams(options, 1)
        unsafe nghttp2_option_set_max_settings(options, HTTP2Limits.settingsEntriesMax)
        unsafe nghttp2_option_set_max_outbound_ack(options, HTTP2Limits.acknowledgementsMax)
        unsafe nghttp2_option_set_peer_max_concurrent_streams(
            options,
            UInt32(clamping: configuration.streamsMaxBeforeSettings),
        )
        let state = UnsafeMutablePointer<ClientState>.allocate(capacity: 1)
        unsafe state.initialize(to: ClientState(configuration: configuration))
        var made: OpaquePointer?
        guard unsafe nghttp2_session_client_new2(&made, callbacks, state, options) == 0, let raw = unsafe made else {
            unsafe state.deinitialize(count: 1)
            unsafe state.deallocate()
            throw HTTP2Error(.outOfMemory, "nghttp2_session_client_new2")
        }
        unsafe self.raw = raw
        unsafe self.state = state
        unsafe self.fields = .allocate(capacity: Self.fieldsMax)
        let settings: [nghttp2_settings_entry] = [
            .init(settings_id: Int32(NGHTTP2_SETTINGS_ENABLE_PUSH.rawValue), value: 0),
            .init(
                settings_id: Int32(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE.rawValue),
                value: UInt32(configuration.streamWindow),
            ),
            .init(
                settings_id: Int32(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE.rawValue),
                value: UInt32(configuration.headerListBytesMax),
            ),
        ]
        let flags = UInt8(NGHTTP2_FLAG_NONE.rawValue)
        let isSet = unsafe nghttp2_submit_settings(raw, flags, settings, settings.count)
        let isWide = unsafe nghttp2_session_set_local_window_size(raw, flags, 0, Int32(configuration.connectionWindow))
        precondition(isSet == 0 && isWide == 0, "the configuration was checked")
    }

    deinit {
        unsafe nghttp2_session_del(self.raw)
        unsafe self.state.deinitialize(count: 1)
        unsafe self.state.deallocate()
        unsafe self.fields.deallocate()
    }

    // MARK: How it stands

    /// Streams that are open, those being cancelled included.
    package var inFlight: Int { unsafe self.state.pointee.openStreams }

    /// Requests at a time: the smaller of our limit and the peer's.
    package var streamsMax: Int {
        unsafe min(self.state.pointee.configuration.streamsMax, Int(self.state.pointee.peerStreamsMax))
    }

    /// Bytes that the peer lets us send on the connection now.
    package var connectionWindow: Int { unsafe Int(nghttp2_session_get_remote_window_size(self.raw)) }

    /// Whether the connection takes requests at all: neither side said goodbye.
    package var isOpen: Bool {
        unsafe !self.isFinished && !self.isDraining && self.state.pointee.goAwayCode == nil
    }

    /// Whether a request would be taken now.
    package var hasCapacity: Bool { self.isOpen && self.inFlight < self.streamsMax }

    /// Whether ``drainOutbound(into:limit:)`` has something to say.
    package var wantsWrite: Bool {
        if self.isFinished { return !self.goodbye.isEmpty }
        return unsafe nghttp2_session_want_write(self.raw) != 0
    }

    // MARK: Bytes

    /// Reads what the peer sent. Its effects are events; what it makes us say is outbound.
    package mutating func receive(_ bytes: Span<UInt8>, now: UInt64) {
        guard !self.isFinished, !self.isTerminated else { return }
        unsafe self.state.pointee.now = now
        let result = unsafe bytes.withUnsafeBufferPointer {
            unsafe nghttp2_session_mem_recv(self.raw, $0.baseAddress, $0.count)
        }
        guard result < 0 else { return self.finishIfOver() }
        switch Int32(result) {
        case Int32(NGHTTP2_ERR_NOMEM.rawValue): self.finish(.outOfMemory)
        case Int32(NGHTTP2_ERR_FLOODED.rawValue):
            self.sayGoodbye(.enhanceYourCalm)
            self.finish(.limitExceeded(.acknowledgements))
        case Int32(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue):
            self.sayGoodbye(.enhanceYourCalm)
            self.finish(self.reason)
        default:
            self.sayGoodbye(.protocolError)
            let text = unsafe String(cString: nghttp2_strerror(Int32(result)))
            self.finish(.protocolViolation(text))
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
        var failure: Int32 = 0
        unsafe buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: OutputCursor.room(for: limit)) { room in
            guard let start = unsafe room.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return 0 }
            unsafe self.state.pointee.output.begin(start, limit: limit)
            while unsafe self.state.pointee.output.hasRoom {
                var chunk: UnsafePointer<UInt8>?
                let count = unsafe nghttp2_session_mem_send(self.raw, &chunk)
                guard count > 0, let chunk = unsafe chunk else {
                    failure = Int32(count)
                    break
                }
                precondition(count <= HTTP2Limits.chunkBytesMax)
                unsafe self.state.pointee.output.append(chunk, count: count)
            }
            unsafe self.state.pointee.output.end()
            return unsafe self.state.pointee.output.count
        }
        if failure < 0 {
            self.finish(
                failure == NGHTTP2_ERR_NOMEM.rawValue ? .outOfMemory : .protocolViolation("nothing can be sent")
            )
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
            if unsafe slot.pointee.isStreamOpen { unsafe self.cancel(slot) }
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
            unsafe self.cancel(slot)
        }
        if unsafe self.state.pointee.pingDeadline <= now { self.close(.pingTimeout) }
    }

    /// Sends a PING; its answer must come before `deadline`. False: one is already on its way, or it is over.
    package mutating func ping(now: UInt64, deadline: UInt64) -> Bool {
        precondition(deadline > now)
        guard !self.isFinished, unsafe self.state.pointee.pingSentAt == nil else { return false }
        let result = unsafe nghttp2_submit_ping(self.raw, UInt8(NGHTTP2_FLAG_NONE.rawValue), nil)
        guard result == 0 else { return false }
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
        if self.isDraining, !self.isTerminated, self.inFlight == 0 {
            self.isTerminated = true
            unsafe nghttp2_session_terminate_session(self.raw, HTTP2ErrorCode.noError.rawValue)
        }
        guard unsafe nghttp2_session_want_read(self.raw) == 0 else { return }
        guard unsafe nghttp2_session_want_write(self.raw) == 0 else {
            // The library has given up on the peer; what it still sends is not looked at.
            self.isTerminated = true
            return
        }
        self.finish(self.reason)
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
            // A stream that the library has not opened yet has not left.
            let wasSent = unsafe nghttp2_session_find_stream(self.raw, slot.pointee.streamID) != nil
            unsafe self.state.pointee.abandon(slot, wasSent: wasSent)
        }
        unsafe self.state.pointee.pingDeadline = .max
        unsafe self.state.pointee.enqueue(.closed(reason))
    }

    private mutating func cancel(_ slot: UnsafeMutablePointer<ClientSlot>) {
        guard unsafe !slot.pointee.isResetSubmitted else { return }
        unsafe slot.pointee.isResetSubmitted = true
        let flags = UInt8(NGHTTP2_FLAG_NONE.rawValue)
        _ = unsafe nghttp2_submit_rst_stream(
            self.raw,
            flags,
            slot.pointee.streamID,
            HTTP2ErrorCode.cancel.rawValue,
        )
    }

    /// A GOAWAY written by hand: the library may be beyond sending.
    private mutating func sayGoodbye(_ code: HTTP2ErrorCode) {
        self.goodbye = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, UInt8(truncatingIfNeeded: code.rawValue)]
    }

    /// No more streams can be opened.
    mutating func streamsExhausted() { self.isDraining = true }
}
