internal import CNghttp2

/// One request in flight: where its bytes lie, how far it came, what was answered.
///
/// nghttp2 keeps a pointer to the slot as the stream's user data; slots never move.
@safe struct ClientSlot {
    /// What the caller is told, once.
    enum Outcome: UInt8 {
        /// Nothing yet.
        case open
        case answered
        case refused
        case reset
        /// Reset by the end of the connection.
        case lost
        case timedOut
    }

    let index: Int32
    var tag: UInt64 = 0
    var deadline: UInt64 = 0
    var streamID: Int32 = 0
    /// Neighbours in the list of deadlines.
    var earlier: Int32 = -1
    var later: Int32 = -1
    /// The next free slot.
    var nextFree: Int32 = -1
    var template: Int32 = -1
    var authorization: Int32 = -1
    /// The objects' own numbers; 0: none.
    var templateSerial: UInt64 = 0
    var authorizationSerial: UInt64 = 0
    var code: UInt32 = 0
    var status: Int32 = 0
    var outcome = Outcome.open
    /// The wire still knows the stream, so the request's bytes must stay.
    var isStreamOpen = false
    var isEventQueued = false
    /// The headers never left.
    var isNeverSent = false
    var isResetSubmitted = false
    var isBodyTruncated = false
    /// The final answer's headers came; what follows are trailers.
    var isHeaderComplete = false

    /// Path, id and the middle of the body, as this request needs them; or what its wire made of a plain request.
    var request = GrowingBytes()
    /// Bytes of the path at the start of `request`; 0: the template's is constant.
    var pathCount = 0
    /// Whether the id's text follows the path.
    var hasID = false
    var bodyPrefix: UnsafeBufferPointer<UInt8>
    /// Where in `request` the middle of the body lies.
    var bodyMiddle = 0..<0
    var bodySuffix: UnsafeBufferPointer<UInt8>
    var bodyCount = 0
    var bodySent = 0
    /// What only ``LeanWire`` needs; nghttp2 keeps its own.
    var lean = LeanStream()

    /// Kept header values as (field, length high, length low, bytes), then the body.
    var answer = GrowingBytes()
    var answerFieldBytes = 0

    init(index: Int32) {
        self.index = index
        unsafe self.bodyPrefix = UnsafeBufferPointer(start: nil, count: 0)
        unsafe self.bodySuffix = UnsafeBufferPointer(start: nil, count: 0)
    }

    @inline(__always)
    mutating func begin(tag: UInt64, deadline: UInt64) {
        self.tag = tag
        self.deadline = deadline
        self.outcome = .open
        self.code = 0
        self.status = 0
        self.isStreamOpen = true
        self.isNeverSent = false
        self.isResetSubmitted = false
        self.isBodyTruncated = false
        self.isHeaderComplete = false
        self.streamID = 0
        self.templateSerial = 0
        self.authorizationSerial = 0
        self.pathCount = 0
        self.hasID = false
        self.bodySent = 0
        self.answerFieldBytes = 0
        self.lean = LeanStream()
    }

    /// The body lies in `request`, in one piece.
    mutating func setPlainBody(_ range: Range<Int>) {
        unsafe self.bodyPrefix = UnsafeBufferPointer(start: nil, count: 0)
        unsafe self.bodySuffix = UnsafeBufferPointer(start: nil, count: 0)
        self.bodyMiddle = range
        self.bodyCount = range.count
    }

    /// Writes the next DATA frame of the body; false when it has to wait.
    @inline(__always)
    mutating func writeBody(header: UnsafePointer<UInt8>, count: Int, to output: inout OutputCursor) -> Bool {
        guard unsafe output.appendFrame(header: header, count: count, of: self.segments, from: self.bodySent) else {
            return false
        }
        self.bodySent += count
        return true
    }

    /// The body, in order.
    var segments: (UnsafeBufferPointer<UInt8>, UnsafeBufferPointer<UInt8>, UnsafeBufferPointer<UInt8>) {
        let middle = unsafe UnsafeBufferPointer(
            start: self.request.start.map { unsafe UnsafePointer($0 + self.bodyMiddle.lowerBound) },
            count: self.bodyMiddle.count,
        )
        return unsafe (self.bodyPrefix, middle, self.bodySuffix)
    }

    /// Keeps a header value of the final answer.
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

    /// Where in `answer` that field's value lies.
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
