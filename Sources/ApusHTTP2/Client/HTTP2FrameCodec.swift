/// Writes and reads the frames of a client's connection (RFC 9113).
///
/// A request waits in its slot until it is drained; then HEADERS, from a prebuilt HPACK block, and DATA are written to
/// the output, in one step wherever the peer's windows allow. nghttp2's session is not used here, because it encodes
/// and copies every header list anew and takes single frames from its queues: a bare C sender over it needs more than
/// twice the processor time per request that the whole dispatcher needs (figure `limit_nghttp2_cpu_seconds_per_million`
/// of the fan-out benchmark). nghttp2 decodes the header blocks of answers and checks their fields
/// (``HeaderBlockReader``), and implements the whole server (``HTTP2ServerSession``), so that tests compare these
/// frames with an independent implementation.
@safe struct HTTP2FrameCodec: ~Copyable {
    let state: UnsafeMutablePointer<ClientState>
    private let slots: UnsafeMutablePointer<ClientSlot>
    private var encoder = HPACKEncoder()
    private var streams: StreamTable
    /// The requests without a stream, and the bodies that have more to write.
    private var waiting = SlotQueue(.waiting)
    private var writing = SlotQueue(.writing)
    private var nextStreamID: UInt32 = 1
    /// The number of streams that count against the peer's limit.
    private var openStreams = 0

    /// Complete frames that are not requests, and header blocks too long for one frame.
    private var pending = GrowingBytes()
    private var pendingWritten = 0
    /// The number of acknowledgements among them.
    private var acknowledgements = 0

    /// The bytes that the peer allows us to send on the connection now.
    private(set) var sendWindow = HTTP2Frame.windowBefore
    /// The bytes that the peer allows us to send on a new stream.
    private var initialWindow = HTTP2Frame.windowBefore
    /// The bytes of DATA received on the connection, and the part of them that was returned to the peer's window.
    private var received = 0
    private var returned = 0
    private var isOurSettingsAcknowledged = false

    var reader: HeaderBlockReader
    /// An incomplete received frame.
    var rest = GrowingBytes()
    /// True after the peer's SETTINGS: they must be first (RFC 9113 §3.4).
    var isBegun = false
    /// The last stream of the peer's GOAWAY.
    private var lastStreamID: UInt32?

    init(_ state: UnsafeMutablePointer<ClientState>) throws(HTTP2Error) {
        unsafe self.state = state
        unsafe self.slots = state.pointee.slots
        self.streams = StreamTable(capacity: unsafe state.pointee.slotCount)
        self.reader = try HeaderBlockReader()
        let configuration = unsafe state.pointee.configuration
        for byte in HTTP2Frame.clientPreface { self.pending.append(byte) }
        let settings: [(UInt16, Int)] = [
            (HTTP2Frame.Setting.enablePush, 0), (HTTP2Frame.Setting.initialWindowSize, configuration.streamWindow),
            (HTTP2Frame.Setting.maxHeaderListSize, configuration.headerListBytesMax),
        ]
        self.pending.appendFrame(length: settings.count * 6, kind: HTTP2Frame.Kind.settings)
        for (setting, value) in settings {
            self.pending.append(UInt8(truncatingIfNeeded: setting >> 8))
            self.pending.append(UInt8(truncatingIfNeeded: setting))
            self.pending.append(bigEndian: UInt32(value))
        }
        let more = configuration.connectionWindow - HTTP2Frame.windowBefore
        if more > 0 { self.appendWindowUpdate(streamID: 0, more) }
    }

    deinit {
        self.pending.deallocate()
        self.rest.deallocate()
    }

    // MARK: State

    /// True when the peer sent GOAWAY and no answer is awaited any more.
    var isOver: Bool { unsafe self.lastStreamID != nil && self.state.pointee.openStreams == 0 }

    @inline(__always)
    var wantsWrite: Bool { self.pending.count > 0 || self.mayWrite || self.mayOpen }

    @inline(__always)
    private var mayWrite: Bool { self.writing.head >= 0 && self.sendWindow > 0 }

    /// True when the next request may open a stream: not while its body could not begin.
    @inline(__always)
    private var mayOpen: Bool {
        guard self.waiting.head >= 0, unsafe self.openStreams < Int(self.state.pointee.peerStreamsMax) else {
            return false
        }
        return unsafe self.sendWindow > 0 || self.slots[Int(self.waiting.head)].bodyCount == 0
    }

