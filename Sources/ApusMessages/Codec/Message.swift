/// A message between services, with its conversion to bytes and back.
///
/// Both directions enforce the same `Limits`: every service can decode what another can encode. Beyond the wire format,
/// decoding refuses what two readers could interpret differently: a singular field given twice, both arms of a `oneof`,
/// a number wider than its field, text that is not UTF-8 or holds a NUL. Fields of later versions are skipped.
public protocol Message: Hashable, Sendable {
    /// Decodes a value.
    ///
    /// - Parameters:
    ///   - bytes: the packed message; not referred to afterwards.
    ///   - arena: working memory; its previous contents are lost.
    static func decode(_ bytes: Span<UInt8>, in arena: inout MessageArena) throws(MessageError) -> Self

    /// Encodes the value: fields in ascending order, maps sorted by key, so that equal values have equal bytes.
    ///
    /// - Parameter arena: working memory; its previous contents are lost.
    func encode(in arena: inout MessageArena) throws(MessageError) -> [UInt8]
}

extension Message {
    /// Decodes a value, with working memory of its own.
    public static func decode(_ bytes: Span<UInt8>) throws(MessageError) -> Self {
        var arena = MessageArena()
        return try Self.decode(bytes, in: &arena)
    }

    /// Decodes a value, with working memory of its own.
    public static func decode(_ bytes: [UInt8]) throws(MessageError) -> Self { try Self.decode(bytes.span) }

    /// Decodes a value.
    public static func decode(_ bytes: [UInt8], in arena: inout MessageArena) throws(MessageError) -> Self {
        try Self.decode(bytes.span, in: &arena)
    }

    /// Decodes a value, with working memory of its own. The buffer must stay valid during the call.
    public static func decode(_ bytes: UnsafeRawBufferPointer) throws(MessageError) -> Self {
        try unsafe bytes.withMemoryRebound(to: UInt8.self) { elements throws(MessageError) in
            try Self.decode(unsafe Span(_unsafeElements: elements))
        }
    }

    /// Encodes the value, with working memory of its own.
    public func encode() throws(MessageError) -> [UInt8] {
        var arena = MessageArena()
        return try self.encode(in: &arena)
    }
}
