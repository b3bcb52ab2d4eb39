internal import ApusCore
package import Logging

/// Renders one event of the log as one line. Pure.
package struct LogLine {
    /// The maximum bytes of a message or a value; longer text is cut.
    package static let textBytesMax = 8 * 1_024
    /// The maximum number of values of one line.
    package static let valuesMax = 64
    /// The maximum nesting of a value.
    private static let depthMax = 4
    /// The text that replaces a sensitive value.
    private static let redacted = "<redacted>"
    /// The keys whose values are never written, whatever their attributes say: a second safeguard behind ``Redaction``.
    private static let secretKeys: Set<String> = [
        "authorization", "credential", "jwt", "password", "payload", "private_key", "secret", "token",
    ]

    /// A scalar of a line.
    private enum Value {
        case text(String)
        /// Digits, `true`, `false`: written without quotes.
        case bare(String)
        case list([String])
    }

    let nanosecondsSince1970: Int64
    let level: Logger.Level
    let label: String
    let message: String
    private var values: [(key: String, value: Value)] = []

    /// Creates the line of an event with everything that the event carries.
    package init(
        nanosecondsSince1970: Int64,
        level: Logger.Level,
        label: String,
        message: String,
        error: (any Error)?,
        metadata: Logger.Metadata,
    ) {
        self.nanosecondsSince1970 = nanosecondsSince1970
        self.level = level
        self.label = label
        self.message = message.clipped(toBytes: Self.textBytesMax)
        for (key, value) in metadata.sorted(by: { $0.key < $1.key }) {
            self.add(value, as: key, depth: 1)
        }
        if let error { self.values.insert(("error", .text(Self.clipped(SystemErrorText.words(of: error)))), at: 0) }
    }

    /// Renders `{"ts":…,"level":…,"logger":…,"msg":…,…}`: those four first, then the error, then the rest sorted by name.
    package func json() -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity(256)
        text += "{\"ts\":\"".utf8
        LogTimestamp.append(nanosecondsSince1970: self.nanosecondsSince1970, to: &text)
        text += "\",\"level\":\"\(self.level.rawValue)\",\"logger\":".utf8
        JSONText.append(self.label, to: &text)
        text += ",\"msg\":".utf8
        JSONText.append(self.message, to: &text)
        for (key, value) in self.values {
            text.append(0x2c)
            JSONText.append(Self.reserved.contains(key) ? "_" + key : key, to: &text)
            text.append(0x3a)
            switch value {
            case .text(let string): JSONText.append(string, to: &text)
            case .bare(let string): text += string.utf8
            case .list(let items):
                text.append(0x5b)
                for (place, item) in items.enumerated() {
                    if place > 0 { text.append(0x2c) }
                    JSONText.append(item, to: &text)
                }
                text.append(0x5d)
            }
        }
        text += "}\n".utf8
        return text
    }

    /// Renders `2026-11-21T03:40:10.123Z info apus-dispatcher: message key=value` for people.
    package func text() -> [UInt8] {
        var text: [UInt8] = []
        LogTimestamp.append(nanosecondsSince1970: self.nanosecondsSince1970, to: &text)
        let level = self.level.rawValue
        text += " \(level)\(String(repeating: " ", count: max(0, 8 - level.utf8.count))) ".utf8
        text += self.label.visible.utf8
        text += ": ".utf8
        text += self.message.visible.utf8
        for (key, value) in self.values {
            text += " \(key.visible)=".utf8
            switch value {
            case .text(let string): Self.appendWord(string, to: &text)
            case .bare(let string): text += string.utf8
            case .list(let items):
                text.append(0x5b)
                for (place, item) in items.enumerated() {
                    if place > 0 { text.append(0x2c) }
                    Self.appendWord(item, to: &text)
                }
                text.append(0x5d)
            }
        }
        text.append(0x0a)
        return text
    }

    private static let reserved: Set<String> = ["ts", "level", "logger", "msg"]

    private mutating func add(_ value: Logger.MetadataValue, as key: String, depth: Int) {
        guard self.values.count < Self.valuesMax else { return }
        let lastWord = key.split(separator: ".").last.map { $0.lowercased() } ?? ""
        switch value {
        case .dictionary(let inner) where depth < Self.depthMax:
            for (innerKey, innerValue) in inner.sorted(by: { $0.key < $1.key }) {
                self.add(innerValue, as: "\(key).\(innerKey)", depth: depth + 1)
            }
        case _ where Self.secretKeys.contains(lastWord) && !Self.isRedactedByType(value):
            self.values.append((key, .text(Self.redacted)))
        case .array(let items):
            let texts = items.prefix(Self.valuesMax).map { item in
                Self.isSensitive(item) ? Self.redacted : Self.clipped(item.description)
            }
            self.values.append((key, .list(texts)))
        case .stringConvertible(let box):
            self.values.append((key, Self.isSensitive(value) ? .text(Self.redacted) : Self.scalar(box)))
        case .string(let text): self.values.append((key, .text(Self.clipped(text))))
        case .dictionary: self.values.append((key, .text("...")))
        }
    }

    private static func isSensitive(_ value: Logger.MetadataValue) -> Bool {
        value.attributes[Redaction.self] == .hidden
    }

    private static func isRedactedByType(_ value: Logger.MetadataValue) -> Bool {
        if case .stringConvertible(let box) = value { return box is RedactedToken }
        return false
    }

    private static func scalar(_ box: any CustomStringConvertible) -> Value {
        switch box {
        case let value as any FixedWidthInteger: .bare(value.description)
        case let value as Bool: .bare(value ? "true" : "false")
        case let value as Double where value.isFinite: .bare(value.description)
        default: .text(Self.clipped(box.description))
        }
    }

    private static func clipped(_ text: String) -> String { text.clipped(toBytes: Self.textBytesMax) }

    /// Appends a word of the text form, in quotes when it would not be one word otherwise.
    private static func appendWord(_ word: String, to text: inout [UInt8]) {
        let isPlain = !word.isEmpty && word.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f && $0 != 0x22 && $0 != 0x3d }
        if isPlain { text += word.utf8 } else { JSONText.append(word, to: &text) }
    }
}

/// Writes JSON strings, escaped by hand.
enum JSONText {
    /// Appends the string with its quotes. Control characters of both ASCII and Latin-1 and the line separators of
    /// Unicode are escaped: no value can end a line or change a terminal's state.
    static func append(_ string: String, to text: inout [UInt8]) {
        text.append(0x22)
        for scalar in string.unicodeScalars {
            switch scalar {
            case "\"": text += [0x5c, 0x22]
            case "\\": text += [0x5c, 0x5c]
            default:
                if let escape = scalar.terminalEscape {
                    text += escape.utf8
                } else {
                    text += UTF8.encode(scalar).map(Array.init) ?? []
                }
            }
        }
        text.append(0x22)
    }
}
