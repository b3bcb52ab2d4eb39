/// Bytes kept for good, in pages, so that a growing arena never copies what it holds.
struct ByteArena {
    private static let pageBytes = 64 * 1_024

    private var full: [[UInt8]] = []
    private var current: [UInt8] = []

    /// Keeps a run of at most 64 KiB; the place to find it again.
    mutating func keep(_ bytes: Span<UInt8>) -> UInt64 {
        precondition(bytes.count <= Self.pageBytes, "a run fits in a page")
        if self.current.count + bytes.count > Self.pageBytes {
            self.full.append(self.current)
            self.current = []
        }
        if self.current.capacity == 0 { self.current.reserveCapacity(Self.pageBytes) }
        let place = UInt64(self.full.count) << 36 | UInt64(self.current.count) << 18 | UInt64(bytes.count)
        self.current.append(span: bytes)
        return place
    }

    /// The run at that place.
    func bytes(at place: UInt64) -> ArraySlice<UInt8> {
        let page = Int(place >> 36)
        let start = Int(place >> 18 & 0x3ffff)
        let end = start + Int(place & 0x3ffff)
        return page < self.full.count ? self.full[page][start..<end] : self.current[start..<end]
    }
}
