/// What decides in which of the 16,384 slots a key lies: the text in its braces.
///
/// Everything that must change together has the same tag. Callers address a tag, never a server.
///
/// Source: https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/ (Key distribution model)
public struct HashTag: Sendable, Hashable, CustomStringConvertible {
    /// Slots of a Redis Cluster.
    public static let slotCount = 16_384

    /// The text, without braces.
    public let text: String
    /// The slot: CRC16 of the text, modulo 16,384.
    public let slot: Int

    /// The tag of that text, which holds no braces and is not empty: else Redis would hash something else.
    public init(_ text: String) {
        precondition(!text.isEmpty && !text.utf8.contains { $0 == 0x7b || $0 == 0x7d }, "no hash tag")
        self.text = text
        self.slot = Self.slot(ofHashed: text.utf8)
    }

    /// The tag of a key: what is between its first `{` and the next `}`; without any, or with nothing between them, the
    /// whole key.
    public init(ofKey key: String) {
        let hashed = Self.hashedPart(of: key)
        self.text = hashed
        self.slot = Self.slot(ofHashed: hashed.utf8)
    }

    /// The key of that name under this tag: the tag comes first, so nothing in the name can inject another.
    public func key(_ name: String) -> String { "{\(self.text)}\(name)" }

    /// As it stands in keys, with braces.
    public var description: String { "{\(self.text)}" }

    private static func hashedPart(of key: String) -> String {
        let bytes = key.utf8
        guard let open = bytes.firstIndex(of: 0x7b) else { return key }
        let inside = bytes[bytes.index(after: open)...]
        guard let close = inside.firstIndex(of: 0x7d), close != inside.startIndex else { return key }
        return String(key[inside.startIndex..<close])
    }

    private static func slot(ofHashed bytes: some Sequence<UInt8>) -> Int {
        Int(CRC16.checksum(bytes)) & (Self.slotCount - 1)
    }
}

/// CRC-16/XMODEM: polynomial 0x1021, starting from 0; "123456789" gives 0x31C3.
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
