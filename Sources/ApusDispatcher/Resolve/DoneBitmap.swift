/// A bitmap with one bit per recipient of a unit. A bit is set when the recipient's outcome, or its retry, is in a
/// report.
///
/// A high-water mark would not suffice, because answers arrive in any order.
struct DoneBitmap: Hashable, Sendable {
    /// The number of recipients.
    let count: Int
    /// The number of set bits.
    private(set) var setCount = 0
    private var words: [UInt64]

    /// Creates a bitmap without set bits.
    init(count: Int) {
        precondition(count >= 0)
        self.count = count
        self.words = Array(repeating: 0, count: (count + 63) / 64)
    }

    /// Creates a bitmap from a journal: bit i is bit i % 8 of byte i / 8. Bits past `count` are ignored, missing bytes
    /// are zero.
    init(count: Int, journal: [UInt8]) {
        self.init(count: count)
        for (index, byte) in journal.prefix(Self.byteCount(of: count)).enumerated() where byte != 0 {
            for bit in 0..<8 where byte & (1 << UInt8(bit)) != 0 && index * 8 + bit < count {
                self.set(index * 8 + bit)
            }
        }
    }

    /// Creates a bitmap with the bits before `end` set.
    init(count: Int, setBefore end: Int) {
        self.init(count: count)
        for index in 0..<end { self.set(index) }
    }

    /// Returns the number of journal bytes for that many recipients.
    static func byteCount(of count: Int) -> Int { (count + 7) / 8 }

    /// Returns true when the bit is set.
    subscript(_ index: Int) -> Bool {
        precondition(index >= 0 && index < self.count)
        return self.words[index >> 6] & (1 << UInt64(index & 63)) != 0
    }

    /// Sets a bit. Returns false when it was set already.
    @discardableResult
    mutating func set(_ index: Int) -> Bool {
        precondition(index >= 0 && index < self.count)
        let mask: UInt64 = 1 << UInt64(index & 63)
        guard self.words[index >> 6] & mask == 0 else { return false }
        self.words[index >> 6] |= mask
        self.setCount += 1
        return true
    }

    /// True when all bits are set.
    var isComplete: Bool { self.setCount == self.count }

    /// The journal's bytes.
    var journal: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(self.words.count * 8)
        for word in self.words {
            for shift in 0..<8 { bytes.append(UInt8(truncatingIfNeeded: word >> UInt64(shift * 8))) }
        }
        bytes.removeLast(bytes.count - Self.byteCount(of: self.count))
        return bytes
    }
}