    // MARK: Requests

    /// Queues a slot that holds a templated request; false when no more streams can be opened.
    @unsafe @inline(__always)
    mutating func submit(_ slot: UnsafeMutablePointer<ClientSlot>) -> Bool {
        guard Int(self.nextStreamID) + 2 * self.waiting.count < HTTP2Frame.windowMax else { return false }
        unsafe self.waiting.append(slot, in: self.slots)
        return true
    }

    /// Copies a plain request into the slot and queues it; false when no more streams can be opened.
    @unsafe
    mutating func submitPlain(_ slot: UnsafeMutablePointer<ClientSlot>, _ request: PlainRequest) -> Bool {
        for (name, value) in request.texts {
            unsafe HPACKTable.appendLiteral(name.utf8, value.utf8, to: &slot.pointee.request)
        }
        let count = unsafe slot.pointee.request.count
        unsafe slot.pointee.stream.blockCount = count
        for byte in request.body { unsafe slot.pointee.request.append(byte) }
        unsafe slot.pointee.setPlainBody(count..<count + request.body.count)
        return unsafe self.submit(slot)
    }

    /// Cancels a request, and resets its stream if it has one.
    @unsafe
    mutating func cancel(_ slot: UnsafeMutablePointer<ClientSlot>) { unsafe self.reset(slot, .cancel) }

    /// Sends a PING of eight zero bytes.
    mutating func ping() {
        self.pending.appendFrame(length: 8, kind: HTTP2Frame.Kind.ping)
        for _ in 0..<8 { self.pending.append(0) }
    }

    // MARK: Writing

    /// Fills the state's output: pending frames first, then bodies that have begun, then requests.
    @inline(__always)
    mutating func drain() {
        while unsafe self.state.pointee.output.hasRoom {
            if self.pending.count > 0 {
                self.writePending()
            } else if self.mayWrite {
                unsafe self.writeBody(self.slots + Int(self.writing.head))
            } else if self.mayOpen {
                let slot = unsafe self.slots + Int(self.waiting.head)
                if unsafe slot.pointee.validUntil > self.state.pointee.now {
                    unsafe self.open(slot)
                } else {
                    unsafe self.giveBack(slot)
                }
            } else {
                return
            }
        }
    }

    private mutating func writePending() {
        guard let start = unsafe self.pending.start else { return }
        let count = unsafe min(self.pending.count - self.pendingWritten, self.state.pointee.output.roomLeft)
        unsafe self.state.pointee.output.append(start + self.pendingWritten, count: count)
        self.pendingWritten += count
        guard self.pendingWritten == self.pending.count else { return }
        self.pending.clear(keeping: HTTP2Limits.pendingBytesKept)
        self.pendingWritten = 0
        self.acknowledgements = 0
    }

    /// Opens the next stream: writes HEADERS, and as much of the body as the windows allow.
    @unsafe @inline(__always)
    private mutating func open(_ slot: UnsafeMutablePointer<ClientSlot>) {
        let streamID = self.nextStreamID
        self.nextStreamID += 2
        self.openStreams += 1
        unsafe self.waiting.remove(slot, in: self.slots)
        unsafe self.streams.insert(streamID, slot: slot.pointee.index)
        unsafe slot.pointee.streamID = Int32(bitPattern: streamID)
        unsafe slot.pointee.stream.sendWindow = self.initialWindow
        let bodyCount = unsafe slot.pointee.bodyCount
        unsafe self.encoder.select(slot, self.state)
        if unsafe self.encoder.bytesMax(slot) <= HTTP2Frame.payloadBytesMax {
            let frame = unsafe self.state.pointee.output.position
            var cursor = unsafe frame + HTTP2Frame.headerBytes
            unsafe self.encoder.write(slot, to: &cursor)
            let flags = HTTP2Frame.Flags.endHeaders | (bodyCount == 0 ? HTTP2Frame.Flags.endStream : 0)
            let length = unsafe cursor - frame - HTTP2Frame.headerBytes
            unsafe HTTP2Frame.write(
                length: length,
                kind: HTTP2Frame.Kind.headers,
                flags: flags,
                streamID: streamID,
                to: frame
            )
            unsafe self.state.pointee.output.advance(to: cursor)
            if bodyCount > 0 { unsafe self.beginBody(slot) }
        } else {
            unsafe self.appendLongHeaders(slot, streamID)
            if bodyCount > 0 { unsafe self.writing.append(slot, in: self.slots) }
        }
    }

