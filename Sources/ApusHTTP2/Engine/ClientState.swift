/// What both wires write to: the slots, the queue of events, the limits.
///
/// A separate value at a fixed address, so that the C library never holds a pointer to the session that owns it. It never
/// calls a wire.
@safe struct ClientState: ~Copyable {
    let configuration: HTTP2ClientConfiguration
    let slots: UnsafeMutablePointer<ClientSlot>
    let slotCount: Int
    private var freeHead: Int32
    /// Requests that the wire has taken and not let go, those being cancelled included.
    private(set) var openStreams = 0
    var templates = LeaseTable<RequestTemplate>()
    var authorizations = LeaseTable<HeaderValue>()
    var output = OutputCursor()
    var peerStreamsMax: UInt32

    /// The slot whose answer is lent out, or -1.
    private(set) var lent: Int32 = -1
    private(set) var lentSerial: UInt32 = 0

    /// Slots whose event waits, in order; -1 stands for the next of `rareEvents`.
    private let ring: UnsafeMutablePointer<Int32>
    private let ringMask: Int
    private var ringHead = 0
    private(set) var eventCount = 0
    private var rareEvents: [HTTP2ClientEvent] = []
    private var rareHead = 0
    /// GOAWAYs, one of settings, one of PING, the end.
    private static let rareEventsMax = HTTP2Limits.goAwaysMax + 3

    private(set) var deadlineHead: Int32 = -1
    private var deadlineTail: Int32 = -1

    /// The slot whose header block is being read, or -1, and what it amounts to.
    private var headerSlot: Int32 = -1
    private var headerListBytes = 0
    private var answerBytesTotal = 0
    private var controlFrames = 0
    private var isSettingsEventQueued = false
    private var goAways = 0

    /// The limit that the peer ran into.
    private(set) var violation: HTTP2Limit?
    private(set) var goAwayCode: HTTP2ErrorCode?
    private(set) var message = ""
    private(set) var isNotHTTP2 = false
    /// When our PING left, and until when its answer must be here.
    var pingSentAt: UInt64?
    var pingDeadline = UInt64.max
    var now: UInt64 = 0

    init(configuration: HTTP2ClientConfiguration) {
        self.configuration = configuration
        // One more, so that the slot of a lent answer does not count.
        self.slotCount = configuration.streamsMax + 1
        unsafe self.slots = .allocate(capacity: self.slotCount)
        for index in 0..<self.slotCount {
            var slot = ClientSlot(index: Int32(index))
            slot.nextFree = index + 1 < self.slotCount ? Int32(index + 1) : -1
            unsafe (self.slots + index).initialize(to: slot)
        }
        self.freeHead = 0
        var capacity = 1
        while capacity < self.slotCount + Self.rareEventsMax { capacity *= 2 }
        unsafe self.ring = .allocate(capacity: capacity)
        self.ringMask = capacity - 1
        self.peerStreamsMax = UInt32(clamping: configuration.streamsMaxBeforeSettings)
    }

    deinit {
        for index in 0..<self.slotCount { unsafe self.slots[index].free() }
        unsafe self.slots.deallocate()
        unsafe self.ring.deallocate()
    }

    // MARK: Slots

    /// A slot to fill; nil when all are taken.
    @inline(__always)
    mutating func takeSlot() -> UnsafeMutablePointer<ClientSlot>? {
        guard self.freeHead >= 0 else { return nil }
        let slot = unsafe self.slots + Int(self.freeHead)
        unsafe self.freeHead = slot.pointee.nextFree
        return unsafe slot
    }

    @inline(__always)
    mutating func giveBack(_ slot: UnsafeMutablePointer<ClientSlot>) {
        unsafe self.answerBytesTotal -= slot.pointee.answer.count - slot.pointee.answerFieldBytes
        unsafe slot.pointee.request.clear(keeping: HTTP2Limits.slotBytesKept)
        unsafe slot.pointee.answer.clear(keeping: HTTP2Limits.slotBytesKept)
        unsafe slot.pointee.nextFree = self.freeHead
        unsafe self.freeHead = slot.pointee.index
    }

