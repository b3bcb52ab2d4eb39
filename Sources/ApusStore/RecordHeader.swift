package import ApusCore

/// What stands before every packed record: twelve bytes, big endian. The functions stamp it.
package struct RecordHeader: Hashable, Sendable {
    /// Bytes in Redis.
    package static let byteCount = 12

    /// When the app last registered the token: what a provider's "unregistered" is compared with.
    package let registeredAt: UnixMilliseconds
    /// Which holder of the ordinal.
    package let generation: UInt32

    /// A header.
    package init(registeredAt: UnixMilliseconds, generation: UInt32) {
        self.registeredAt = registeredAt
        self.generation = generation
    }

    /// From the beginning of a stored value; nil when it is too short. Allocates nothing.
    package init?(_ value: Span<UInt8>) {
        guard value.count >= Self.byteCount else { return nil }
        var registered: UInt64 = 0
        for index in 0..<8 { registered = registered << 8 | UInt64(value[index]) }
        var generation: UInt32 = 0
        for index in 8..<12 { generation = generation << 8 | UInt32(value[index]) }
        self.registeredAt = UnixMilliseconds(Int64(truncatingIfNeeded: registered))
        self.generation = generation
    }

    /// As it stands in Redis.
    package var bytes: [UInt8] { bigEndian(self.registeredAt.value) + bigEndian(self.generation) }
}
