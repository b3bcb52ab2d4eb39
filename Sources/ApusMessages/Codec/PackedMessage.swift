internal import ApusCore
internal import CApusMessages

/// A message, or a part of one, with a C structure of its own.
protocol PackedPart {
    /// The generated structure, which begins with a `ProtobufCMessage`.
    associatedtype Packed

    /// The generated `…__init`, which leaves every field unset. It also leads to the descriptor.
    static var initialize: (UnsafeMutablePointer<Packed>?) -> Void { get }

    /// Creates the value from a structure that was scanned before it was unpacked: all its text is complete and UTF-8.
    init(unpacking packed: UnsafePointer<Packed>) throws(MessageError)

    /// Fills an initialized structure. Texts and lists go into the arena; they were checked before.
    func pack(into packed: UnsafeMutablePointer<Packed>, _ arena: borrowing MessageArena) throws(MessageError)

    /// Throws when the value exceeds the limits or contradicts itself.
    func check() throws(MessageError)
}

/// A top-level message.
protocol PackedMessage: PackedPart {
    /// The maximum bytes of the message.
    static var bytesMax: Int { get }
}

extension PackedPart {
    /// The schema of the structure.
    static var schema: MessageSchema {
        unsafe withUnsafeTemporaryAllocation(of: Packed.self, capacity: 1) { memory in
            guard let packed = memory.baseAddress else { preconditionFailure("no memory for a structure") }
            unsafe Self.initialize(packed)
            let message = unsafe UnsafeMutableRawPointer(packed).assumingMemoryBound(to: ProtobufCMessage.self)
            return unsafe MessageSchema(message.pointee.descriptor)
        }
    }

    /// Returns this value as a structure in the arena.
    func packed(_ arena: borrowing MessageArena) throws(MessageError) -> UnsafeMutablePointer<Packed> {
        let packed = try unsafe arena.make(Self.initialize)
        try unsafe self.pack(into: packed, arena)
        return unsafe packed
    }
}

extension PackedMessage {
    static func unpack(_ bytes: Span<UInt8>, _ arena: borrowing MessageArena) throws(MessageError) -> Self {
        guard bytes.count <= Self.bytesMax else { throw Self.tooLarge }
        let schema = Self.schema
        var scan = WireScan()
        try scan.scan(bytes, 0..<bytes.count, as: schema)
        arena.reset(budget: MessageArena.budget(forBytes: bytes.count))
        let unpacked = unsafe bytes.withUnsafeBufferPointer { buffer in
            unsafe protobuf_c_message_unpack(schema.descriptor, arena.allocator, buffer.count, buffer.baseAddress)
        }
        guard let unpacked = unsafe unpacked else {
            guard !arena.isExhausted else {
                throw MessageError(.outOfMemory, "must not need many times its own size in memory")
            }
            throw MessageError(.malformed, "must be protobuf")
        }
        let packed = unsafe UnsafeMutableRawPointer(unpacked).assumingMemoryBound(to: Packed.self)
        let message = try unsafe Self(unpacking: packed)
        try message.check()
        return message
    }

    func pack(_ arena: borrowing MessageArena) throws(MessageError) -> [UInt8] {
        try self.check()
        arena.reset(budget: Limits.messageArenaBytesMax)
        let packed = try unsafe self.packed(arena)
        let message = unsafe UnsafeMutableRawPointer(packed).assumingMemoryBound(to: ProtobufCMessage.self)
        let count = unsafe Int(protobuf_c_message_get_packed_size(message))
        guard count <= Self.bytesMax else { throw Self.tooLarge }
        return unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            guard let start = buffer.baseAddress, count > 0 else { return }
            initialized = unsafe Int(protobuf_c_message_pack(message, start))
            precondition(initialized == count, "protobuf-c wrote another number of bytes than it announced")
        }
    }

    private static var tooLarge: MessageError {
        MessageError(.tooLarge, "must have at most \(Self.bytesMax) bytes")
    }
}
