internal import ApusCore
internal import CApusMessages

/// Converts Swift values to C structures in an arena.
enum Pack {
    /// Packs a text.
    static func text(
        _ text: String,
        _ arena: borrowing MessageArena,
    ) throws(MessageError) -> UnsafeMutablePointer<CChar> {
        let bytes = text.utf8.count
        let copy = try unsafe arena.take(bytes + 1, of: CChar.self)
        var index = 0
        for byte in text.utf8 {
            unsafe copy[index] = CChar(bitPattern: byte)
            index += 1
        }
        unsafe copy[bytes] = 0
        return unsafe copy
    }

    /// Packs several texts.
    static func texts(
        _ texts: [String],
        _ arena: borrowing MessageArena,
    ) throws(MessageError) -> UnsafeMutablePointer<UnsafeMutablePointer<CChar>?> {
        let list = try unsafe arena.take(texts.count, of: UnsafeMutablePointer<CChar>?.self)
        for (index, text) in texts.enumerated() { unsafe list[index] = try unsafe Self.text(text, arena) }
        return unsafe list
    }

    /// Packs bytes.
    static func bytes(
        _ bytes: [UInt8],
        _ arena: borrowing MessageArena,
    ) throws(MessageError) -> ProtobufCBinaryData {
        let copy = try unsafe arena.take(bytes.count, of: UInt8.self)
        unsafe copy.update(from: bytes, count: bytes.count)
        return unsafe ProtobufCBinaryData(len: bytes.count, data: copy)
    }

    /// Packs numbers.
    static func numbers<Number: BitwiseCopyable>(
        _ numbers: [Number],
        _ arena: borrowing MessageArena,
    ) throws(MessageError) -> UnsafeMutablePointer<Number> {
        let copy = try unsafe arena.take(numbers.count, of: Number.self)
        unsafe copy.update(from: numbers, count: numbers.count)
        return unsafe copy
    }

    /// Packs several messages.
    static func parts<Part: PackedPart>(
        _ parts: [Part],
        _ arena: borrowing MessageArena,
    ) throws(MessageError) -> UnsafeMutablePointer<UnsafeMutablePointer<Part.Packed>?> {
        let list = try unsafe arena.take(parts.count, of: UnsafeMutablePointer<Part.Packed>?.self)
        for (index, part) in parts.enumerated() { unsafe list[index] = try unsafe part.packed(arena) }
        return unsafe list
    }
}
