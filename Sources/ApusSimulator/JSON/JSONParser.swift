/// Reads JSON (RFC 8259) to the letter: one value in UTF-8, nothing behind it, no name twice in an object, nesting at
/// most ``SimulatorLimits/jsonDepthMax``.
package struct JSONParser {
    private let bytes: [UInt8]
    private var position = 0

    private init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// The value. Throws `malformedJSON`.
    package static func parse(_ bytes: [UInt8]) throws(SimulatorError) -> JSONValue {
        var parser = JSONParser(bytes)
        let value = try parser.value(depth: 1)
        parser.skipSpace()
        guard parser.current == nil else { throw parser.malformed("something follows the value") }
        return value
    }

    private func malformed(_ what: String) -> SimulatorError {
        SimulatorError(.malformedJSON, "not JSON: \(what) at byte \(self.position)")
    }

    private var current: UInt8? { self.position < self.bytes.count ? self.bytes[self.position] : nil }

    private mutating func skipSpace() {
        while let byte = self.current, byte == 0x20 || byte == 0x09 || byte == 0x0a || byte == 0x0d {
            self.position += 1
        }
    }

    private mutating func accept(_ character: Unicode.Scalar) -> Bool {
        self.skipSpace()
        guard self.current == UInt8(ascii: character) else { return false }
        self.position += 1
        return true
    }

    private mutating func expect(_ character: Unicode.Scalar) throws(SimulatorError) {
        guard self.accept(character) else { throw self.malformed("'\(character)' is missing") }
    }

    private mutating func value(depth: Int) throws(SimulatorError) -> JSONValue {
        guard depth <= SimulatorLimits.jsonDepthMax else { throw self.malformed("nested too deeply") }
        self.skipSpace()
        switch self.current {
        case UInt8(ascii: "{"): return try self.object(depth: depth)
        case UInt8(ascii: "["): return try self.array(depth: depth)
        case UInt8(ascii: "\""): return try .string(self.string())
        case UInt8(ascii: "t"): return try self.word("true", .boolean(true))
        case UInt8(ascii: "f"): return try self.word("false", .boolean(false))
        case UInt8(ascii: "n"): return try self.word("null", .null)
        default: return try self.number()
        }
    }

    private mutating func object(depth: Int) throws(SimulatorError) -> JSONValue {
        try self.expect("{")
        guard !self.accept("}") else { return .object([]) }
        var members: [JSONMember] = []
        var names: Set<String> = []
        repeat {
            self.skipSpace()
            let name = try self.string()
            guard names.insert(name).inserted else { throw self.malformed("a name stands twice") }
            try self.expect(":")
            members.append(JSONMember(name: name, value: try self.value(depth: depth + 1)))
        } while self.accept(",")
        try self.expect("}")
        return .object(members)
    }

    private mutating func array(depth: Int) throws(SimulatorError) -> JSONValue {
        try self.expect("[")
        guard !self.accept("]") else { return .array([]) }
        var elements: [JSONValue] = []
        repeat { elements.append(try self.value(depth: depth + 1)) } while self.accept(",")
        try self.expect("]")
        return .array(elements)
    }

    private mutating func word(_ word: StaticString, _ value: JSONValue) throws(SimulatorError) -> JSONValue {
        let text = Array("\(word)".utf8)
        guard self.bytes[self.position...].starts(with: text) else { throw self.malformed("an unknown word") }
        self.position += text.count
        return value
    }

    private mutating func string() throws(SimulatorError) -> String {
        guard self.current == UInt8(ascii: "\"") else { throw self.malformed("a string is missing") }
        self.position += 1
        var text: [UInt8] = []
        while let byte = self.current {
            self.position += 1
            switch byte {
            case UInt8(ascii: "\""):
                guard let string = String(validating: text, as: UTF8.self) else { throw self.malformed("not UTF-8") }
                return string
            case UInt8(ascii: "\\"): text.append(contentsOf: Array(String(try self.escaped()).utf8))
            case 0x00..<0x20: throw self.malformed("a control character in a string")
            default: text.append(byte)
            }
        }
        throw self.malformed("a string does not end")
    }

    private mutating func escaped() throws(SimulatorError) -> Unicode.Scalar {
        guard let byte = self.current else { throw self.malformed("a string does not end") }
        self.position += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return Unicode.Scalar(byte)
        case UInt8(ascii: "b"): return "\u{8}"
        case UInt8(ascii: "f"): return "\u{c}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"):
            let first = try self.codeUnit()
            if let scalar = Unicode.Scalar(first) { return scalar }
            // A high surrogate needs its low one.
            guard (0xd800..<0xdc00).contains(first), self.take("\\"), self.take("u") else {
                throw self.malformed("half a surrogate pair")
            }
            let second = try self.codeUnit()
            let code = 0x10000 + (UInt32(first) - 0xd800) << 10 + (UInt32(second) & 0x3ff)
            guard (0xdc00..<0xe000).contains(second), let scalar = Unicode.Scalar(code) else {
                throw self.malformed("half a surrogate pair")
            }
            return scalar
        default: throw self.malformed("an unknown escape")
        }
    }

    private mutating func take(_ character: Unicode.Scalar) -> Bool {
        guard self.current == UInt8(ascii: character) else { return false }
        self.position += 1
        return true
    }

    private mutating func codeUnit() throws(SimulatorError) -> UInt16 {
        var value: UInt16 = 0
        for _ in 0..<4 {
            guard let byte = self.current, let digit = Character(Unicode.Scalar(byte)).hexDigitValue else {
                throw self.malformed("four hexadecimal digits are missing")
            }
            value = value << 4 | UInt16(digit)
            self.position += 1
        }
        return value
    }

    /// RFC 8259 §6: no leading zero or plus, digits on both sides of the point.
    private mutating func number() throws(SimulatorError) -> JSONValue {
        let start = self.position
        _ = self.take("-")
        if !self.take("0") { try self.digits() }
        if self.take(".") { try self.digits() }
        if self.take("e") || self.take("E") {
            if !self.take("+") { _ = self.take("-") }
            try self.digits()
        }
        let text = String(decoding: self.bytes[start..<self.position], as: UTF8.self)
        guard let value = Double(text) else { throw self.malformed("not a number") }
        return .number(text: text, value: value)
    }

    private mutating func digits() throws(SimulatorError) {
        let start = self.position
        while let byte = self.current, (0x30...0x39).contains(byte) { self.position += 1 }
        guard self.position > start else { throw self.malformed("an unexpected character") }
    }
}
