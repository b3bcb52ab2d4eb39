/// The shape of language tags such as `en`, `en-GB` and `zh-Hant-TW`.
///
/// Source: BCP 47 (RFC 5646 §2.1). Whether a language or region of that name is registered is not checked.
package enum LanguageTag {
    /// Returns true for a language of 2 to 8 letters, or `x` or `i`, and further parts of 1 to 8 letters or digits, joined by hyphens.
    package static func isWellFormed(_ text: String) -> Bool {
        func isLetter(_ byte: UInt8) -> Bool { (0x61...0x7a).contains(byte | 0x20) }
        func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }
        let parts = text.utf8.split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
        guard let language = parts.first, language.allSatisfy(isLetter), (1...8).contains(language.count) else {
            return false
        }
        if language.count == 1 {
            guard let sign = language.first, sign | 0x20 == UInt8(ascii: "x") || sign | 0x20 == UInt8(ascii: "i"),
                parts.count > 1
            else { return false }
        }
        return parts.dropFirst().allSatisfy { part in
            (1...8).contains(part.count) && part.allSatisfy { isLetter($0) || isDigit($0) }
        }
    }

    /// Returns the rule that a text breaks, with an example; nil for a well-formed tag.
    package static func breach(_ text: String) -> String? {
        guard !Self.isWellFormed(text) else { return nil }
        let rule = "must be a language tag of BCP 47, such as en, en-GB or zh-Hant-TW"
        let hyphened = text.replacing("_", with: "-")
        return Self.isWellFormed(hyphened) ? "\(rule); did you mean \(hyphened)?" : rule
    }
}
