/// Holds the requests of one connection that await their answers: allocated once, reused, never searched.
///
/// A request on the wire carries its slot's number as its tag, so that answers need no look-up by the caller's tag.
struct RequestSlots {
    /// A request in flight.
    struct Request {
        /// The caller's tag.
        var tag: UInt64 = 0
        /// The time of submission, in monotonic nanoseconds.
        var startedAt: UInt64 = 0
        /// The number of the gateway's credential that the request carries.
        var credential: UInt32 = 0
        /// A hash of the recipient's own address; 0 when all recipients have one address.
        var recipient: UInt32 = 0
        /// The next free slot; -1 for none; or ``inUse``.
        fileprivate var next: Int32 = 0
    }

    private static let inUse: Int32 = -2
    private var slots: [Request]
    private var freeHead: Int32 = 0
    /// The number of requests that await their answers.
    private(set) var count = 0

    init(capacity: Int) {
        precondition((1...1_000_000).contains(capacity))
        self.slots = (0..<capacity).map { index in
            Request(next: index + 1 < capacity ? Int32(index + 1) : -1)
        }
    }

    /// Takes a free slot and returns its number; nil when all are in use.
    @inline(__always)
    mutating func take(tag: UInt64, startedAt: UInt64, credential: UInt32, recipient: UInt32 = 0) -> UInt64? {
        guard self.freeHead >= 0 else { return nil }
        let index = Int(self.freeHead)
        self.freeHead = self.slots[index].next
        self.slots[index] = Request(
            tag: tag,
            startedAt: startedAt,
            credential: credential,
            recipient: recipient,
            next: Self.inUse,
        )
        self.count += 1
        return UInt64(index)
    }

    /// Frees a slot. Traps when it is free already: a request would end twice.
    @inline(__always)
    mutating func release(_ number: UInt64) -> Request {
        let index = Int(number)
        let request = self.slots[index]
        precondition(request.next == Self.inUse, "a request ended twice")
        self.slots[index].next = self.freeHead
        self.freeHead = Int32(index)
        self.count -= 1
        return request
    }
}
