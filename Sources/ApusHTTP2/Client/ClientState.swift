/// Holds the state that a client's session and its codec share: slots, events and limits. It stays at one address and
/// never calls the codec.
@safe struct ClientState: ~Copyable {
    let configuration: HTTP2ClientConfiguration
    let slots: UnsafeMutablePointer<ClientSlot>
    let slotCount: Int
    private var freeHead: Int32
    /// The number of requests that the codec has accepted and not released.
    private(set) var openStreams = 0
    var templates = RetainedObjectTable<RequestTemplate>()
    var authorizations = RetainedObjectTable<HeaderValue>()
    var output = OutputCursor()
    private(set) var peerStreamsMax: UInt32
    private(set) var streamsForbiddenSince: UInt64?

    /// The slot whose answer is lent out, or -1.
    private(set) var lent: Int32 = -1
    private(set) var lentSerial: UInt32 = 0

    /// The slots with a waiting event, in order; -1 stands for the next of `rareEvents`.
    private let ring: UnsafeMutablePointer<Int32>
    private let ringMask: Int
    private var ringHead = 0
    private(set) var eventCount = 0
    private var rareEvents: [HTTP2ClientEvent] = []
    private var rareHead = 0
    /// The maximum number of rare events: GOAWAYs, one SETTINGS, one PING, the end.
    private static let rareEventsMax = HTTP2Limits.goAwaysMax + 3

    private(set) var deadlineHead: Int32 = -1
    private var deadlineTail: Int32 = -1

    /// The slot whose header block is being read, or -1, and the results of reading it.
    private var headerSlot: Int32 = -1
    private var headerListBytes = 0
    private var answerBytesTotal = 0
    private var controlFrames = 0
    private var isSettingsEventQueued = false
    private var goAways = 0

    /// The limit that the peer exceeded.
    private(set) var violation: HTTP2Limit?
    private(set) var goAwayCode: HTTP2ErrorCode?
    /// The time at which our PING was sent, and the deadline of its answer.
    var pingSentAt: UInt64?
    var pingDeadline = UInt64.max
    var now: UInt64 = 0

    init(configuration: HTTP2ClientConfiguration) {
        self.configuration = configuration
        // There is one more slot, so that the slot of a lent answer does not count.
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

    /// Takes a free slot; returns nil when there is none.
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

    /// Counts a request that the codec has accepted, and watches its deadline.
    @inline(__always)
    mutating func opened(_ slot: UnsafeMutablePointer<ClientSlot>) {
        self.openStreams += 1
        unsafe self.link(slot)
    }

    /// Releases the slot of a request that the codec could not accept.
    mutating func withdraw(_ slot: UnsafeMutablePointer<ClientSlot>) {
        unsafe slot.pointee.isStreamOpen = false
        unsafe self.templates.release(slot.pointee.template)
        unsafe self.authorizations.release(slot.pointee.authorization)
        unsafe slot.pointee.template = -1
        unsafe slot.pointee.authorization = -1
        unsafe self.giveBack(slot)
    }

    /// Releases a stream and every byte of its request.
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
            let isSafe = code == HTTP2ErrorCode.refusedStream.rawValue
            unsafe self.settle(slot, isSafe ? .refused : .reset, code: code)
        } else if unsafe !slot.pointee.isEventQueued && slot.pointee.index != self.lent {
            unsafe self.giveBack(slot)
        }
    }

    /// Ends a stream with its connection: a request that was never sent is refused, another one is lost.
    mutating func abandon(_ slot: UnsafeMutablePointer<ClientSlot>) {
        if unsafe slot.pointee.outcome == .open {
            unsafe self.settle(slot, slot.pointee.streamID > 0 ? .lost : .refused, code: 0)
        }
        unsafe self.streamClosed(slot, code: 0)
    }

    /// Fixes the request's outcome and queues its event.
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

    /// Takes back the slot that was lent with the last event.
    @inline(__always)
    mutating func releaseLent() {
        guard self.lent >= 0 else { return }
        let slot = unsafe self.slots + Int(self.lent)
        self.lent = -1
        if unsafe !slot.pointee.isStreamOpen { unsafe self.giveBack(slot) }
    }

    /// Takes the next event and lends its slot; nil when it is one of the rare events.
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

    /// Inserts the slot by deadline. Deadlines mostly rise, so the search from the end mostly ends at once.
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

    // MARK: Received frames

    /// Begins a header block: of an answer, after an interim one, or of trailers.
    @inline(__always)
    mutating func headersBegan(_ slot: UnsafeMutablePointer<ClientSlot>?) {
        unsafe self.headerSlot = slot?.pointee.index ?? -1
        self.headerListBytes = 0
    }

    /// Continues a header block in another frame; its stream may have ended in between.
    mutating func headersContinue(_ slot: UnsafeMutablePointer<ClientSlot>?) {
        unsafe self.headerSlot = slot?.pointee.index ?? -1
    }

    /// Counts a header field, and keeps a valid one that is needed; returns false when the header list exceeds the limit.
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
            // ``HeaderCheck`` accepts exactly three digits.
            unsafe slot.pointee.status =
                Int32(value[0] &- 0x30) * 100 + Int32(value[1] &- 0x30) * 10 + Int32(value[2] &- 0x30)
        } else if unsafe slot.pointee.status >= 200, let field = unsafe HTTP2AnswerField(name: name) {
            unsafe slot.pointee.keep(field, value)
        }
        return true
    }

    /// Settles a complete answer.
    @inline(__always)
    mutating func answerEnded(_ slot: UnsafeMutablePointer<ClientSlot>) {
        guard unsafe slot.pointee.outcome == .open && slot.pointee.isHeaderComplete else { return }
        self.controlFrames = 0
        unsafe self.settle(slot, .answered, code: 0)
    }

    /// Keeps the body within the limits; a longer one ends the answer, and its stream is cancelled.
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
        self.streamsForbiddenSince = streamsMax == 0 ? self.streamsForbiddenSince ?? self.now : nil
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

    /// Counts and queues a GOAWAY; returns false when there are too many.
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

    /// Counts a frame that advances no request; returns false when there are too many in a row.
    @inline(__always)
    mutating func controlFrameReceived() -> Bool {
        self.controlFrames += 1
        guard self.controlFrames > HTTP2Limits.controlFramesMax else { return true }
        self.violation = .controlFrames
        return false
    }
}
