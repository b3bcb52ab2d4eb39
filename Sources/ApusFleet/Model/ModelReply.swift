/// The bytes of a key, a field or a value.
package typealias Bytes = [UInt8]

extension Bytes {
    /// Creates the decimal digits of a number.
    init(digitsOf number: some FixedWidthInteger) {
        self.init()
        self.reserveCapacity(20)
        self.appendDigits(of: number)
    }

    /// Appends the decimal digits of a number, behind a sign when it is negative.
    mutating func appendDigits(of number: some FixedWidthInteger) {
        if number < 0 { self.append(UInt8(ascii: "-")) }
        let start = self.count
        var rest = UInt64(number.magnitude)
        repeat {
            self.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10))
            rest /= 10
        } while rest > 0
        self[start...].reverse()
    }
}

/// A reply of the model of Redis.
package enum ModelReply: Hashable, Sendable {
    /// A short text such as "OK".
    case status(String)
    /// An error: its word and its text.
    case error(String)
    /// A number.
    case integer(Int64)
    /// Binary-safe bytes.
    case bulk(Bytes)
    /// A missing value.
    case null
    /// A missing list.
    case nullArray
    /// A list.
    case array([ModelReply])

    /// The reply of a command that has nothing to tell.
    static let ok = ModelReply.status("OK")

    /// Returns a text as bytes.
    static func text(_ text: String) -> ModelReply { .bulk(Bytes(text.utf8)) }

    /// Returns 1 or 0.
    static func flag(_ value: Bool) -> ModelReply { .integer(value ? 1 : 0) }

    /// Returns a number.
    static func count(_ value: Int) -> ModelReply { .integer(Int64(value)) }

    /// The text of an error; nil for any other reply.
    package var error: String? {
        if case .error(let text) = self { text } else { nil }
    }
}

extension ModelReply {
    /// Appends the reply as RESP2.
    package func encode(into bytes: inout Bytes) {
        switch self {
        case .status(let text): Self.append(UInt8(ascii: "+"), text.utf8, to: &bytes)
        case .error(let text):
            // A line of an error ends at its first line break.
            let line = text.utf8.lazy.map { $0 == 0x0d || $0 == 0x0a ? 0x20 : $0 }
            Self.append(UInt8(ascii: "-"), line, to: &bytes)
        case .integer(let number): Self.append(UInt8(ascii: ":"), number, to: &bytes)
        case .bulk(let content):
            Self.append(UInt8(ascii: "$"), Int64(content.count), to: &bytes)
            bytes += content
            Self.endLine(&bytes)
        case .null: bytes += "$-1\r\n".utf8
        case .nullArray: bytes += "*-1\r\n".utf8
        case .array(let elements):
            Self.append(UInt8(ascii: "*"), Int64(elements.count), to: &bytes)
            for element in elements { element.encode(into: &bytes) }
        }
    }

    private static func append(_ sign: UInt8, _ line: some Sequence<UInt8>, to bytes: inout Bytes) {
        bytes.append(sign)
        bytes += line
        Self.endLine(&bytes)
    }

    private static func append(_ sign: UInt8, _ number: Int64, to bytes: inout Bytes) {
        bytes.append(sign)
        bytes.appendDigits(of: number)
        Self.endLine(&bytes)
    }

    private static func endLine(_ bytes: inout Bytes) {
        bytes.append(0x0d)
        bytes.append(0x0a)
    }
}

extension ModelReply: CustomStringConvertible {
    /// The reply for a failed test's message.
    package var description: String {
        switch self {
        case .status(let text): "+\(text)"
        case .error(let text): "-\(text)"
        case .integer(let number): "\(number)"
        case .bulk(let bytes): readable(bytes)
        case .null: "null"
        case .nullArray: "null list"
        case .array(let elements): "[\(elements.map(\.description).joined(separator: ", "))]"
        }
    }
}

/// Returns bytes as text in quotation marks, with other bytes than printable ones as hexadecimal digits.
package func readable(_ bytes: Bytes) -> String {
    let digits = Array("0123456789abcdef")
    let characters = bytes.map { byte in
        switch byte {
        case 0x22, 0x5c: "\\\(Character(UnicodeScalar(byte)))"
        case 0x20..<0x7f: String(Character(UnicodeScalar(byte)))
        default: "\\x\(digits[Int(byte >> 4)])\(digits[Int(byte & 15)])"
        }
    }
    return "\"\(characters.joined())\""
}

/// A reason why a command is refused: the reply of it.
struct CommandFault: Error, Hashable, CustomStringConvertible {
    let text: String

    var description: String { self.text }

    init(_ text: String) { self.text = text }

    static let wrongType = CommandFault("WRONGTYPE Operation against a key holding the wrong kind of value")
    static let syntax = CommandFault("ERR syntax error")
    static let notInteger = CommandFault("ERR value is not an integer or out of range")
    static let notFloat = CommandFault("ERR value is not a valid float")
    static let overflow = CommandFault("ERR increment or decrement would overflow")
    static let noKey = CommandFault("ERR no such key")
    static let streamID = CommandFault("ERR Invalid stream ID specified as stream command argument")
}
