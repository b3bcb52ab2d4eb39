package import ApusCore

/// Holds the twelve bytes before every packed record, big endian. The functions stamp it.
package struct RecordHeader: Hashable, Sendable {
    /// The number of bytes in Redis.
    package static let byteCount = 12

    /// The time at which the app last registered the token, which a provider's "unregistered" is compared with.
    package let registeredAt: UnixMilliseconds
    /// The generation of the ordinal's holder: a part of its id's digest, plus the number of reuses in its place.
    package let generation: UInt32

    /// Creates a header.
    package init(registeredAt: UnixMilliseconds, generation: UInt32) {
        self.registeredAt = registeredAt
        self.generation = generation
    }

    /// Returns the generation of the first holder of an ordinal, as the functions make it: 28 bits of its id's digest.
    static func firstGeneration(of digest: UInt64) -> UInt32 { UInt32(truncatingIfNeeded: digest) & 0x0fff_ffff }

    /// Reads the beginning of a stored value; nil when it is too short. Allocates nothing.
    package init?(_ value: Span<UInt8>) {
        guard value.count >= Self.byteCount else { return nil }
        var registered: UInt64 = 0
        for index in 0..<8 { registered = registered << 8 | UInt64(value[index]) }
        var generation: UInt32 = 0
        for index in 8..<12 { generation = generation << 8 | UInt32(value[index]) }
        self.registeredAt = UnixMilliseconds(Int64(truncatingIfNeeded: registered))
        self.generation = generation
    }

    /// The bytes in Redis.
    package var bytes: [UInt8] { bigEndian(self.registeredAt.value) + bigEndian(self.generation) }
}