    /// The wire has taken the request.
    @inline(__always)
    mutating func opened(_ slot: UnsafeMutablePointer<ClientSlot>) {
        self.openStreams += 1
        unsafe self.link(slot)
    }

    /// The wire took no stream for it.
    mutating func withdraw(_ slot: UnsafeMutablePointer<ClientSlot>) {
        unsafe slot.pointee.isStreamOpen = false
        unsafe self.templates.release(slot.pointee.template)
        unsafe self.authorizations.release(slot.pointee.authorization)
        unsafe slot.pointee.template = -1
        unsafe slot.pointee.authorization = -1
        unsafe self.giveBack(slot)
    }

    /// The wire let go of the stream and of every byte of the request.
    @inline(__always)
    mutating func streamClosed(_ slot: UnsafeMutablePointer<ClientSlot>, code: UInt32) {
        guard unsafe slot.pointee.isStreamOpen else { return }
        unsafe slot.pointee.isStreamOpen = false
        self.openStreams -= 1
        unsafe self.templates.release(slot.pointee.template)
        unsafe self.authorizations.release(slot.pointee.authorization)
        unsafe slot.pointee.template = -1
        unsafe slot.pointee.authorization = -1
        if unsafe slot.pointee.outcome == .open {
            let isSafe = unsafe slot.pointee.isNeverSent || code == HTTP2ErrorCode.refusedStream.rawValue
            unsafe self.settle(slot, isSafe ? .refused : .reset, code: code)
        } else if unsafe !slot.pointee.isEventQueued && slot.pointee.index != self.lent {
            unsafe self.giveBack(slot)
        }
    }

    /// The connection is over: no byte of this stream will move any more.
    mutating func abandon(_ slot: UnsafeMutablePointer<ClientSlot>, wasSent: Bool) {
        if unsafe slot.pointee.outcome == .open { unsafe self.settle(slot, wasSent ? .lost : .refused, code: 0) }
        unsafe self.streamClosed(slot, code: 0)
    }

    /// Fixes what the caller will be told.
    @inline(__always)
    mutating func settle(_ slot: UnsafeMutablePointer<ClientSlot>, _ outcome: ClientSlot.Outcome, code: UInt32) {
        precondition(unsafe slot.pointee.outcome == .open && !slot.pointee.isEventQueued)
        unsafe slot.pointee.outcome = outcome
        unsafe slot.pointee.code = code
        unsafe slot.pointee.isEventQueued = true
        unsafe self.unlink(slot)
        unsafe self.enqueue(slot.pointee.index)
    }

    // MARK: Events

    @inline(__always)
    private mutating func enqueue(_ entry: Int32) {
        precondition(self.eventCount <= self.ringMask)
        unsafe self.ring[(self.ringHead &+ self.eventCount) & self.ringMask] = entry
        self.eventCount += 1
    }

    mutating func enqueue(_ event: HTTP2ClientEvent) {
        self.rareEvents.append(event)
        self.enqueue(-1)
    }

    /// Takes back what was lent with the last event.
    @inline(__always)
    mutating func releaseLent() {
        guard self.lent >= 0 else { return }
        let slot = unsafe self.slots + Int(self.lent)
        self.lent = -1
        if unsafe !slot.pointee.isStreamOpen { unsafe self.giveBack(slot) }
    }

    /// The slot of the next event, which is lent from now on; nil: it is a rare one.
    @inline(__always)
    mutating func dequeue() -> UnsafeMutablePointer<ClientSlot>? {
        precondition(self.eventCount > 0)
        let entry = unsafe self.ring[self.ringHead & self.ringMask]
        self.ringHead &+= 1
        self.eventCount -= 1
        guard entry >= 0 else { return nil }
        let slot = unsafe self.slots + Int(entry)
        unsafe slot.pointee.isEventQueued = false
        self.lent = entry
        self.lentSerial &+= 1
        return unsafe slot
    }

