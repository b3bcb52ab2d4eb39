/// Writes the wire format by hand, also as no honest encoder would.
enum Wire {
    static func varint(_ value: UInt64) -> [UInt8] {
        var bytes: [UInt8] = []
        var rest = value
        while rest >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        return bytes + [UInt8(rest)]
    }

    static func tag(_ number: UInt64, _ form: UInt64) -> [UInt8] { Self.varint(number << 3 | form) }

    static func number(_ field: UInt64, _ value: UInt64) -> [UInt8] { Self.tag(field, 0) + Self.varint(value) }

    static func fixed64(_ field: UInt64, _ value: UInt64) -> [UInt8] {
        Self.tag(field, 1) + (0..<8).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
    }

    static func bytes(_ field: UInt64, _ bytes: [UInt8]) -> [UInt8] {
        Self.tag(field, 2) + Self.varint(UInt64(bytes.count)) + bytes
    }

    static func text(_ field: UInt64, _ text: String) -> [UInt8] { Self.bytes(field, Array(text.utf8)) }

    /// A field within fields: `path` leads from the outermost number to the innermost.
    static func nested(_ path: [UInt64], _ value: [UInt8]) -> [UInt8] {
        path.reversed().reduce(value) { Self.bytes($1, $0) }
    }

    static func repeating(_ field: [UInt8], _ count: Int) -> [UInt8] {
        Array(repeatElement(field, count: count).joined())
    }
}

/// The least that each message needs, as wire bytes.
enum Least {
    static let device = Wire.text(1, "d") + Wire.number(2, 1) + Wire.text(3, "00")
    static let record = Wire.bytes(1, [0]) + Wire.text(8, "d")
    static let app = Wire.text(2, "a")
    static let topic = Wire.nested([3], Wire.text(4, "t"))
    static let command = Self.app + Self.topic + Wire.bytes(4, [])
    static let place = Wire.bytes(1, [])
    static let verdict = Self.place + Wire.number(4, 1)
    static let outcome = Self.place + Wire.number(2, 2) + Wire.number(3, 1)
    static let count = Wire.number(1, 1) + Wire.number(2, 2) + Wire.number(3, 1)
    static let batch = Wire.text(1, "s") + Wire.text(2, "a") + Wire.number(3, 1) + Wire.number(4, 1)
    static let unitHead = Wire.text(1, "a/s") + Wire.number(2, 1) + Wire.number(5, 1)
    static let unit = Self.unitHead + Wire.number(4, 1) + Wire.nested([10], Wire.bytes(1, [0]))
    static let receipt = Wire.text(1, "r") + Wire.number(4, 1)
    static let event =
        Wire.text(1, "e") + Wire.text(2, "a") + Wire.text(3, "d") + Wire.text(4, "s") + Wire.number(5, 1)
    static let letter = Wire.text(1, "q") + Wire.text(2, "1-1") + Wire.number(3, 1) + Wire.text(4, "malformed")
}
