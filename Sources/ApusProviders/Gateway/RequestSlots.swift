/// The requests of one connection that await their answers: made once, used again, never searched.
///
/// What goes on the wire carries a slot's number as its tag; so nothing is looked up by the caller's own.
struct RequestSlots {
    /// One request.
    struct Request {
        /// The caller's.
        var tag: UInt64 = 0
        /// Monotonic nanoseconds.
        var startedAt: UInt64 = 0
        /// Which of the gateway's credentials it carries.
        var credential: UInt32 = 0
        /// The next free slot; -1: none; ``inUse``.
        fileprivate var next: Int32 = 0
    }

    private static let inUse: Int32 = -2
    private var slots: [Request]
    private var freeHead: Int32 = 0
    /// Requests that await their answers.
    private(set) var count = 0

    init(capacity: Int) {
        precondition((1...1_000_000).contains(capacity))
        self.slots = (0..<capacity).map { index in
            Request(next: index + 1 < capacity ? Int32(index + 1) : -1)
        }
    }

    /// A slot's number; nil when all are taken.
    @inline(__always)
    mutating func take(tag: UInt64, startedAt: UInt64, credential: UInt32) -> UInt64? {
        guard self.freeHead >= 0 else { return nil }
        let index = Int(self.freeHead)
        self.freeHead = self.slots[index].next
        self.slots[index] = Request(tag: tag, startedAt: startedAt, credential: credential, next: Self.inUse)
        self.count += 1
        return UInt64(index)
    }

    /// Empties a slot. Traps when it is empty: a request would have two ends.
    @inline(__always)
    mutating func release(_ number: UInt64) -> Request {
        let index = Int(number)
        let request = self.slots[index]
        precondition(request.next == Self.inUse, "a request has one end")
        self.slots[index].next = self.freeHead
        self.freeHead = Int32(index)
        self.count -= 1
        return request
    }
}
