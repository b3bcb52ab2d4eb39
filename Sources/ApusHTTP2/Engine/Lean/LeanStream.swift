/// What ``LeanWire`` keeps of one stream.
struct LeanStream {
    /// Where its slot is lined up.
    enum Line: UInt8 {
        case none
        /// For a stream.
        case waiting
        /// For room to write more of the body.
        case writing
    }

    var line = Line.none
    /// Neighbours in the line.
    var before: Int32 = -1
    var behind: Int32 = -1
    /// Bytes of a finished header block at the start of the slot's bytes; 0: it is made of the template.
    var blockCount = 0
    /// Bytes that the peer lets us send on the stream; only while it is open.
    var sendWindow = 0
    /// Bytes of DATA frames that came, and how many of them the peer was given back.
    var received = 0
    var returned = 0
    /// Bytes of the body that came, and how many were announced; -1: not said.
    var bodyReceived = 0
    var contentLength = -1
}

/// Slots in line, linked through themselves.
struct SlotLine {
    private let line: LeanStream.Line
    private(set) var head: Int32 = -1
    private var tail: Int32 = -1
    private(set) var count = 0

    init(_ line: LeanStream.Line) { self.line = line }

    /// At the end.
    @unsafe @inline(__always)
    mutating func append(_ slot: UnsafeMutablePointer<ClientSlot>, in slots: UnsafeMutablePointer<ClientSlot>) {
        let index = unsafe slot.pointee.index
        unsafe slot.pointee.lean.line = self.line
        unsafe slot.pointee.lean.before = self.tail
        unsafe slot.pointee.lean.behind = -1
        if self.tail >= 0 { unsafe slots[Int(self.tail)].lean.behind = index } else { self.head = index }
        self.tail = index
        self.count += 1
    }

    /// From wherever it stands in this line.
    @unsafe @inline(__always)
    mutating func remove(_ slot: UnsafeMutablePointer<ClientSlot>, in slots: UnsafeMutablePointer<ClientSlot>) {
        let before = unsafe slot.pointee.lean.before
        let behind = unsafe slot.pointee.lean.behind
        if before >= 0 { unsafe slots[Int(before)].lean.behind = behind } else { self.head = behind }
        if behind >= 0 { unsafe slots[Int(behind)].lean.before = before } else { self.tail = before }
        unsafe slot.pointee.lean.line = .none
        self.count -= 1
    }
}
