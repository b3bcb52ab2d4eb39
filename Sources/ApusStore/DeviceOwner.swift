/// Names a device in the hints: the place that its id leads to. It takes ten bytes in Redis.
struct DeviceOwner: Hashable, Sendable {
    /// The bytes in Redis: partition (2) and digest (8), big endian.
    static let byteCount = 10

    let partition: Int
    let digest: UInt64

    init(partition: Int, digest: UInt64) {
        self.partition = partition
        self.digest = digest
    }

    /// Reads ten bytes; nil when there are not as many.
    init?(_ bytes: some Collection<UInt8>) {
        guard bytes.count == Self.byteCount else { return nil }
        self.partition = bytes.prefix(2).reduce(0) { $0 << 8 | Int($1) }
        self.digest = bytes.dropFirst(2).reduce(0) { $0 << 8 | UInt64($1) }
    }

    var bytes: [UInt8] { bigEndian(UInt16(self.partition)) + bigEndian(self.digest) }

    /// Reads all owners in a text of ten bytes each.
    static func list(_ bytes: [UInt8]) -> [DeviceOwner] {
        stride(from: 0, to: bytes.count, by: Self.byteCount).compactMap { start in
            DeviceOwner(bytes[start..<min(start + Self.byteCount, bytes.count)])
        }
    }
}

/// Returns the bytes of a number, most significant first.
func bigEndian<Number: FixedWidthInteger>(_ number: Number) -> [UInt8] {
    (0..<Number.bitWidth / 8).map { UInt8(truncatingIfNeeded: number >> (Number.bitWidth - 8 - 8 * $0)) }
}

/// Returns topic numbers as the functions take them: four bytes each.
func packed(_ topics: some Sequence<UInt32>) -> [UInt8] { topics.flatMap { bigEndian($0) } }
