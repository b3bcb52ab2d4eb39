internal import ApusCore
internal import CApusMessages

/// From unpacked C to Swift. Every pointer comes from protobuf-c and is valid for the message's time in the arena.
enum Unpack {
    /// A text; the scan made sure that it is UTF-8 and ends where its bytes end.
    static func text(_ text: UnsafePointer<CChar>?) -> String {
        guard let text = unsafe text else { return "" }
        return unsafe String(cString: text)
    }

    /// Several texts.
    static func texts(_ list: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?, _ count: Int) -> [String] {
        guard let list = unsafe list else { return [] }
        var texts: [String] = []
        texts.reserveCapacity(count)
        for index in 0..<count { unsafe texts.append(Self.text(list[index])) }
        return texts
    }

    /// Bytes.
    static func bytes(_ data: ProtobufCBinaryData) -> [UInt8] {
        unsafe Array(UnsafeBufferPointer(start: data.data, count: data.len))
    }

    /// Numbers.
    static func numbers<Number: BitwiseCopyable>(_ list: UnsafeMutablePointer<Number>?, _ count: Int) -> [Number] {
        unsafe Array(UnsafeBufferPointer(start: list, count: unsafe list == nil ? 0 : count))
    }

    /// A message within; nil when it is not there.
    static func part<Part: PackedPart>(
        _ packed: UnsafeMutablePointer<Part.Packed>?,
        _ field: StaticString,
    ) throws(MessageError) -> Part? {
        guard let packed = unsafe packed else { return nil }
        return try within(field, unsafe Part(unpacking: packed))
    }

    /// A message within that must be there.
    static func required<Part: PackedPart>(
        _ packed: UnsafeMutablePointer<Part.Packed>?,
        _ field: StaticString,
    ) throws(MessageError) -> Part {
        guard let part: Part = try unsafe Self.part(packed, field) else { throw Check.missing("\(field)") }
        return part
    }

    /// Several messages.
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

    /// A word of a closed set; nil when unspecified.
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

    /// A word of a closed set that must be said.
    static func requiredWord<Word: RawRepresentable>(
        _ number: UInt32,
        _ field: StaticString,
    ) throws(MessageError) -> Word where Word.RawValue == UInt8 {
        guard let word = try Self.word(number, field, as: Word.self) else { throw Check.missing("\(field)") }
        return word
    }

    /// A time where 0 stands for none.
    static func time(_ milliseconds: Int64) -> UnixMilliseconds? {
        milliseconds == 0 ? nil : UnixMilliseconds(milliseconds)
    }
}