    /// Ends a request that has waited until it was valid no longer.
    @inline(never)
    private mutating func giveBack(_ slot: UnsafeMutablePointer<ClientSlot>) {
        unsafe self.state.pointee.settle(slot, .stale, code: 0)
        unsafe self.close(slot, code: 0)
    }

    /// Appends a header block in several frames; nothing may come between them.
    @inline(never)
    private mutating func appendLongHeaders(_ slot: UnsafeMutablePointer<ClientSlot>, _ streamID: UInt32) {
        let room = unsafe self.encoder.bytesMax(slot)
        let block = UnsafeMutablePointer<UInt8>.allocate(capacity: room)
        defer { unsafe block.deallocate() }
        var cursor = unsafe block
        unsafe self.encoder.write(slot, to: &cursor)
        let count = unsafe cursor - block
        var written = 0
        repeat {
            let length = min(count - written, HTTP2Frame.payloadBytesMax)
            var flags: UInt8 = 0
            if unsafe written == 0 && slot.pointee.bodyCount == 0 { flags |= HTTP2Frame.Flags.endStream }
            if written + length == count { flags |= HTTP2Frame.Flags.endHeaders }
            let kind = written == 0 ? HTTP2Frame.Kind.headers : HTTP2Frame.Kind.continuation
            self.pending.appendFrame(length: length, kind: kind, flags: flags, streamID: streamID)
            unsafe self.pending.append(block + written, count: length)
            written += length
        } while written < count
    }

    @unsafe @inline(__always)
    private mutating func beginBody(_ slot: UnsafeMutablePointer<ClientSlot>) {
        let count = unsafe slot.pointee.bodyCount
        if count <= HTTP2Frame.payloadBytesMax, count <= self.sendWindow, count <= self.initialWindow {
            unsafe self.writeData(slot, count: count)
        } else {
            // There is room for one more frame.
            unsafe self.writing.append(slot, in: self.slots)
            if self.sendWindow > 0 { unsafe self.writeBody(slot) }
        }
    }

    /// Writes the next frame of a queued body; the connection's window is open.
    @inline(never)
    private mutating func writeBody(_ slot: UnsafeMutablePointer<ClientSlot>) {
        let left = unsafe slot.pointee.bodyCount - slot.pointee.bodySent
        let count = unsafe min(left, HTTP2Frame.payloadBytesMax, self.sendWindow, slot.pointee.stream.sendWindow)
        if count > 0 { unsafe self.writeData(slot, count: count) }
        // The slot leaves the queue when its body is complete, or until its own window opens.
        let isHeldUp = unsafe slot.pointee.stream.sendWindow <= 0
        if count == left || isHeldUp { unsafe self.writing.remove(slot, in: self.slots) }
    }

    @unsafe @inline(__always)
    private mutating func writeData(_ slot: UnsafeMutablePointer<ClientSlot>, count: Int) {
        let isLast = unsafe slot.pointee.bodySent + count == slot.pointee.bodyCount
        let position = unsafe self.state.pointee.output.position
        unsafe HTTP2Frame.write(
            length: count,
            kind: HTTP2Frame.Kind.data,
            flags: isLast ? HTTP2Frame.Flags.endStream : 0,
            streamID: UInt32(bitPattern: slot.pointee.streamID),
            to: position,
        )
        unsafe self.state.pointee.output.advance(to: position + HTTP2Frame.headerBytes)
        unsafe self.state.pointee.output.append(slot.pointee.segments, from: slot.pointee.bodySent, count: count)
        unsafe slot.pointee.bodySent += count
        unsafe slot.pointee.stream.sendWindow -= count
        self.sendWindow -= count
    }

    // MARK: Streams

    /// Returns the slot of an open stream; nil when it has ended.
    @unsafe @inline(__always)
    func slot(_ streamID: UInt32) -> UnsafeMutablePointer<ClientSlot>? {
        let index = self.streams.find(streamID)
        return index >= 0 ? unsafe self.slots + Int(index) : nil
    }

    /// Returns true when we ever opened the stream; servers open none.
    @inline(__always)
    func wasOpened(_ streamID: UInt32) -> Bool { streamID & 1 == 1 && streamID < self.nextStreamID }