    mutating func dequeueRare() -> HTTP2ClientEvent {
        let event = self.rareEvents[self.rareHead]
        self.rareHead += 1
        if self.rareHead == self.rareEvents.count {
            self.rareEvents.removeAll(keepingCapacity: true)
            self.rareHead = 0
        }
        guard case .settingsChanged = event else { return event }
        self.isSettingsEventQueued = false
        return .settingsChanged(maxConcurrentStreams: self.peerStreamsMax)
    }

    // MARK: Deadlines

    /// Sorts the slot in. Deadlines mostly rise, so the search from the end mostly ends at once.
    @inline(__always)
    private mutating func link(_ slot: UnsafeMutablePointer<ClientSlot>) {
        var before = self.deadlineTail
        while before >= 0, unsafe self.slots[Int(before)].deadline > slot.pointee.deadline {
            before = unsafe self.slots[Int(before)].earlier
        }
        let after = before >= 0 ? unsafe self.slots[Int(before)].later : self.deadlineHead
        unsafe slot.pointee.earlier = before
        unsafe slot.pointee.later = after
        let index = unsafe slot.pointee.index
        if before >= 0 { unsafe self.slots[Int(before)].later = index } else { self.deadlineHead = index }
        if after >= 0 { unsafe self.slots[Int(after)].earlier = index } else { self.deadlineTail = index }
    }

    @inline(__always)
    private mutating func unlink(_ slot: UnsafeMutablePointer<ClientSlot>) {
        let before = unsafe slot.pointee.earlier
        let after = unsafe slot.pointee.later
        if before >= 0 { unsafe self.slots[Int(before)].later = after } else { self.deadlineHead = after }
        if after >= 0 { unsafe self.slots[Int(after)].earlier = before } else { self.deadlineTail = before }
        unsafe slot.pointee.earlier = -1
        unsafe slot.pointee.later = -1
    }

    // MARK: What the peer sent

    /// Also the first frame of trailers or of the answer after an interim one.
    @inline(__always)
    mutating func headersBegan(_ slot: UnsafeMutablePointer<ClientSlot>?) {
        unsafe self.headerSlot = slot?.pointee.index ?? -1
        self.headerListBytes = 0
    }

    /// Another frame of the block; its stream may have ended in between.
    mutating func headersContinue(_ slot: UnsafeMutablePointer<ClientSlot>?) {
        unsafe self.headerSlot = slot?.pointee.index ?? -1
    }

    /// Also counts a field that is not valid, which nothing else is made of. False: beyond the limit.
    @inline(__always)
    mutating func headerReceived(
        _ name: UnsafeBufferPointer<UInt8>,
        _ value: UnsafeBufferPointer<UInt8>,
        isValid: Bool = true,
    ) -> Bool {
        self.headerListBytes += name.count + value.count + 32
        guard self.headerListBytes <= self.configuration.headerListBytesMax else {
            self.violation = .headerList
            return false
        }
        guard self.headerSlot >= 0, isValid else { return true }
        let slot = unsafe self.slots + Int(self.headerSlot)
        guard unsafe slot.pointee.outcome == .open && !slot.pointee.isHeaderComplete else { return true }
        if unsafe name.count == 7 && name[0] == 0x3a {
            // The wire has checked that these are three digits.
            guard value.count == 3 else { return true }
            unsafe slot.pointee.status =
                Int32(value[0] &- 0x30) * 100 + Int32(value[1] &- 0x30) * 10 + Int32(value[2] &- 0x30)
        } else if unsafe slot.pointee.status >= 200, let field = unsafe HTTP2AnswerField(name: name) {
            unsafe slot.pointee.keep(field, value)
        }
        return true
    }

