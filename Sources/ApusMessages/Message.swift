/// What travels between services, and how it becomes bytes and a value again.
///
/// Both directions enforce the same `Limits`: what one service can encode, every other one can decode. Beyond the wire
/// format, decoding refuses what two readers could read differently: a field given twice, both arms of a `oneof`, a
/// number wider than its field, text that is not UTF-8 or holds a NUL. Fields of later versions are skipped.
public protocol Message: Hashable, Sendable {
    /// The value of those bytes.
    ///
    /// - Parameters:
    ///   - bytes: the packed message; not referred to afterwards.
    ///   - arena: memory for the way; what it held before is gone.
    static func decode(_ bytes: Span<UInt8>, in arena: inout MessageArena) throws(MessageError) -> Self

    /// The bytes of this value: fields in ascending order, maps sorted by key, so that equal values have equal bytes.
    ///
    /// - Parameter arena: memory for the way; what it held before is gone.
    func encode(in arena: inout MessageArena) throws(MessageError) -> [UInt8]
}

extension Message {
    /// The value of those bytes, with memory of its own for the way.
    public static func decode(_ bytes: Span<UInt8>) throws(MessageError) -> Self {
        var arena = MessageArena()
        return try Self.decode(bytes, in: &arena)
    }

    /// The value of those bytes, with memory of its own for the way.
    public static func decode(_ bytes: [UInt8]) throws(MessageError) -> Self { try Self.decode(bytes.span) }

    /// The value of those bytes.
    public static func decode(_ bytes: [UInt8], in arena: inout MessageArena) throws(MessageError) -> Self {
        try Self.decode(bytes.span, in: &arena)
    }

    /// The value of those bytes, with memory of its own for the way. The buffer must stay valid during the call.
    public static func decode(_ bytes: UnsafeRawBufferPointer) throws(MessageError) -> Self {
        try unsafe bytes.withMemoryRebound(to: UInt8.self) { elements throws(MessageError) in
            try Self.decode(unsafe Span(_unsafeElements: elements))
        }
    }

    /// The bytes of this value, with memory of its own for the way.
    public func encode() throws(MessageError) -> [UInt8] {
        var arena = MessageArena()
        return try self.encode(in: &arena)
    }
}
