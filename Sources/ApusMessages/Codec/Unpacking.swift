internal import ApusCore
internal import CApusMessages

/// Converts unpacked C structures to Swift values. Every pointer comes from protobuf-c and is valid while the message is in the arena.
enum Unpack {
    /// Unpacks a text; the scan made sure that it is UTF-8 and ends where its bytes end.
    static func text(_ text: UnsafePointer<CChar>?) -> String {
        guard let text = unsafe text else { return "" }
        return unsafe String(cString: text)
    }

    /// Unpacks several texts.
    static func texts(_ list: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?, _ count: Int) -> [String] {
        guard let list = unsafe list else { return [] }
        var texts: [String] = []
        texts.reserveCapacity(count)
        for index in 0..<count { unsafe texts.append(Self.text(list[index])) }
        return texts
    }

    /// Unpacks bytes.
    static func bytes(_ data: ProtobufCBinaryData) -> [UInt8] {
        unsafe Array(UnsafeBufferPointer(start: data.data, count: data.len))
    }

    /// Unpacks numbers.
    static func numbers<Number: BitwiseCopyable>(_ list: UnsafeMutablePointer<Number>?, _ count: Int) -> [Number] {
        unsafe Array(UnsafeBufferPointer(start: list, count: unsafe list == nil ? 0 : count))
    }

    /// Unpacks a nested message; nil when it is missing.
    static func part<Part: PackedPart>(
        _ packed: UnsafeMutablePointer<Part.Packed>?,
        _ field: StaticString,
    ) throws(MessageError) -> Part? {
        guard let packed = unsafe packed else { return nil }
        return try within(field, unsafe Part(unpacking: packed))
    }

    /// Unpacks a required nested message.
    static func required<Part: PackedPart>(
        _ packed: UnsafeMutablePointer<Part.Packed>?,
        _ field: StaticString,
    ) throws(MessageError) -> Part {
        guard let part: Part = try unsafe Self.part(packed, field) else { throw Check.missing("\(field)") }
        return part
    }

    /// Unpacks several messages.
    static func parts<Part: PackedPart>(
        _ list: UnsafeMutablePointer<UnsafeMutablePointer<Part.Packed>?>?,
        _ count: Int,
        _ field: StaticString,
    ) throws(MessageError) -> [Part] {
        guard let list = unsafe list else { return [] }
        var parts: [Part] = []
        parts.reserveCapacity(count)
        for index in 0..<count {
            guard let packed = unsafe list[index] else { throw Check.missing("\(field)[\(index)]") }
            parts.append(try within(field, index: index, unsafe Part(unpacking: packed)))
        }
        return parts
    }

    /// Unpacks an enum value; nil when unspecified.
    static func word<Word: RawRepresentable>(
        _ number: UInt32,
        _ field: StaticString,
        as type: Word.Type = Word.self,
    ) throws(MessageError) -> Word? where Word.RawValue == UInt8 {
        guard number != 0 else { return nil }
        guard let small = UInt8(exactly: number), let word = Word(rawValue: small) else {
            throw MessageError(
                .unknownValue,
                field: "\(field)",
                "must be a value of this version of the schema, not \(number)"
            )
        }
        return word
    }

    /// Unpacks a required enum value.
    static func requiredWord<Word: RawRepresentable>(
        _ number: UInt32,
        _ field: StaticString,
    ) throws(MessageError) -> Word where Word.RawValue == UInt8 {
        guard let word = try Self.word(number, field, as: Word.self) else { throw Check.missing("\(field)") }
        return word
    }

    /// Unpacks a time; 0 stands for none.
    static func time(_ milliseconds: Int64) -> UnixMilliseconds? {
        milliseconds == 0 ? nil : UnixMilliseconds(milliseconds)
    }
}
