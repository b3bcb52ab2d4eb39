internal import ApusCore

/// Reads the fields of a form or of a query, application/x-www-form-urlencoded. It is pure.
///
/// Source: WHATWG URL §5.1.
struct FormFields: Hashable, Sendable {
    /// The maximum of fields.
    static let countMax = 600

    /// The fields in their order.
    var pairs: [(name: String, value: String)] { zip(self.names, self.values).map { ($0, $1) } }
    private var names: [String] = []
    private var values: [String] = []

    /// Creates fields without any.
    init() {}

    /// Reads fields; nil when there are too many, or they are not UTF-8.
    init?(_ text: some Sequence<UInt8>) {
        for part in Array(text).split(separator: UInt8(ascii: "&")) {
            let halves = part.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard self.names.count < Self.countMax, let name = Self.decoded(halves[0]),
                let value = halves.count == 2 ? Self.decoded(halves[1]) : ""
            else { return nil }
            self.names.append(name)
            self.values.append(value)
        }
    }

    /// Returns the first value of a name; empty when there is none.
    subscript(name: String) -> String { self.pairs.first { $0.name == name }?.value ?? "" }

    /// Returns every value of a name.
    func all(_ name: String) -> [String] { self.pairs.filter { $0.name == name }.map(\.value) }

    /// Puts a value in the place of those of a name.
    mutating func replace(_ name: String, with value: String) {
        for index in self.names.indices where self.names[index] == name { self.values[index] = value }
    }

    private static func decoded(_ bytes: some Collection<UInt8>) -> String? {
        var (result, rest) = ([UInt8](), Array(bytes)[...])
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "+"): result.append(UInt8(ascii: " "))
            case UInt8(ascii: "%"):
                let digits = String(decoding: rest.prefix(2), as: UTF8.self)
                guard digits.utf8.count == 2, let value = UInt8(digits, radix: 16) else { return nil }
                result.append(value)
                rest = rest.dropFirst(2)
            default: result.append(byte)
            }
        }
        return String(validating: result, as: UTF8.self)
    }

    /// Returns a text as a value in a query.
    static func encoded(_ text: String) -> String {
        text.utf8.reduce(into: "") { result, byte in
            let isPlain =
                (0x61...0x7a).contains(byte) || (0x41...0x5a).contains(byte) || (0x30...0x39).contains(byte)
                || [0x2d, 0x2e, 0x5f, 0x7e].contains(byte)
            result += isPlain ? String(UnicodeScalar(byte)) : "%" + Hexadecimal.encode([byte]).uppercased()
        }
    }
}
