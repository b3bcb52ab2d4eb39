/// Holds one request in flight: its bytes, its progress and its answer. Slots never move.
@safe struct ClientSlot {
    /// The outcome of a request, which is reported once.
    enum Outcome: UInt8 {
        /// The request has not ended.
        case open
        case answered
        case refused
        /// The request waited until it was valid no longer.
        case stale
        /// The request waited until its deadline.
        case overdue
        case reset
        /// The end of the connection reset the request.
        case lost
        case timedOut
    }

    let index: Int32
    var tag: UInt64 = 0
    var deadline: UInt64 = 0
    /// The time from which the request is not sent.
    var validUntil = UInt64.max
    var streamID: Int32 = 0
    /// Neighbours in the list of deadlines.
    var earlier: Int32 = -1
    var later: Int32 = -1
    /// The next free slot.
    var nextFree: Int32 = -1
    /// Indices in the tables of objects in use.
    var template: Int32 = -1
    var authorization: Int32 = -1
    /// The objects' serial numbers; 0 for none.
    var templateSerial: UInt64 = 0
    var authorizationSerial: UInt64 = 0
    var code: UInt32 = 0
    var status: Int32 = 0
    var outcome = Outcome.open
    /// True while the codec knows the stream, so that the request's bytes must stay.
    var isStreamOpen = false
    var isEventQueued = false
    var isBodyTruncated = false
    /// True after the final answer's headers have arrived; later headers are trailers.
    var isHeaderComplete = false

    /// The path, the id and the middle of the body of this request; or header block and body of a plain request.
    var request = GrowingBytes()
    /// Bytes of the path at the start of `request`; 0 when the template's path is constant.
    var pathCount = 0
    /// True when the id's text follows the path.
    var hasID = false
    var bodyPrefix: UnsafeBufferPointer<UInt8>
    /// The range in `request` that holds the middle of the body.
    var bodyMiddle = 0..<0
    var bodySuffix: UnsafeBufferPointer<UInt8>
    var bodyCount = 0
    var bodySent = 0
    var stream = ClientStream()

    /// Kept header values as (field, length high, length low, bytes), then the body.
    var answer = GrowingBytes()
    var answerFieldBytes = 0

    init(index: Int32) {
        self.index = index
        unsafe self.bodyPrefix = UnsafeBufferPointer(start: nil, count: 0)
        unsafe self.bodySuffix = UnsafeBufferPointer(start: nil, count: 0)
    }

    @inline(__always)
    mutating func begin(tag: UInt64, deadline: UInt64, validUntil: UInt64) {
        self.tag = tag
        self.deadline = deadline
        self.validUntil = validUntil
        self.outcome = .open
        self.code = 0
        self.status = 0
        self.isStreamOpen = true
        self.isBodyTruncated = false
        self.isHeaderComplete = false
        self.streamID = 0
        self.templateSerial = 0
        self.authorizationSerial = 0
        self.pathCount = 0
        self.hasID = false
        self.bodySent = 0
        self.answerFieldBytes = 0
        self.stream = ClientStream()
    }

    /// Sets a body that is contiguous in `request`.
    mutating func setPlainBody(_ range: Range<Int>) {
        unsafe self.bodyPrefix = UnsafeBufferPointer(start: nil, count: 0)
        unsafe self.bodySuffix = UnsafeBufferPointer(start: nil, count: 0)
        self.bodyMiddle = range
        self.bodyCount = range.count
    }

    /// The body's three parts, in order.
    var segments: (UnsafeBufferPointer<UInt8>, UnsafeBufferPointer<UInt8>, UnsafeBufferPointer<UInt8>) {
        let middle = unsafe UnsafeBufferPointer(
            start: self.request.start.map { unsafe UnsafePointer($0 + self.bodyMiddle.lowerBound) },
            count: self.bodyMiddle.count,
        )
        return unsafe (self.bodyPrefix, middle, self.bodySuffix)
    }

    /// Keeps a header value of the final answer, the first of each name, while there is room.
    mutating func keep(_ field: HTTP2AnswerField, _ value: UnsafeBufferPointer<UInt8>) {
        guard let base = value.baseAddress,
            self.answer.count + value.count + 3 <= HTTP2Limits.answerFieldBytesMax
        else { return }
        guard self.range(of: field) == nil else { return }
        self.answer.append(field.rawValue)
        self.answer.append(UInt8(truncatingIfNeeded: value.count >> 8))
        self.answer.append(UInt8(truncatingIfNeeded: value.count))
        unsafe self.answer.append(base, count: value.count)
        self.answerFieldBytes = self.answer.count
    }

    /// Finds a kept header value in `answer`.
    func range(of field: HTTP2AnswerField) -> Range<Int>? {
        guard let start = unsafe self.answer.start else { return nil }
        var cursor = 0
        while cursor < self.answerFieldBytes {
            let count = unsafe Int(start[cursor + 1]) << 8 | Int(start[cursor + 2])
            let value = cursor + 3..<cursor + 3 + count
            if unsafe start[cursor] == field.rawValue { return value }
            cursor = value.upperBound
        }
        return nil
    }

    mutating func free() {
        self.request.free()
        self.answer.free()
    }
}

/// The codec's state of one stream.
struct ClientStream {
    /// The queue that holds the stream's slot.
    enum Queue: UInt8 {
        case none
        /// The request waits for a stream.
        case waiting
        /// The request waits for room to write more of the body.
        case writing
    }

    var queue = Queue.none
    /// Neighbours in the queue.
    var before: Int32 = -1
    var behind: Int32 = -1
    /// Bytes of a finished header block at the start of the slot's bytes; 0 when it is made from the template.
    var blockCount = 0
    /// The bytes that the peer allows us to send on the stream; only while it is open.
    var sendWindow = 0
    /// The bytes of received DATA frames, and the part of them that was returned to the peer's window.
    var received = 0
    var returned = 0
    /// The bytes of the received body, and the announced length; -1 when the answer announces none.
    var bodyReceived = 0
    var contentLength = -1
}

/// A queue of slots, linked through the slots themselves.
struct SlotQueue {
    private let queue: ClientStream.Queue
    private(set) var head: Int32 = -1
    private var tail: Int32 = -1
    private(set) var count = 0

    init(_ queue: ClientStream.Queue) { self.queue = queue }

    /// Adds a slot at the end.
    @unsafe @inline(__always)
    mutating func append(_ slot: UnsafeMutablePointer<ClientSlot>, in slots: UnsafeMutablePointer<ClientSlot>) {
        let index = unsafe slot.pointee.index
        unsafe slot.pointee.stream.queue = self.queue
        unsafe slot.pointee.stream.before = self.tail
        unsafe slot.pointee.stream.behind = -1
        if self.tail >= 0 { unsafe slots[Int(self.tail)].stream.behind = index } else { self.head = index }
        self.tail = index
        self.count += 1
    }

    /// Removes a slot from any position in this queue.
    @unsafe @inline(__always)
    mutating func remove(_ slot: UnsafeMutablePointer<ClientSlot>, in slots: UnsafeMutablePointer<ClientSlot>) {
        let before = unsafe slot.pointee.stream.before
        let behind = unsafe slot.pointee.stream.behind
        if before >= 0 { unsafe slots[Int(before)].stream.behind = behind } else { self.head = behind }
        if behind >= 0 { unsafe slots[Int(behind)].stream.before = before } else { self.tail = before }
        unsafe slot.pointee.stream.queue = .none
        self.count -= 1
    }
}