    /// Ends the peer's side of a stream. When our side is incomplete, the stream is cancelled as the answer is taken.
    @unsafe @inline(__always)
    mutating func answerEnded(_ slot: UnsafeMutablePointer<ClientSlot>) {
        unsafe self.state.pointee.answerEnded(slot)
        if unsafe slot.pointee.bodySent == slot.pointee.bodyCount { unsafe self.close(slot, code: 0) }
    }

    /// Releases a stream, or a request that never had one.
    @unsafe @inline(__always)
    mutating func close(_ slot: UnsafeMutablePointer<ClientSlot>, code: UInt32) {
        switch unsafe slot.pointee.stream.queue {
        case .none: break
        case .waiting: unsafe self.waiting.remove(slot, in: self.slots)
        case .writing: unsafe self.writing.remove(slot, in: self.slots)
        }
        if unsafe slot.pointee.streamID > 0 {
            unsafe self.streams.remove(UInt32(bitPattern: slot.pointee.streamID))
            self.openStreams -= 1
        }
        unsafe self.state.pointee.streamClosed(slot, code: code)
    }

    /// Ends a stream, with RST_STREAM if the peer knows it.
    @unsafe
    mutating func reset(_ slot: UnsafeMutablePointer<ClientSlot>, _ code: HTTP2ErrorCode) {
        let streamID = unsafe slot.pointee.streamID
        if streamID > 0 {
            self.pending.appendFrame(length: 4, kind: HTTP2Frame.Kind.reset, streamID: UInt32(bitPattern: streamID))
            self.pending.append(bigEndian: code.rawValue)
        }
        unsafe self.close(slot, code: code.rawValue)
    }

    /// Refuses the streams above GOAWAY's last one, and requests without a stream. The last one must not rise (RFC 9113 §6.8).
    mutating func refuse(above last: UInt32) throws(ConnectionError) {
        guard last & 1 == 1 || last == 0, last <= self.lastStreamID ?? .max else {
            throw .violation(.protocolError, "GOAWAY: invalid last stream")
        }
        self.lastStreamID = last
        for index in 0..<(unsafe self.state.pointee.slotCount) {
            let slot = unsafe self.slots + index
            guard unsafe slot.pointee.isStreamOpen else { continue }
            let streamID = unsafe UInt32(bitPattern: slot.pointee.streamID)
            guard streamID == 0 || streamID > last else { continue }
            unsafe self.close(slot, code: HTTP2ErrorCode.refusedStream.rawValue)
        }
    }

    /// Refuses the requests that have no stream yet.
    mutating func refuseWaiting() {
        while self.waiting.head >= 0 {
            unsafe self.close(self.slots + Int(self.waiting.head), code: HTTP2ErrorCode.refusedStream.rawValue)
        }
    }

    // MARK: Windows

    /// Opens a window by the given bytes.
    mutating func widen(streamID: UInt32, by increment: Int) throws(ConnectionError) {
        guard streamID > 0 else {
            guard increment > 0 else { throw .violation(.protocolError, "WINDOW_UPDATE: zero") }
            self.sendWindow += increment
            guard self.sendWindow <= HTTP2Frame.windowMax else {
                throw .violation(.flowControlError, "WINDOW_UPDATE: beyond the largest window")
            }
            return
        }
        guard let slot = unsafe self.slot(streamID) else { return }
        guard increment > 0 else { return unsafe self.reset(slot, .protocolError) }
        unsafe slot.pointee.stream.sendWindow += increment
        guard unsafe slot.pointee.stream.sendWindow <= HTTP2Frame.windowMax else {
            return unsafe self.reset(slot, .flowControlError)
        }
        unsafe self.resumeBody(slot)
    }

    /// Applies SETTINGS_INITIAL_WINDOW_SIZE: moves the windows of all streams, also below zero (RFC 9113 §6.9.2).
    mutating func setInitialWindow(_ bytes: Int) throws(ConnectionError) {
        let change = bytes - self.initialWindow
        self.initialWindow = bytes
        guard change != 0 else { return }
        for index in 0..<(unsafe self.state.pointee.slotCount) {
            let slot = unsafe self.slots + index
            guard unsafe slot.pointee.isStreamOpen && slot.pointee.streamID > 0 else { continue }
            unsafe slot.pointee.stream.sendWindow += change
            guard unsafe slot.pointee.stream.sendWindow <= HTTP2Frame.windowMax else {
                throw .violation(.flowControlError, "SETTINGS: a stream's window is too large")
            }
            unsafe self.resumeBody(slot)
        }
    }

