/// Parses protobuf's wire format: bytes in, tags and values out, without allocating and without trusting them.
///
/// Nil always means that the bytes are not the wire format. The reader is stricter than the format in two points, so
/// that no number can be read in two ways: a varint must fit its 64 bits, a tag or length its 32.
/// Source: https://protobuf.dev/programming-guides/encoding/
struct WireReader {
    /// The wire types of a field's value. Groups (3, 4) are obsolete and refused.
    enum Form: UInt8 {
        case varint = 0
        case fixed64 = 1
        case lengthDelimited = 2
        case fixed32 = 5
    }

    /// The tag before each value.
    struct Tag {
        let number: UInt32
        let form: Form
    }

    /// The index of the next byte.
    private(set) var position: Int
    /// The end of the read range.
    let end: Int

    /// Creates a reader of a part of the bytes that are passed to each call.
    init(_ range: Range<Int>) {
        self.position = range.lowerBound
        self.end = range.upperBound
    }

    /// True when nothing is left.
    var isAtEnd: Bool { self.position == self.end }

    /// Reads a varint of up to 64 bits.
    @inline(__always)
    mutating func varint(_ bytes: Span<UInt8>) -> UInt64? {
        guard self.position < self.end else { return nil }
        let first = bytes[self.position]
        if first < 0x80 {
            self.position += 1
            return UInt64(first)
        }
        return self.longVarint(bytes, bytesMax: 10)
    }

    /// Reads a varint of up to 32 bits: a number of the schema's 32-bit types.
    @inline(__always)
    mutating func narrowVarint(_ bytes: Span<UInt8>) -> UInt32? {
        guard let value = self.varint(bytes) else { return nil }
        return UInt32(exactly: value)
    }

    private mutating func longVarint(_ bytes: Span<UInt8>, bytesMax: Int) -> UInt64? {
        var value: UInt64 = 0
        var shift: UInt64 = 0
        for index in self.position..<min(self.end, self.position + bytesMax) {
            let byte = bytes[index]
            if shift == 63, byte > 1 { return nil }
            value |= UInt64(byte & 0x7f) << shift
            if byte < 0x80 {
                self.position = index + 1
                return value
            }
            shift += 7
        }
        return nil
    }

    /// Reads a varint in at most five bytes, as protobuf-c requires of tags and lengths.
    @inline(__always)
    private mutating func shortVarint(_ bytes: Span<UInt8>) -> UInt32? {
        guard self.position < self.end else { return nil }
        let first = bytes[self.position]
        if first < 0x80 {
            self.position += 1
            return UInt32(first)
        }
        return self.longVarint(bytes, bytesMax: 5).flatMap { UInt32(exactly: $0) }
    }

    /// Reads a tag.
    @inline(__always)
    mutating func tag(_ bytes: Span<UInt8>) -> Tag? {
        guard let raw = self.shortVarint(bytes), raw >> 3 > 0, let form = Form(rawValue: UInt8(raw & 7)) else {
            return nil
        }
        return Tag(number: raw >> 3, form: form)
    }

    /// Returns the range of a length-delimited value and moves behind it.
    @inline(__always)
    mutating func range(_ bytes: Span<UInt8>) -> Range<Int>? {
        guard let length = self.shortVarint(bytes), Int(length) <= self.end - self.position else { return nil }
        let start = self.position
        self.position += Int(length)
        return start..<self.position
    }

    /// Skips a value of the given form; returns false when it is cut short.
    mutating func skip(_ form: Form, _ bytes: Span<UInt8>) -> Bool {
        switch form {
        case .varint: self.varint(bytes) != nil
        case .lengthDelimited: self.range(bytes) != nil
        case .fixed64: self.skip(8)
        case .fixed32: self.skip(4)
        }
    }

    private mutating func skip(_ count: Int) -> Bool {
        guard self.end - self.position >= count else { return false }
        self.position += count
        return true
    }
}
