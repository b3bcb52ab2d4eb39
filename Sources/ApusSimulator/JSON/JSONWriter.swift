/// Writes JSON into a growing buffer: what answers and ledgers need, and no more.
package struct JSONWriter {
    /// What is written so far.
    package private(set) var bytes: [UInt8] = []
    private var needsComma = false

    /// Nothing is written yet.
    package init() {}

    /// An object; `body` writes its members.
    package mutating func object(_ body: (inout JSONWriter) -> Void) { self.nest("{", "}", body) }

    /// An array; `body` writes its elements.
    package mutating func array(_ body: (inout JSONWriter) -> Void) { self.nest("[", "]", body) }

    private mutating func nest(
        _ opening: Unicode.Scalar,
        _ closing: Unicode.Scalar,
        _ body: (inout JSONWriter) -> Void,
    ) {
        self.separate()
        self.bytes.append(UInt8(ascii: opening))
        self.needsComma = false
        body(&self)
        self.bytes.append(UInt8(ascii: closing))
        self.needsComma = true
    }

    private mutating func separate() {
        if self.needsComma { self.bytes.append(UInt8(ascii: ",")) }
        self.needsComma = true
    }

    /// A member's name; its value follows.
    package mutating func name(_ name: String) {
        self.string(name)
        self.bytes.append(UInt8(ascii: ":"))
        self.needsComma = false
    }

    /// A string.
    package mutating func string(_ text: String) {
        self.separate()
        self.bytes.append(UInt8(ascii: "\""))
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"):
                self.bytes.append(UInt8(ascii: "\\"))
                self.bytes.append(byte)
            case 0x00..<0x20:
                let digits = Array("0123456789abcdef".utf8)
                self.bytes.append(contentsOf: Array("\\u00".utf8))
                self.bytes.append(digits[Int(byte >> 4)])
                self.bytes.append(digits[Int(byte & 0x0f)])
            default: self.bytes.append(byte)
            }
        }
        self.bytes.append(UInt8(ascii: "\""))
    }

    /// A whole number.
    package mutating func integer(_ value: some BinaryInteger) {
        self.separate()
        self.bytes.append(contentsOf: Array(String(value).utf8))
    }

    /// A truth value.
    package mutating func boolean(_ value: Bool) {
        self.separate()
        self.bytes.append(contentsOf: Array((value ? "true" : "false").utf8))
    }

    /// A line's end: the next value starts a text of its own, as NDJSON wants it.
    package mutating func newLine() {
        self.bytes.append(0x0a)
        self.needsComma = false
    }

    /// A member with a string.
    package mutating func member(_ name: String, _ text: String) {
        self.name(name)
        self.string(text)
    }

    /// A member with a whole number.
    package mutating func member(_ name: String, _ value: some BinaryInteger) {
        self.name(name)
        self.integer(value)
    }

    /// The bytes of one object.
    package static func object(_ body: (inout JSONWriter) -> Void) -> [UInt8] {
        var writer = JSONWriter()
        writer.object(body)
        return writer.bytes
    }
}
