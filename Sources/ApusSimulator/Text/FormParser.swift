internal import ApusCore

/// Parses `application/x-www-form-urlencoded`.
package enum FormParser {
    /// Returns names and values; nil for a broken escape, broken UTF-8 or a repeated name.
    package static func parse(_ body: [UInt8]) -> [String: String]? {
        var form: [String: String] = [:]
        for pair in body.split(separator: UInt8(ascii: "&")) {
            let parts = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, let name = Self.decode(parts[0]), let value = Self.decode(parts[1]) else {
                return nil
            }
            guard form.updateValue(value, forKey: name) == nil else { return nil }
        }
        return form
    }

    private static func decode(_ bytes: ArraySlice<UInt8>) -> String? {
        var text: [UInt8] = []
        var index = bytes.startIndex
        while index < bytes.endIndex {
            switch bytes[index] {
            case UInt8(ascii: "+"): text.append(0x20)
            case UInt8(ascii: "%"):
                guard index + 2 < bytes.endIndex else { return nil }
                let digits = String(decoding: bytes[index + 1...index + 2], as: UTF8.self)
                guard let byte = Hexadecimal.decode(digits)?.first else { return nil }
                text.append(byte)
                index += 2
            default: text.append(bytes[index])
            }
            index += 1
        }
        return String(validating: text, as: UTF8.self)
    }
}
