/// Packs UUIDs as apps write them (8-4-4-4-12 hexadecimal digits, all letters in one case) into 16 bytes instead of 36,
/// and restores the same characters.
///
/// Most apps name a device by a UUID: Apple's frameworks write it in upper case, others in lower case. Any other text,
/// also one with letters of both cases, is not a UUID here and stays text.
enum PackedUUID {
    /// The number of bytes of a packed UUID.
    static let byteCount = 16
    private static let textByteCount = 36

    /// Returns the bytes of a UUID, and the case of its letters; nil for any other text. Without a letter it counts as lower case.
    static func pack(_ text: String) -> (bytes: [UInt8], isInUpperCase: Bool)? {
        guard text.utf8.count == Self.textByteCount else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Self.byteCount)
        var (hasLower, hasUpper) = (false, false)
        var high: UInt8?
        for (index, character) in text.utf8.enumerated() {
            if Self.isHyphen(index) {
                guard character == UInt8(ascii: "-") else { return nil }
                continue
            }
            let digit: UInt8
            switch character {
            case 0x30...0x39: digit = character - 0x30
            case 0x61...0x66:
                digit = character - 0x61 + 10
                hasLower = true
            case 0x41...0x46:
                digit = character - 0x41 + 10
                hasUpper = true
            default: return nil
            }
            if let first = high {
                bytes.append(first << 4 | digit)
                high = nil
            } else {
                high = digit
            }
        }
        guard !(hasLower && hasUpper) else { return nil }
        return (bytes, hasUpper)
    }

    /// Returns the text of 16 bytes; nil for any other number.
    static func text(_ bytes: some Sequence<UInt8>, inUpperCase: Bool) -> String? {
        let letters = (inUpperCase ? UInt8(ascii: "A") : UInt8(ascii: "a")) - 10
        var text: [UInt8] = []
        text.reserveCapacity(Self.textByteCount)
        for byte in bytes {
            guard text.count < Self.textByteCount else { return nil }
            for digit in [byte >> 4, byte & 0x0f] {
                if Self.isHyphen(text.count) { text.append(UInt8(ascii: "-")) }
                text.append(digit < 10 ? 0x30 + digit : letters + digit)
            }
        }
        return text.count == Self.textByteCount ? String(decoding: text, as: UTF8.self) : nil
    }

    private static func isHyphen(_ index: Int) -> Bool { index == 8 || index == 13 || index == 18 || index == 23 }
}
