/// Mirrors the dynamic table of our headers in the peer's decoder (RFC 7541 §2.3.2).
struct HPACKTable {
    /// A header field.
    struct Field: Equatable {
        let name: [UInt8]
        let value: [UInt8]
        /// FNV-1a of both: compared first, so that a search does not read the texts.
        let digest: UInt64

        init(_ name: [UInt8], _ value: [UInt8]) {
            self.name = name
            self.value = value
            var digest: UInt64 = 0xcbf2_9ce4_8422_2325
            for byte in name { digest = (digest ^ UInt64(byte)) &* 0x0100_0000_01b3 }
            digest = (digest ^ 0x3a) &* 0x0100_0000_01b3
            for byte in value { digest = (digest ^ UInt64(byte)) &* 0x0100_0000_01b3 }
            self.digest = digest
        }

        static func == (one: Field, other: Field) -> Bool {
            one.digest == other.digest && one.name == other.name && one.value == other.value
        }

        init(_ name: String, _ value: String) { self.init(Array(name.utf8), Array(value.utf8)) }

        /// `:method: POST`.
        static let post = Field(":method", "POST")
        /// `:scheme: https`.
        static let https = Field(":scheme", "https")

        @unsafe
        init(_ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) {
            unsafe self.init(Array(name), Array(value))
        }

        /// The field's size in a table (RFC 7541 §4.1).
        var tableBytes: Int { self.name.count + self.value.count + 32 }
    }

    /// The maximum bytes of a table that we use, even when a peer allows more; also its size before SETTINGS (RFC 9113 §6.5.2).
    static let bytesMax = 4_096
    /// The number of entries of the static table (RFC 7541 appendix A).
    private static let staticCount = 61
    /// The entries of the static table that our requests use.
    private static let whole: [(field: Field, index: Int)] = [
        (Field(":method", "GET"), 2), (.post, 3), (Field(":path", "/"), 4), (.https, 7),
    ]
    private static let names: [[UInt8]: Int] = [
        Array(":authority".utf8): 1, Array(":method".utf8): 2, Array(":path".utf8): 4,
        Array("authorization".utf8): 23, Array("content-type".utf8): 31,
    ]

    /// The number of digests of previously encoded fields that are remembered.
    private static let metCount: UInt64 = 64

    /// The entries, oldest first.
    private var entries: [Field] = []
    private var met = [UInt64](repeating: 0, count: Int(Self.metCount))
    private var bytes = 0
    /// The maximum bytes of the table now.
    private(set) var bytesMax = Self.bytesMax
    /// The smallest size since the last block, when the next block must announce a change.
    private var smallest: Int?
    /// Changes whenever earlier blocks become invalid.
    private(set) var generation: UInt64 = 0

    /// Applies the peer's SETTINGS_HEADER_TABLE_SIZE.
    mutating func peerAllows(_ bytes: UInt32) {
        let allowed = min(Int(bytes), Self.bytesMax)
        guard allowed != self.bytesMax else { return }
        self.smallest = min(self.smallest ?? allowed, allowed)
        self.bytesMax = allowed
        self.evict(to: allowed)
        self.generation += 1
    }

    /// Begins a block: announces a change of size, once (RFC 7541 §4.2). Returns false when there is none.
    mutating func announceSize(to block: inout GrowingBytes) -> Bool {
        guard let smallest = self.smallest else { return false }
        if smallest < self.bytesMax { Self.append(smallest, prefixBits: 5, pattern: 0x20, to: &block) }
        Self.append(self.bytesMax, prefixBits: 5, pattern: 0x20, to: &block)
        self.smallest = nil
        return true
    }

    /// Appends a field in its shortest form. A field enters the table at its second use: fields of one send alone would
    /// evict those that all sends have. Returns false at the first use, so that the next block has a shorter form.
    ///
    /// - Parameter isRepeated: true when the field is known to have been used before. Few digests are remembered, and
    ///   two fields can evict each other.
    @discardableResult
    mutating func encode(
        _ field: Field,
        isIndexed: Bool,
        isRepeated: Bool = false,
        to block: inout GrowingBytes
    ) -> Bool {
        if let known = Self.whole.first(where: { $0.field == field }) {
            Self.append(known.index, prefixBits: 7, pattern: 0x80, to: &block)
            return true
        }
        if isIndexed, let place = self.entries.lastIndex(of: field) {
            Self.append(Self.staticCount + self.entries.count - place, prefixBits: 7, pattern: 0x80, to: &block)
            return true
        }
        let isMetAgain = isRepeated || self.met[Int(field.digest % Self.metCount)] == field.digest
        self.met[Int(field.digest % Self.metCount)] = field.digest
        guard isIndexed, isMetAgain else {
            Self.appendLiteral(field, pattern: 0, prefixBits: 4, to: &block)
            return !isIndexed
        }
        Self.appendLiteral(field, pattern: 0x40, prefixBits: 6, to: &block)
        self.evict(to: self.bytesMax - field.tableBytes)
        self.entries.append(field)
        self.bytes += field.tableBytes
        self.generation += 1
        return true
    }

    private mutating func evict(to bytes: Int) {
        while self.bytes > max(bytes, 0), !self.entries.isEmpty { self.bytes -= self.entries.removeFirst().tableBytes }
    }

    // MARK: Representations

    /// Appends a literal without indexing, which changes no table.
    static func appendLiteral(_ name: some Sequence<UInt8>, _ value: some Sequence<UInt8>, to block: inout GrowingBytes)
    {
        Self.appendLiteral(Field(Array(name), Array(value)), pattern: 0, prefixBits: 4, to: &block)
    }

    private static func appendLiteral(_ field: Field, pattern: UInt8, prefixBits: Int, to block: inout GrowingBytes) {
        let name = Self.names[field.name] ?? 0
        Self.append(name, prefixBits: prefixBits, pattern: pattern, to: &block)
        if name == 0 { Self.append(field.name, to: &block) }
        Self.append(field.value, to: &block)
    }

    private static func append(_ string: [UInt8], to block: inout GrowingBytes) {
        Self.append(string.count, prefixBits: 7, pattern: 0, to: &block)
        for byte in string { block.append(byte) }
    }

    private static func append(_ value: Int, prefixBits: Int, pattern: UInt8, to block: inout GrowingBytes) {
        let start = unsafe block.reserve(block.count + 10) + block.count
        var cursor = unsafe start
        unsafe Self.writeInteger(value, prefixBits: prefixBits, pattern: pattern, to: &cursor)
        let count = unsafe cursor - start
        block.setCount(block.count + count)
    }

    /// Writes an integer (RFC 7541 §5.1), at most ten bytes.
    @unsafe
    static func writeInteger(
        _ value: Int,
        prefixBits: Int,
        pattern: UInt8,
        to cursor: inout UnsafeMutablePointer<UInt8>
    ) {
        let most = (1 << prefixBits) - 1
        guard value >= most else {
            unsafe cursor[0] = pattern | UInt8(value)
            unsafe cursor += 1
            return
        }
        unsafe cursor[0] = pattern | UInt8(most)
        unsafe cursor += 1
        var rest = value - most
        while rest >= 0x80 {
            unsafe cursor[0] = UInt8(rest & 0x7f) | 0x80
            unsafe cursor += 1
            rest >>= 7
        }
        unsafe cursor[0] = UInt8(rest)
        unsafe cursor += 1
    }
}
