/// A command that the model knows.
struct ModelCommand: Sendable {
    /// The number of arguments that a command takes, its name among them.
    enum Arity: Sendable {
        case exactly(Int)
        case atLeast(Int)

        func allows(_ count: Int) -> Bool {
            switch self {
            case .exactly(let number): count == number
            case .atLeast(let number): count >= number
            }
        }
    }

    struct Flags: OptionSet, Sendable {
        let rawValue: Int

        /// Changes keys.
        static let write = Flags(rawValue: 1)
        /// Needs memory, and is refused when there is none.
        static let denyOOM = Flags(rawValue: 2)
        /// May not be called by a function.
        static let noScript = Flags(rawValue: 4)
    }

    typealias Body = @Sendable (RedisModel, [Bytes]) throws(CommandFault) -> ModelReply

    let name: String
    let arity: Arity
    let flags: Flags
    let run: Body

    init(_ name: String, _ arity: Arity, _ flags: Flags = [], _ run: @escaping Body) {
        self.name = name
        self.arity = arity
        self.flags = flags
        self.run = run
    }
}

extension RedisModel {
    private static let commands: [ByteKey: ModelCommand] = {
        let all: [[ModelCommand]] = [
            RedisModel.keyCommands, RedisModel.stringCommands, RedisModel.hashCommands, RedisModel.listCommands,
            RedisModel.setCommands, RedisModel.sortedSetCommands, RedisModel.streamCommands,
            RedisModel.streamGroupCommands, RedisModel.serverCommands,
        ]
        return Dictionary(uniqueKeysWithValues: all.joined().map { (ByteKey(Bytes($0.name.utf8)), $0) })
    }()

    static func command(_ name: Bytes) -> ModelCommand? {
        Self.commands[ByteKey(name)] ?? Self.commands[ByteKey(Bytes(upper(name).utf8))]
    }
}

/// Returns an option's or a command's name in upper case.
func upper(_ bytes: Bytes) -> String {
    let text = String(decoding: bytes, as: UTF8.self)
    return bytes.allSatisfy { $0 < 0x61 } ? text : text.uppercased()
}

/// Parses a number as Redis does: digits without a sign of plus, spaces or leading zeros.
func parseInteger(_ bytes: Bytes) -> Int64? {
    if let number = shortNumber(bytes) { return number }
    guard let first = bytes.first, first != 0x2b, let number = Int64(String(decoding: bytes, as: UTF8.self)) else {
        return nil
    }
    return String(number).utf8.elementsEqual(bytes) ? number : nil
}

/// Parses a number of one to fifteen digits without leading zeros; nil for anything else.
private func shortNumber(_ bytes: Bytes) -> Int64? {
    guard (1...15).contains(bytes.count), bytes[0] != 0x30 || bytes.count == 1 else { return nil }
    var number: Int64 = 0
    for byte in bytes {
        guard (0x30...0x39).contains(byte) else { return nil }
        number = number * 10 + Int64(byte - 0x30)
    }
    return number
}

func integer(_ bytes: Bytes, _ fault: CommandFault = .notInteger) throws(CommandFault) -> Int64 {
    guard let number = parseInteger(bytes) else { throw fault }
    return number
}

/// Parses a score.
func parseDouble(_ bytes: Bytes) -> Double? {
    if let number = shortNumber(bytes) { return Double(number) }
    let text = String(decoding: bytes, as: UTF8.self)
    switch text.lowercased() {
    case "inf", "+inf", "infinity", "+infinity": return .infinity
    case "-inf", "-infinity": return -.infinity
    default: return text.lowercased().contains("nan") ? nil : Double(text)
    }
}

/// Returns whether a text matches a pattern with `*`, `?`, `[...]` and `\`, as Redis compares them.
func matches(_ pattern: ArraySlice<UInt8>, _ text: ArraySlice<UInt8>) -> Bool {
    var (pattern, text) = (pattern, text)
    while let sign = pattern.first {
        switch sign {
        case UInt8(ascii: "*"):
            let rest = pattern.drop { $0 == UInt8(ascii: "*") }
            if rest.isEmpty { return true }
            return (text.startIndex...text.endIndex).contains { matches(rest, text[$0...]) }
        case UInt8(ascii: "?"):
            guard text.popFirst() != nil else { return false }
            pattern.removeFirst()
        case UInt8(ascii: "["):
            guard let byte = text.popFirst() else { return false }
            pattern.removeFirst()
            guard matchesClass(&pattern, byte) else { return false }
        default:
            if sign == UInt8(ascii: "\\"), pattern.count > 1 { pattern.removeFirst() }
            guard let byte = text.popFirst(), byte == pattern.removeFirst() else { return false }
        }
    }
    return text.isEmpty
}

/// Reads the rest of a class of characters from a pattern; returns whether the byte is in it.
private func matchesClass(_ pattern: inout ArraySlice<UInt8>, _ byte: UInt8) -> Bool {
    let isNegated = pattern.first == UInt8(ascii: "^")
    if isNegated { pattern.removeFirst() }
    var isInside = false
    while let sign = pattern.popFirst(), sign != UInt8(ascii: "]") {
        if sign == UInt8(ascii: "\\"), let literal = pattern.popFirst() {
            isInside = isInside || literal == byte
        } else if pattern.count >= 2, pattern.first == UInt8(ascii: "-") {
            pattern.removeFirst()
            let end = pattern.removeFirst()
            isInside = isInside || (min(sign, end)...max(sign, end)).contains(byte)
        } else {
            isInside = isInside || sign == byte
        }
    }
    return isInside != isNegated
}
