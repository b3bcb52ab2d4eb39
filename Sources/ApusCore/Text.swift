/// Converts bytes to hexadecimal text and back, for tokens in paths and for digests.
public enum Hexadecimal {
    private static let digits: [UInt8] = Array("0123456789abcdef".utf8)

    /// Returns two lower-case digits per byte.
    public static func encode(_ bytes: some Sequence<UInt8>) -> String {
        var text: [UInt8] = []
        for byte in bytes {
            text.append(self.digits[Int(byte >> 4)])
            text.append(self.digits[Int(byte & 0x0f)])
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Returns the bytes; nil unless the text is an even number of digits of either case.
    public static func decode(_ text: some StringProtocol) -> [UInt8]? {
        let characters = Array(text.utf8)
        guard characters.count.isMultiple(of: 2) else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(characters.count / 2)
        for index in stride(from: 0, to: characters.count, by: 2) {
            guard let high = Self.value(of: characters[index]), let low = Self.value(of: characters[index + 1])
            else { return nil }
            bytes.append(high << 4 | low)
        }
        return bytes
    }

    private static func value(of digit: UInt8) -> UInt8? {
        switch digit {
        case 0x30...0x39: digit - 0x30
        case 0x61...0x66: digit - 0x61 + 10
        case 0x41...0x46: digit - 0x41 + 10
        default: nil
        }
    }
}

/// Converts bytes to base64url without padding (RFC 4648 §5) and back, for tokens and keys.
public enum Base64URL {
    private static let alphabet: [UInt8] = Array(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8
    )

    /// Returns the text, without padding.
    public static func encode(_ bytes: some Collection<UInt8>) -> String {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count * 4 + 2) / 3)
        var buffer: UInt32 = 0
        var bits = 0
        for byte in bytes {
            buffer = buffer << 8 | UInt32(byte)
            bits += 8
            while bits >= 6 {
                bits -= 6
                text.append(self.alphabet[Int(buffer >> UInt32(bits) & 0x3f)])
            }
        }
        if bits > 0 { text.append(self.alphabet[Int(buffer << UInt32(6 - bits) & 0x3f)]) }
        return String(decoding: text, as: UTF8.self)
    }

    /// Returns the bytes; nil on any other character, a wrong length or stray bits. Correct padding is accepted.
    public static func decode(_ text: some StringProtocol) -> [UInt8]? {
        var characters = Array(text.utf8)
        if characters.count.isMultiple(of: 4) {
            while characters.last == 0x3d, characters.count % 4 > 1 || characters.count.isMultiple(of: 4) {
                characters.removeLast()
            }
        }
        guard characters.count % 4 != 1 else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(characters.count * 3 / 4)
        var buffer: UInt32 = 0
        var bits = 0
        for character in characters {
            guard let value = Self.value(of: character) else { return nil }
            buffer = (buffer << 6 | UInt32(value)) & 0xffff
            bits += 6
            if bits >= 8 {
                bits -= 8
                bytes.append(UInt8(truncatingIfNeeded: buffer >> UInt32(bits)))
            }
        }
        guard buffer & ((1 << UInt32(bits)) - 1) == 0 else { return nil }
        return bytes
    }

    private static func value(of character: UInt8) -> UInt8? {
        switch character {
        case 0x41...0x5a: character - 0x41
        case 0x61...0x7a: character - 0x61 + 26
        case 0x30...0x39: character - 0x30 + 52
        case 0x2d: 62
        case 0x5f: 63
        default: nil
        }
    }
}

extension String {
    /// Returns at most the given number of UTF-8 bytes, cut between characters. It looks at no more of the text than these: a single character
    /// may have as many combining marks as a stranger likes.
    public func clipped(toBytes bytesMax: Int) -> String {
        guard self.utf8.count > bytesMax else { return self }
        guard bytesMax > 0 else { return "" }
        // One scalar more tells whether a character ends before it.
        var seen = String.UnicodeScalarView()
        var bytes = 0
        for scalar in self.unicodeScalars {
            seen.append(scalar)
            bytes += UTF8.width(scalar)
            if bytes > bytesMax { break }
        }
        let start = String(seen)
        var end = start.startIndex
        bytes = 0
        for character in start {
            bytes += character.utf8.count
            guard bytes <= bytesMax else { break }
            end = start.index(after: end)
        }
        return String(start[..<end])
    }
}

extension Unicode.Scalar {
    private static let hexadecimal: [Character] = Array("0123456789abcdef")

    /// The JSON escape of a character that would end a line or change a terminal's state; nil for all others.
    ///
    /// They are the control characters of ASCII and Latin-1, the line separators of Unicode, and its marks that turn the direction of text.
    public var terminalEscape: String? {
        switch self.value {
        case 0x0a: #"\n"#
        case 0x0d: #"\r"#
        case 0x09: #"\t"#
        case 0x00...0x1f, 0x7f...0x9f, 0x2028, 0x2029, 0x202a...0x202e, 0x2066...0x2069:
            #"\u"# + String([UInt32(12), 8, 4, 0].map { Self.hexadecimal[Int(self.value >> $0 & 0xf)] })
        default: nil
        }
    }
}

extension String {
    /// The text on one line, with JSON escapes for what a terminal would obey, such as `\u001b`. JSON without line ends means the same.
    public var visible: String {
        guard self.unicodeScalars.contains(where: { $0.terminalEscape != nil }) else { return self }
        return self.unicodeScalars.reduce(into: "") { text, scalar in
            if let escape = scalar.terminalEscape { text += escape } else { text.unicodeScalars.append(scalar) }
        }
    }
}

/// Converts names of cases to the form of labels and JSON.
public enum SnakeCase {
    /// Returns a case's name in snake case: `timeSensitive` is `time_sensitive`.
    public static func name(of value: some Any) -> String {
        let name = String(describing: value)
        guard !name.utf8.allSatisfy({ $0 < 0x80 }) else { return Self.name(ofASCII: name.utf8) }
        var text = ""
        for character in name {
            if character.isUppercase {
                text += "_" + character.lowercased()
            } else {
                text.append(character)
            }
        }
        return text
    }

    private static func name(ofASCII name: String.UTF8View) -> String {
        var text: [UInt8] = []
        text.reserveCapacity(name.count + 4)
        for byte in name {
            if (0x41...0x5a).contains(byte) {
                text.append(0x5f)
                text.append(byte | 0x20)
            } else {
                text.append(byte)
            }
        }
        return String(decoding: text, as: UTF8.self)
    }
}