    @inline(__always)
    mutating func headersEnded(isStreamEnd: Bool) {
        guard self.headerSlot >= 0 else { return }
        let slot = unsafe self.slots + Int(self.headerSlot)
        if unsafe slot.pointee.status >= 200 { unsafe slot.pointee.isHeaderComplete = true }
        if isStreamEnd { unsafe self.answerEnded(slot) }
    }

    /// The peer's side of the stream is complete.
    @inline(__always)
    mutating func answerEnded(_ slot: UnsafeMutablePointer<ClientSlot>) {
        guard unsafe slot.pointee.outcome == .open && slot.pointee.isHeaderComplete else { return }
        self.controlFrames = 0
        unsafe self.settle(slot, .answered, code: 0)
    }

    /// Keeps what is within the limits; a longer body ends the answer, and its stream is cancelled.
    mutating func bodyReceived(_ slot: UnsafeMutablePointer<ClientSlot>, _ bytes: UnsafeBufferPointer<UInt8>) {
        guard unsafe slot.pointee.outcome == .open, let base = bytes.baseAddress else { return }
        let body = unsafe slot.pointee.answer.count - slot.pointee.answerFieldBytes
        let room = min(
            self.configuration.answerBodyBytesMax - body,
            self.configuration.answerBytesTotalMax - self.answerBytesTotal,
        )
        let kept = min(bytes.count, max(room, 0))
        if kept > 0 {
            unsafe slot.pointee.answer.append(base, count: kept)
            self.answerBytesTotal += kept
        }
        guard kept < bytes.count else { return }
        unsafe slot.pointee.isBodyTruncated = true
        unsafe self.answerEnded(slot)
    }

    mutating func settingsReceived(streamsMax: UInt32) {
        guard streamsMax != self.peerStreamsMax else { return }
        self.peerStreamsMax = streamsMax
        guard !self.isSettingsEventQueued else { return }
        self.isSettingsEventQueued = true
        self.enqueue(.settingsChanged(maxConcurrentStreams: streamsMax))
    }

    mutating func pingAcknowledged() {
        guard let sentAt = self.pingSentAt else { return }
        self.pingSentAt = nil
        self.pingDeadline = .max
        self.controlFrames = 0
        self.enqueue(.pingAcknowledged(roundTripNanoseconds: self.now - min(sentAt, self.now)))
    }

    /// False: one too many.
    mutating func goAwayReceived(code: UInt32, lastStreamID: Int32, debug: UnsafeBufferPointer<UInt8>) -> Bool {
        self.goAways += 1
        guard self.goAways <= HTTP2Limits.goAwaysMax else {
            self.violation = .goAways
            return false
        }
        let code = HTTP2ErrorCode(rawValue: code)
        self.goAwayCode = code
        let kept = unsafe Array(debug.prefix(HTTP2Limits.goAwayDebugBytesMax))
        self.enqueue(.goAway(code: code, lastStreamID: lastStreamID, debug: kept))
        return true
    }

    /// A frame that brought no request forward; false: too many in a row.
    @inline(__always)
    mutating func controlFrameReceived() -> Bool {
        self.controlFrames += 1
        guard self.controlFrames > HTTP2Limits.controlFramesMax else { return true }
        self.violation = .controlFrames
        return false
    }

    mutating func noteViolation(_ limit: HTTP2Limit) { self.violation = self.violation ?? limit }

    /// The library's own words, for the close reason; what is not visible ASCII is left out, for it may be the peer's.
    mutating func noteMessage(_ bytes: UnsafeBufferPointer<UInt8>, isNotHTTP2: Bool) {
        self.isNotHTTP2 = self.isNotHTTP2 || isNotHTTP2
        let visible = unsafe bytes.prefix(HTTP2Limits.messageBytesMax).filter { (0x20...0x7e).contains($0) }
        self.message = String(decoding: visible, as: UTF8.self)
    }
}
