/// Converts UUIDs between text and two words, big endian.
enum UUIDText {
    /// Formats 8-4-4-4-12 digits in lower case.
    static func text(_ high: UInt64, _ low: UInt64) -> String {
        let digits = Array(TokenDigest(high: high, low: low).description)
        let parts = [digits[0..<8], digits[8..<12], digits[12..<16], digits[16..<20], digits[20..<32]]
        return parts.map { String($0) }.joined(separator: "-")
    }

    /// Parses 36 characters; nil for any other form.
    static func words(_ text: Span<UInt8>) -> (UInt64, UInt64)? {
        guard text.count == 36 else { return nil }
        var high: UInt64 = 0
        var low: UInt64 = 0
        for index in text.indices {
            let byte = text[index]
            if index == 8 || index == 13 || index == 18 || index == 23 {
                guard byte == 0x2d else { return nil }
                continue
            }
            let digit: UInt8
            switch byte {
            case 0x30...0x39: digit = byte - 0x30
            case 0x61...0x66: digit = byte - 0x61 + 10
            case 0x41...0x46: digit = byte - 0x41 + 10
            default: return nil
            }
            if index < 18 { high = high << 4 | UInt64(digit) } else { low = low << 4 | UInt64(digit) }
        }
        return (high, low)
    }

    /// Returns a UUID of version 8 (RFC 9562 §5.8), a different one for each number.
    static func unique(_ number: UInt64) -> String {
        Self.text((number & ~0xf000) | 0x8000, number | 0x8000_0000_0000_0000)
    }

    /// Returns the last part of a numbered message's name: "0:" and 16 hexadecimal digits.
    static func messageID(_ number: UInt64) -> String {
        let digits = String(number, radix: 16)
        return "0:" + String(repeating: "0", count: 16 - digits.utf8.count) + digits
    }
}
