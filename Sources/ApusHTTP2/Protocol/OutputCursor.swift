/// The memory that frames are written to, lent for one drain.
@safe struct OutputCursor {
    private var start: UnsafeMutablePointer<UInt8>?
    private var limit = 0
    private(set) var count = 0
    /// True when a DATA frame of nghttp2 must wait for the next drain.
    private(set) var isBlocked = false

    init() { unsafe self.start = nil }

    /// Returns the bytes of memory that filling up to `limit` needs: one DATA frame may begin just below it, and one
    /// chunk of nghttp2 may follow.
    static func room(for limit: Int) -> Int {
        limit + HTTP2Limits.dataFrameBytesMax + HTTP2Limits.chunkBytesMax
    }

    /// True while the limit is not reached.
    @inline(__always)
    var hasRoom: Bool { self.count < self.limit }

    /// The bytes up to the limit.
    var roomLeft: Int { max(self.limit - self.count, 0) }

    /// The position of the next byte: below the limit there is room for a frame, and for one more behind that.
    @unsafe @inline(__always)
    var position: UnsafeMutablePointer<UInt8> {
        guard let start = unsafe self.start else { preconditionFailure("output outside of a drain") }
        return unsafe start + self.count
    }

    /// Advances the cursor to the end of the bytes that were written at ``position``.
    @unsafe @inline(__always)
    mutating func advance(to end: UnsafeMutablePointer<UInt8>) { unsafe self.count += end - self.position }

    @unsafe
    mutating func begin(_ start: UnsafeMutablePointer<UInt8>, limit: Int) {
        unsafe self.start = start
        self.limit = limit
        self.count = 0
        self.isBlocked = false
    }

    mutating func end() { unsafe self.start = nil }

    @unsafe @inline(__always)
    mutating func append(_ bytes: UnsafePointer<UInt8>, count: Int) {
        guard let start = unsafe self.start else { preconditionFailure("output outside of a drain") }
        unsafe (start + self.count).update(from: bytes, count: count)
        self.count += count
    }

    /// Writes a DATA frame from up to three segments, beginning at `offset`; returns false when it must wait.
    @unsafe @inline(__always)
    mutating func appendFrame(
        header: UnsafePointer<UInt8>,
        count: Int,
        of segments: (UnsafeBufferPointer<UInt8>, UnsafeBufferPointer<UInt8>, UnsafeBufferPointer<UInt8>),
        from offset: Int,
    ) -> Bool {
        precondition(count <= 16_384)
        guard self.hasRoom, unsafe self.start != nil else {
            self.isBlocked = true
            return false
        }
        unsafe self.append(header, count: 9)
        unsafe self.append(segments, from: offset, count: count)
        return true
    }

    /// Appends bytes of a body in three segments, beginning at `offset`.
    @unsafe @inline(__always)
    mutating func append(
        _ segments: (UnsafeBufferPointer<UInt8>, UnsafeBufferPointer<UInt8>, UnsafeBufferPointer<UInt8>),
        from offset: Int,
        count: Int,
    ) {
        var skip = offset
        var left = count
        unsafe self.append(part: segments.0, &skip, &left)
        unsafe self.append(part: segments.1, &skip, &left)
        unsafe self.append(part: segments.2, &skip, &left)
        precondition(left == 0)
    }

    @inline(__always)
    private mutating func append(part: UnsafeBufferPointer<UInt8>, _ skip: inout Int, _ left: inout Int) {
        guard skip < part.count, left > 0, let base = part.baseAddress else {
            skip -= min(skip, part.count)
            return
        }
        let count = min(part.count - skip, left)
        unsafe self.append(base + skip, count: count)
        skip = 0
        left -= count
    }
}
