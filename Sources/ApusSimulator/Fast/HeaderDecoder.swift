/// Decodes HPACK header blocks (RFC 7541) for the path and the id of requests, and skips other fields unread.
package struct HeaderDecoder {
    /// The fields that are kept.
    enum Kind: UInt8 {
        case other
        case path
        case id
    }

    /// A field of the dynamic table. Only values of needed fields are stored; sizes count as if all were.
    private struct Entry {
        let kind: Kind
        let nameBytes: Int
        let size: Int
        let value: [UInt8]
    }

    /// The bytes of the offered table: the default of RFC 9113 §6.5.2, which SETTINGS do not change.
    private static let tableBytesMax = 4_096
    /// The largest accepted integer.
    private static let integerMax = 1 << 24

    /// The entries, newest last.
    private var table: [Entry] = []
    /// The bytes of the dynamic table, counted as in RFC 7541 §4.1.
    package private(set) var tableBytes = 0
    private var tableLimit = HeaderDecoder.tableBytesMax
    private var scratch: [UInt8] = []
    private let idHeader: [UInt8]
    private static let pathHeader = Array(":path".utf8)

    /// The `:path` of the latest block.
    package private(set) var path: [UInt8] = []
    /// The request's id in the latest block; empty if there was none.
    package private(set) var id: [UInt8] = []

    /// Creates a decoder with an empty table.
    ///
    /// - Parameter idHeader: the header that holds the request's id; nil for none.
    package init(idHeader: String? = nil) {
        self.idHeader = Array((idHeader ?? "").utf8)
        self.path.reserveCapacity(256)
        self.id.reserveCapacity(64)
        self.scratch.reserveCapacity(4_096)
    }

    /// Decodes a block; returns false when it is malformed, and the connection is lost.
    package mutating func decode(_ block: Span<UInt8>) -> Bool {
        self.path.removeAll(keepingCapacity: true)
        self.id.removeAll(keepingCapacity: true)
        var index = 0
        while index < block.count {
            let byte = block[index]
            let isFine: Bool
            if byte & 0x80 != 0 {
                isFine = self.indexed(block, &index)
            } else if byte & 0x40 != 0 {
                isFine = self.literal(block, &index, prefix: 6, isKept: true)
            } else if byte & 0x20 != 0 {
                isFine = self.resize(block, &index)
            } else {
                isFine = self.literal(block, &index, prefix: 4, isKept: false)
            }
            guard isFine else { return false }
        }
        return true
    }

    private mutating func indexed(_ block: Span<UInt8>, _ index: inout Int) -> Bool {
        guard let number = Self.integer(block, &index, prefix: 7), number > 0 else { return false }
        guard number > StaticTable.count else {
            if StaticTable.kind(number) == .path { self.path.append(contentsOf: StaticTable.path(number)) }
            return true
        }
        guard let entry = self.entry(number) else { return false }
        self.note(entry.kind, entry.value)
        return true
    }

    private func entry(_ number: Int) -> Entry? {
        let place = self.table.count - (number - StaticTable.count)
        return place >= 0 ? self.table[place] : nil
    }

    private mutating func note(_ kind: Kind, _ value: [UInt8]) {
        switch kind {
        case .other: break
        case .path:
            self.path.removeAll(keepingCapacity: true)
            self.path.append(contentsOf: value)
        case .id:
            self.id.removeAll(keepingCapacity: true)
            self.id.append(contentsOf: value)
        }
    }

    private mutating func resize(_ block: Span<UInt8>, _ index: inout Int) -> Bool {
        guard let limit = Self.integer(block, &index, prefix: 5), limit <= Self.tableBytesMax else { return false }
        self.tableLimit = limit
        self.evict()
        return true
    }

    private mutating func literal(_ block: Span<UInt8>, _ index: inout Int, prefix: Int, isKept: Bool) -> Bool {
        guard let number = Self.integer(block, &index, prefix: prefix) else { return false }
        var kind = Kind.other
        var nameBytes = 0
        if number == 0 {
            self.scratch.removeAll(keepingCapacity: true)
            guard let name = Self.string(block, &index), self.append(name, of: block) else { return false }
            kind = self.kind(ofName: self.scratch)
            nameBytes = self.scratch.count
        } else if number <= StaticTable.count {
            kind = StaticTable.kind(number)
            nameBytes = StaticTable.nameBytes[number]
        } else {
            guard let entry = self.entry(number) else { return false }
            kind = entry.kind
            nameBytes = entry.nameBytes
        }
        guard let value = Self.string(block, &index) else { return false }
        guard isKept || kind != .other else { return true }
        self.scratch.removeAll(keepingCapacity: true)
        guard self.append(value, of: block) else { return false }
        self.note(kind, self.scratch)
        guard isKept else { return true }
        self.keep(kind, nameBytes: nameBytes, valueBytes: self.scratch.count)
        return true
    }

    private mutating func keep(_ kind: Kind, nameBytes: Int, valueBytes: Int) {
        let value = kind == .other ? [] : self.scratch
        let entry = Entry(kind: kind, nameBytes: nameBytes, size: nameBytes + valueBytes + 32, value: value)
        self.tableBytes += entry.size
        self.table.append(entry)
        self.evict()
    }

    /// Removes the oldest fields until the rest fits (RFC 7541 §4.4).
    private mutating func evict() {
        var gone = 0
        while self.tableBytes > self.tableLimit, gone < self.table.count {
            self.tableBytes -= self.table[gone].size
            gone += 1
        }
        self.table.removeFirst(gone)
    }

    private func kind(ofName name: [UInt8]) -> Kind {
        if name == self.idHeader { return .id }
        return name == Self.pathHeader ? .path : .other
    }

    // MARK: Primitives

    /// A string literal and its coding, plain or Huffman.
    private struct Text {
        let range: Range<Int>
        let isCoded: Bool
    }

    private mutating func append(_ text: Text, of block: Span<UInt8>) -> Bool {
        guard !text.isCoded else { return HuffmanDecoder.decode(block, text.range, into: &self.scratch) }
        self.scratch.append(span: block.extracting(text.range))
        return true
    }

    private static func string(_ block: Span<UInt8>, _ index: inout Int) -> Text? {
        guard index < block.count else { return nil }
        let isCoded = block[index] & 0x80 != 0
        guard let count = Self.integer(block, &index, prefix: 7), count <= block.count - index else { return nil }
        let range = index..<index + count
        index += count
        return Text(range: range, isCoded: isCoded)
    }

    /// Reads an integer (RFC 7541 §5.1).
    @inline(__always)
    private static func integer(_ block: Span<UInt8>, _ index: inout Int, prefix: Int) -> Int? {
        guard index < block.count else { return nil }
        let mask = (1 << prefix) - 1
        var value = Int(block[index]) & mask
        index += 1
        guard value == mask else { return value }
        var shift = 0
        while index < block.count, shift <= 21 {
            let byte = block[index]
            index += 1
            value += Int(byte & 0x7f) << shift
            guard value <= Self.integerMax else { return nil }
            guard byte & 0x80 != 0 else { return value }
            shift += 7
        }
        return nil
    }
}

/// Holds HPACK's static table (RFC 7541 Appendix A), as far as the path and the sizes need it.
private enum StaticTable {
    static let count = 61

    /// The bytes of each name, from 1.
    static let nameBytes: [Int] = [
        0, 10, 7, 7, 5, 5, 7, 7, 7, 7, 7, 7, 7, 7, 7, 14, 15, 15, 13, 6, 27, 3, 5, 13, 13, 19, 16, 16, 14, 16, 13, 12,
        6, 4, 4, 6, 7, 4, 4, 8, 17, 13, 8, 19, 13, 4, 8, 12, 18, 19, 5, 7, 7, 11, 6, 10, 25, 17, 10, 4, 3, 16,
    ]

    static func kind(_ number: Int) -> HeaderDecoder.Kind { number == 4 || number == 5 ? .path : .other }

    static func path(_ number: Int) -> [UInt8] { Array((number == 4 ? "/" : "/index.html").utf8) }
}
