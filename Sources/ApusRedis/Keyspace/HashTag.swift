/// The hash tag of a key, the text in its braces, which determines the key's slot among 16,384.
///
/// Keys that must change together have the same tag. Callers address a tag, never a server.
///
/// Source: https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/ (Key distribution model)
public struct HashTag: Sendable, Hashable, CustomStringConvertible {
    /// The number of slots of a Redis Cluster.
    public static let slotCount = 16_384

    /// The text without braces.
    public let text: String
    /// The tag with its braces, as keys hold it.
    public let description: String
    /// The slot: CRC16 of the text, modulo 16,384.
    public let slot: Int

    /// Creates the tag of a text, which must not be empty or hold braces: otherwise Redis would hash something else.
    public init(_ text: String) {
        precondition(!text.isEmpty && !text.utf8.contains { $0 == 0x7b || $0 == 0x7d }, "not a hash tag: \(text)")
        self.text = text
        self.description = "{\(text)}"
        self.slot = Self.slot(ofHashed: text.utf8)
    }

    /// Creates the tag of a key: the text between its first `{` and the next `}`; without braces, or with nothing
    /// between them, the whole key.
    public init(ofKey key: String) {
        self.text = String(Substring(Self.hashedPart(of: key.utf8)))
        self.description = "{\(self.text)}"
        self.slot = Self.slot(ofHashed: self.text.utf8)
    }

    /// Returns the slot of a key.
    package static func slot(ofKey key: [UInt8]) -> Int { Self.slot(ofHashed: Self.hashedPart(of: key)) }

    /// Returns the key of a name under this tag. The tag comes first, so no name can inject another.
    public func key(_ name: String) -> String { self.description + name }

    /// Returns true for tags of the same text.
    public static func == (one: HashTag, other: HashTag) -> Bool { one.text == other.text }

    /// Hashes the slot, which equal tags share.
    public func hash(into hasher: inout Hasher) { hasher.combine(self.slot) }

    private static func hashedPart<Key: Collection<UInt8>>(of key: Key) -> Key.SubSequence {
        guard let open = key.firstIndex(of: 0x7b) else { return key[...] }
        let inside = key[key.index(after: open)...]
        guard let close = inside.firstIndex(of: 0x7d), close != inside.startIndex else { return key[...] }
        return inside[..<close]
    }

    private static func slot(ofHashed bytes: some Sequence<UInt8>) -> Int {
        Int(CRC16.checksum(bytes)) & (Self.slotCount - 1)
    }
}

/// Computes CRC-16/XMODEM: polynomial 0x1021, starting from 0; "123456789" gives 0x31C3.
enum CRC16 {
    private static let table: [UInt16] = (0..<256).map { (byte: UInt16) in
        var remainder = byte << 8
        for _ in 0..<8 { remainder = remainder & 0x8000 != 0 ? remainder << 1 ^ 0x1021 : remainder << 1 }
        return remainder
    }

    static func checksum(_ bytes: some Sequence<UInt8>) -> UInt16 {
        var remainder: UInt16 = 0
        for byte in bytes {
            remainder = remainder << 8 ^ self.table[Int(UInt8(remainder >> 8) ^ byte)]
        }
        return remainder
    }
}
