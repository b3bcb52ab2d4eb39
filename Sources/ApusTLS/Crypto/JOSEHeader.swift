/// The members of a token's header that this target uses (RFC 7515 §4.1).
///
/// It is parsed strictly: one JSON object in UTF-8, no repeated member (§4), nothing behind it.
package struct JOSEHeader: Equatable, Sendable {
    /// The maximum bytes of a header.
    package static let bytesMax = 4 * 1_024
    /// The maximum nesting of values; `jwk` and `x5c` need two.
    package static let depthMax = 8

    /// The member `alg`.
    package private(set) var algorithm: String?
    /// The member `kid`, which names the key.
    package private(set) var keyID: String?
    /// The member `typ`.
    package private(set) var type: String?
    /// True when `crit` demands extensions.
    package private(set) var isCritical = false

    /// Parses the JSON. Throws `tokenMalformed`.
    package init(json: [UInt8]) throws(TLSError) {
        guard json.count <= Self.bytesMax else { throw TLSError(.tokenMalformed, "the token's header is too long") }
        var scanner = JSONScanner(json)
        var names: Set<String> = []
        try scanner.expect("{")
        if scanner.accept("}") == false {
            repeat {
                let name = try scanner.string()
                guard names.insert(name).inserted else {
                    throw TLSError(.tokenMalformed, "the token's header repeats a member")
                }
                try scanner.expect(":")
                switch name {
                case "alg": self.algorithm = try scanner.string()
                case "kid": self.keyID = try scanner.string()
                case "typ": self.type = try scanner.string()
                case "crit":
                    self.isCritical = true
                    try scanner.skipValue(depth: 1)
                default: try scanner.skipValue(depth: 1)
                }
            } while scanner.accept(",")
            try scanner.expect("}")
        }
        try scanner.expectEnd()
    }
}

/// Parses JSON (RFC 8259) from front to back, keeping strings and skipping other values.
private struct JSONScanner {
    private let bytes: [UInt8]
    private var position = 0

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    private static let malformed = TLSError(.tokenMalformed, "the token's header is not a JSON object")

    private var current: UInt8? { self.position < self.bytes.count ? self.bytes[self.position] : nil }

    private mutating func skipSpace() {
        while let byte = self.current, byte == 0x20 || byte == 0x09 || byte == 0x0a || byte == 0x0d {
            self.position += 1
        }
    }

    mutating func accept(_ character: Unicode.Scalar) -> Bool {
        self.skipSpace()
        guard self.current == UInt8(ascii: character) else { return false }
        self.position += 1
        return true
    }

    mutating func expect(_ character: Unicode.Scalar) throws(TLSError) {
        guard self.accept(character) else { throw Self.malformed }
    }

    mutating func expectEnd() throws(TLSError) {
        self.skipSpace()
        guard self.current == nil else { throw Self.malformed }
    }

    mutating func string() throws(TLSError) -> String {
        try self.expect("\"")
        var text: [UInt8] = []
        while let byte = self.current {
            self.position += 1
            switch byte {
            case UInt8(ascii: "\""):
                guard let string = String(validating: text, as: UTF8.self) else { throw Self.malformed }
                return string
            case UInt8(ascii: "\\"): try text.append(contentsOf: String(self.escaped()).utf8)
            case 0x00..<0x20: throw Self.malformed
            default: text.append(byte)
            }
        }
        throw Self.malformed
    }

    private mutating func escaped() throws(TLSError) -> Unicode.Scalar {
        guard let byte = self.current else { throw Self.malformed }
        self.position += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return Unicode.Scalar(byte)
        case UInt8(ascii: "b"): return "\u{8}"
        case UInt8(ascii: "f"): return "\u{c}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"):
            let first = try self.hexadecimal()
            if let scalar = Unicode.Scalar(first) { return scalar }
            // A high surrogate needs its low one.
            guard (0xd800..<0xdc00).contains(first), self.take("\\"), self.take("u") else { throw Self.malformed }
            let second = try self.hexadecimal()
            guard (0xdc00..<0xe000).contains(second),
                let scalar = Unicode.Scalar(0x10000 + (UInt32(first) - 0xd800) << 10 + UInt32(second) - 0xdc00)
            else { throw Self.malformed }
            return scalar
        default: throw Self.malformed
        }
    }

    private mutating func take(_ character: Unicode.Scalar) -> Bool {
        guard self.current == UInt8(ascii: character) else { return false }
        self.position += 1
        return true
    }

    private mutating func hexadecimal() throws(TLSError) -> UInt16 {
        guard self.position + 4 <= self.bytes.count else { throw Self.malformed }
        var value: UInt16 = 0
        for byte in self.bytes[self.position..<self.position + 4] {
            guard let digit = Character(Unicode.Scalar(byte)).hexDigitValue else { throw Self.malformed }
            value = value << 4 | UInt16(digit)
        }
        self.position += 4
        return value
    }

    mutating func skipValue(depth: Int) throws(TLSError) {
        guard depth <= JOSEHeader.depthMax else { throw Self.malformed }
        self.skipSpace()
        switch self.current {
        case UInt8(ascii: "\""): _ = try self.string()
        case UInt8(ascii: "{"):
            self.position += 1
            if self.accept("}") { return }
            repeat {
                _ = try self.string()
                try self.expect(":")
                try self.skipValue(depth: depth + 1)
            } while self.accept(",")
            try self.expect("}")
        case UInt8(ascii: "["):
            self.position += 1
            if self.accept("]") { return }
            repeat { try self.skipValue(depth: depth + 1) } while self.accept(",")
            try self.expect("]")
        default: try self.skipWord()
        }
    }

    /// Skips a number, `true`, `false` or `null`. Its value is not used, so numbers are not checked completely.
    private mutating func skipWord() throws(TLSError) {
        let start = self.position
        while let byte = self.current, Self.isWord(byte) { self.position += 1 }
        let word = String(decoding: self.bytes[start..<self.position], as: UTF8.self)
        let isNumber = !word.contains { $0.isLetter && $0 != "e" && $0 != "E" } && Double(word) != nil
        guard isNumber || ["true", "false", "null"].contains(word) else { throw Self.malformed }
    }

    private static func isWord(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "E"),
            UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "."):
            true
        default: false
        }
    }
}
