/// Writes JSON into a growing buffer, without spaces. It is the only code that turns strings into JSON, so that nothing
/// can break out of its quotes.
public enum JSONWriter {
    private static let hexadecimal: [UInt8] = Array("0123456789abcdef".utf8)

    /// Appends a value.
    public static func append(_ value: JSONValue, to bytes: inout [UInt8]) {
        switch value {
        case .null: bytes.append(contentsOf: "null".utf8)
        case .bool(let truth): bytes.append(contentsOf: (truth ? "true" : "false").utf8)
        case .number(let number): bytes.append(contentsOf: number.text.utf8)
        case .string(let text): Self.append(string: text, to: &bytes)
        case .array(let elements):
            bytes.append(0x5b)
            for (index, element) in elements.enumerated() {
                if index > 0 { bytes.append(0x2c) }
                Self.append(element, to: &bytes)
            }
            bytes.append(0x5d)
        case .object(let object): Self.append(object, to: &bytes)
        }
    }

    /// Appends an object.
    public static func append(_ object: JSONObject, to bytes: inout [UInt8]) {
        bytes.append(0x7b)
        for (index, member) in object.members.enumerated() {
            if index > 0 { bytes.append(0x2c) }
            Self.append(string: member.name, to: &bytes)
            bytes.append(0x3a)
            Self.append(member.value, to: &bytes)
        }
        bytes.append(0x7d)
    }

    /// Appends a text as a JSON string with its quotes: quotation mark, backslash and control characters are escaped,
    /// everything else is written as UTF-8.
    public static func append(string text: String, to bytes: inout [UInt8]) {
        bytes.append(0x22)
        // Nearly all texts need no escape: they are copied as a whole.
        var needsEscape = false
        for byte in text.utf8 { needsEscape = needsEscape || Self.needsEscape(byte) }
        if needsEscape { Self.append(escaped: text.utf8, to: &bytes) } else { bytes.append(contentsOf: text.utf8) }
        bytes.append(0x22)
    }

    @inline(__always)
    private static func needsEscape(_ byte: UInt8) -> Bool {
        byte < 0x20 || byte == 0x22 || byte == 0x5c || byte == 0x7f
    }

    /// Appends the inside of a JSON string, without quotes. The bytes must be UTF-8; they are checked one by one, which
    /// is enough since only ASCII needs escapes.
    public static func append(escaped text: some Sequence<UInt8>, to bytes: inout [UInt8]) {
        for byte in text {
            switch byte {
            case 0x22, 0x5c:
                bytes.append(0x5c)
                bytes.append(byte)
            case 0x0a: bytes.append(contentsOf: [0x5c, 0x6e])
            case 0x0d: bytes.append(contentsOf: [0x5c, 0x72])
            case 0x09: bytes.append(contentsOf: [0x5c, 0x74])
            case 0x00..<0x20, 0x7f:
                bytes.append(contentsOf: [0x5c, 0x75, 0x30, 0x30])
                bytes.append(Self.hexadecimal[Int(byte >> 4)])
                bytes.append(Self.hexadecimal[Int(byte & 0x0f)])
            default: bytes.append(byte)
            }
        }
    }
}

extension JSONValue {
    /// The text, without spaces.
    public var bytes: [UInt8] {
        var bytes: [UInt8] = []
        JSONWriter.append(self, to: &bytes)
        return bytes
    }

    /// The text, without spaces.
    public var text: String { String(decoding: self.bytes, as: UTF8.self) }
}
