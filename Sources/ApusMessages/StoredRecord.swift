package import ApusCore

/// What stands before each device record in the store, unread by protobuf: 12 bytes, big endian.
///
/// The store's functions stamp and compare it; so they need not know the schema.
package struct StoredRecordHeader: Hashable, Sendable {
    /// Its size.
    package static let byteCount = 12

    /// When the device last registered, by Redis' clock. A verdict on an older token does not touch it.
    package var registeredAt: UnixMilliseconds
    /// Raised whenever the ordinal is given to another device.
    package var generation: UInt32

    /// A header.
    package init(registeredAt: UnixMilliseconds, generation: UInt32) {
        self.registeredAt = registeredAt
        self.generation = generation
    }

    /// The header that begins at `start`; nil when the bytes end before it does, or name no time.
    package init?(_ bytes: Span<UInt8>, at start: Int = 0) {
        precondition(start >= 0)
        guard bytes.count - start >= Self.byteCount else { return nil }
        var milliseconds: UInt64 = 0
        for index in 0..<8 { milliseconds = milliseconds << 8 | UInt64(bytes[start + index]) }
        var generation: UInt32 = 0
        for index in 8..<12 { generation = generation << 8 | UInt32(bytes[start + index]) }
        guard milliseconds <= UInt64(Limits.timeMax.value) else { return nil }
        self.registeredAt = UnixMilliseconds(Int64(milliseconds))
        self.generation = generation
    }

    /// Writes it behind `bytes`.
    package func append(to bytes: inout [UInt8]) {
        precondition(self.registeredAt.value >= 0 && self.registeredAt <= Limits.timeMax)
        let milliseconds = UInt64(self.registeredAt.value)
        for shift in stride(from: 56, through: 0, by: -8) {
            bytes.append(UInt8(truncatingIfNeeded: milliseconds >> UInt64(shift)))
        }
        for shift in stride(from: 24, through: 0, by: -8) {
            bytes.append(UInt8(truncatingIfNeeded: self.generation >> UInt32(shift)))
        }
    }
}

/// A device as it lies in Redis: header, then packed record.
package struct StoredRecord: Hashable, Sendable {
    /// When it registered, and which tenant of the ordinal it is.
    package var header: StoredRecordHeader
    /// The device.
    package var record: DeviceRecord

    /// A stored device.
    package init(header: StoredRecordHeader, record: DeviceRecord) {
        self.header = header
        self.record = record
    }

    /// The device of those bytes.
    package static func decode(_ bytes: Span<UInt8>, in arena: inout MessageArena) throws(MessageError) -> StoredRecord
    {
        guard let header = StoredRecordHeader(bytes) else {
            throw MessageError(.malformed, field: "header", "must have \(StoredRecordHeader.byteCount) bytes")
        }
        let packed = bytes.extracting(StoredRecordHeader.byteCount..<bytes.count)
        return StoredRecord(header: header, record: try DeviceRecord.decode(packed, in: &arena))
    }

    /// The device of those bytes, with memory of its own for the way.
    package static func decode(_ bytes: [UInt8]) throws(MessageError) -> StoredRecord {
        var arena = MessageArena()
        return try Self.decode(bytes.span, in: &arena)
    }

    /// The bytes of this device.
    package func encode() throws(MessageError) -> [UInt8] {
        var bytes: [UInt8] = []
        self.header.append(to: &bytes)
        bytes += try self.record.encode()
        return bytes
    }
}