    /// Queues a body that its stream's window held up.
    @unsafe
    private mutating func resumeBody(_ slot: UnsafeMutablePointer<ClientSlot>) {
        guard unsafe slot.pointee.stream.queue == .none && slot.pointee.stream.sendWindow > 0,
            unsafe slot.pointee.bodySent < slot.pointee.bodyCount
        else { return }
        unsafe self.writing.append(slot, in: self.slots)
    }

    mutating func peerAllows(tableBytes: UInt32) { self.encoder.peerAllows(tableBytes: tableBytes) }

    /// Counts DATA on the connection; returns it to the peer's window when it is half of it.
    @inline(__always)
    mutating func countData(_ count: Int) throws(ConnectionError) {
        let window = unsafe self.state.pointee.configuration.connectionWindow
        self.received += count
        guard self.received - self.returned <= window else {
            throw .violation(.flowControlError, "DATA: beyond the connection's window")
        }
        let taken = self.received - self.returned
        guard taken >= window / 2 else { return }
        self.returned = self.received
        self.appendWindowUpdate(streamID: 0, taken)
    }

    /// Counts DATA on a stream; returns false when it exceeds the window.
    @unsafe @inline(__always)
    mutating func countData(_ slot: UnsafeMutablePointer<ClientSlot>, _ count: Int) -> Bool {
        let window = unsafe self.state.pointee.configuration.streamWindow
        // Until the peer has our SETTINGS, it uses the initial window.
        let most = self.isOurSettingsAcknowledged ? window : max(window, HTTP2Frame.windowBefore)
        unsafe slot.pointee.stream.received += count
        return unsafe slot.pointee.stream.received - slot.pointee.stream.returned <= most
    }

    /// Returns the received bytes of an unfinished stream to the peer's window.
    @unsafe
    mutating func returnData(_ slot: UnsafeMutablePointer<ClientSlot>) {
        let taken = unsafe slot.pointee.stream.received - slot.pointee.stream.returned
        guard unsafe taken > 0 && taken >= self.state.pointee.configuration.streamWindow / 2 else { return }
        unsafe slot.pointee.stream.returned = slot.pointee.stream.received
        self.appendWindowUpdate(streamID: unsafe UInt32(bitPattern: slot.pointee.streamID), taken)
    }

    private mutating func appendWindowUpdate(streamID: UInt32, _ increment: Int) {
        self.pending.appendFrame(length: 4, kind: HTTP2Frame.Kind.windowUpdate, streamID: streamID)
        self.pending.append(bigEndian: UInt32(increment))
    }

    // MARK: Acknowledgements

    mutating func ourSettingsAcknowledged() { self.isOurSettingsAcknowledged = true }

    /// Acknowledges SETTINGS, or a PING with its payload.
    mutating func acknowledge(_ kind: UInt8, _ payload: UnsafeBufferPointer<UInt8>?) throws(ConnectionError) {
        guard self.acknowledgements < HTTP2Limits.acknowledgementsMax else {
            throw ConnectionError(code: .enhanceYourCalm, reason: .limitExceeded(.acknowledgements))
        }
        self.acknowledgements += 1
        guard let payload = unsafe payload, let start = payload.baseAddress else {
            return self.pending.appendFrame(length: 0, kind: kind, flags: HTTP2Frame.Flags.acknowledgement)
        }
        self.pending.appendFrame(length: payload.count, kind: kind, flags: HTTP2Frame.Flags.acknowledgement)
        unsafe self.pending.append(start, count: payload.count)
    }
}

/// A connection error (RFC 9113 §5.4.1): the reason why the connection cannot continue.
struct ConnectionError: Error, CustomStringConvertible {
    /// The code of the last GOAWAY; nil for none.
    var code: HTTP2ErrorCode?
    /// The reason; nil when the state has recorded an exceeded limit.
    var reason: HTTP2CloseReason?

    /// The reason.
    var description: String { self.reason.map { "\($0)" } ?? "a limit was exceeded" }

    /// The peer exceeded the limit that the state has recorded.
    static let limit = ConnectionError(code: .enhanceYourCalm, reason: nil)

    static func violation(_ code: HTTP2ErrorCode, _ message: StaticString) -> ConnectionError {
        ConnectionError(code: code, reason: .protocolViolation("\(message)"))
    }
}
