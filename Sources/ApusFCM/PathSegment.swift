internal import ApusCore

/// Escapes texts for paths and queries.
enum PathSegment {
    /// Escapes everything but letters, digits and `-._~:` as `%xx` (RFC 3986 §3.3).
    static func escaped(_ text: String) -> String {
        var result = ""
        for byte in text.utf8 {
            switch byte {
            case 0x61...0x7a, 0x41...0x5a, 0x30...0x39, 0x2d, 0x2e, 0x5f, 0x7e, 0x3a:
                result.unicodeScalars.append(Unicode.Scalar(byte))
            default: result += "%" + Hexadecimal.encode([byte]).uppercased()
            }
        }
        return result
    }
}
