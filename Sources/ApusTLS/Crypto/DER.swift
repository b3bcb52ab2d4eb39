/// Encodes the few ASN.1 structures that keys use (X.690, distinguished encoding).
enum DER {
    /// The object identifier 1.2.840.10045.3.1.7, P-256, with its tag.
    static let p256: [UInt8] = [0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07]
    /// The object identifier 1.2.840.10045.2.1, a key on an elliptic curve, with its tag.
    static let ellipticCurveKey: [UInt8] = [0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01]
    /// The object identifier 1.2.840.113549.1.1.1, an RSA key, with its tag, and the NULL that follows it.
    static let rsaKey: [UInt8] = [0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00]

    /// Encodes a sequence of values.
    static func sequence(_ values: [UInt8]...) -> [UInt8] { Self.value(0x30, Array(values.joined())) }

    /// Encodes a non-negative number, given big endian.
    static func integer(_ bytes: [UInt8]) -> [UInt8] {
        let digits = bytes.drop { $0 == 0 }
        // A set first bit would make the number negative; an empty number is zero.
        let needsZero = (digits.first ?? 0x80) >= 0x80
        return Self.value(0x02, (needsZero ? [0] : []) + digits)
    }

    /// Encodes bytes.
    static func octets(_ bytes: [UInt8]) -> [UInt8] { Self.value(0x04, bytes) }

    /// Encodes a text in UTF-8.
    static func text(_ text: String) -> [UInt8] { Self.value(0x0c, Array(text.utf8)) }

    /// Encodes bits, whose number is a multiple of eight.
    static func bits(_ bytes: [UInt8]) -> [UInt8] { Self.value(0x03, [0] + bytes) }

    /// Encodes a value under an explicit tag of its context.
    static func tagged(_ number: UInt8, _ value: [UInt8]) -> [UInt8] { Self.value(0xa0 | number, value) }

    private static func value(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        let count = content.count
        precondition(count <= 0xffff, "no key is that long")
        let length: [UInt8] =
            switch count {
            case ..<0x80: [UInt8(count)]
            case ..<0x100: [0x81, UInt8(count)]
            default: [0x82, UInt8(count >> 8), UInt8(count & 0xff)]
            }
        return [tag] + length + content
    }
}

/// Parses consecutive ASN.1 values; ends at the first incomplete one.
struct DERReader {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: [UInt8]) { self.rest = bytes[...] }

    /// Returns the next value's tag and content; nil when there is none.
    mutating func next() -> (tag: UInt8, content: ArraySlice<UInt8>)? {
        guard self.rest.count >= 2, let tag = self.rest.popFirst(), let first = self.rest.popFirst() else { return nil }
        var count = Int(first)
        if first >= 0x80 {
            // No certificate has lengths of more than three bytes.
            guard (1...3).contains(first & 0x7f), self.rest.count >= Int(first & 0x7f) else { return nil }
            count = 0
            for _ in 0..<(first & 0x7f) { count = count << 8 | Int(self.rest.removeFirst()) }
        }
        guard self.rest.count >= count else { return nil }
        defer { self.rest = self.rest.dropFirst(count) }
        return (tag, self.rest.prefix(count))
    }
}
