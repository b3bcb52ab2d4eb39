/// A set of a chunk's 4,096 ordinals: postings are read into it, and topic expressions are computed with it.
///
/// Ordinal o is bit 63 − o mod 64 of word o / 64, so that words are read from Redis' bitmaps as big-endian numbers.
package struct ChunkSet: Hashable, Sendable {
    /// The ordinals of a chunk.
    package static let capacity = 4_096
    /// The bytes of a posting that is a bitmap; a shorter one is packed.
    static let bitmapByteCount = Self.capacity / 8

    private var words: [UInt64]

    /// Creates an empty set.
    package init() { self.words = [UInt64](repeating: 0, count: Self.capacity / 64) }

    /// Creates a set of those ordinals, each below 4,096.
    package init(_ ordinals: some Sequence<Int>) {
        self.init()
        for ordinal in ordinals { self.insert(ordinal) }
    }

    /// Creates a set from a posting in Redis: 512 bytes of bitmap, or two bytes for each ordinal, big endian.
    ///
    /// - Returns: nil when it is neither.
    package init?(posting: Span<UInt8>) {
        self.init()
        guard posting.count == Self.bitmapByteCount else {
            guard posting.count < Self.bitmapByteCount, posting.count.isMultiple(of: 2) else { return nil }
            for index in stride(from: 0, to: posting.count, by: 2) {
                let ordinal = Int(posting[index]) << 8 | Int(posting[index + 1])
                guard ordinal < Self.capacity else { return nil }
                self.insert(ordinal)
            }
            return
        }
        for index in 0..<self.words.count {
            var word: UInt64 = 0
            for byte in 0..<8 { word = word << 8 | UInt64(posting[index * 8 + byte]) }
            self.words[index] = word
        }
    }

    /// The number of ordinals.
    package var count: Int { self.words.reduce(0) { $0 + $1.nonzeroBitCount } }
    /// True when the set is empty.
    package var isEmpty: Bool { self.words.allSatisfy { $0 == 0 } }

    /// Returns true when that ordinal, below 4,096, is in the set.
    package func contains(_ ordinal: Int) -> Bool { self.words[ordinal >> 6] & Self.bit(ordinal) != 0 }

    /// Adds an ordinal below 4,096.
    package mutating func insert(_ ordinal: Int) { self.words[ordinal >> 6] |= Self.bit(ordinal) }

    /// Keeps the ordinals that are in both sets.
    package mutating func formIntersection(_ other: ChunkSet) {
        for index in 0..<self.words.count { self.words[index] &= other.words[index] }
    }

    /// Adds the ordinals of the other set.
    package mutating func formUnion(_ other: ChunkSet) {
        for index in 0..<self.words.count { self.words[index] |= other.words[index] }
    }

    /// Removes the ordinals of the other set.
    package mutating func subtract(_ other: ChunkSet) {
        for index in 0..<self.words.count { self.words[index] &= ~other.words[index] }
    }

    /// The set as a posting of 512 bytes.
    var bitmap: [UInt8] { self.words.flatMap { bigEndian($0) } }

    /// Calls `body` with each ordinal, ascending.
    package func forEachOrdinal<Failure: Error>(_ body: (Int) throws(Failure) -> Void) throws(Failure) {
        for index in 0..<self.words.count {
            var word = self.words[index]
            while word != 0 {
                let position = word.leadingZeroBitCount
                try body(index << 6 | position)
                word &= ~(1 << UInt64(63 - position))
            }
        }
    }

    /// The ordinals, ascending.
    package var ordinals: [Int] {
        var ordinals: [Int] = []
        ordinals.reserveCapacity(self.count)
        self.forEachOrdinal { ordinals.append($0) }
        return ordinals
    }

    private static func bit(_ ordinal: Int) -> UInt64 { 1 << UInt64(63 - ordinal & 63) }
}
