internal import ApusCore
package import ArgumentParser

/// Reads, names and completes the words of an option that takes one of a few. Pure.
package enum CommandWords {
    /// Returns the word that a text is.
    ///
    /// - Throws: `ValidationError` with all words and the one that was probably meant.
    package static func value<Word>(
        _ text: String,
        of words: [(name: String, value: Word)],
        _ option: String,
    ) throws -> Word {
        if let word = words.first(where: { $0.name == text }) { return word.value }
        let names = words.map(\.name)
        let list = names.dropLast().joined(separator: ", ") + (names.count > 1 ? " or " : "") + (names.last ?? "")
        let meant = closest(to: text, among: names).map { "; did you mean \($0)?" } ?? ""
        throw ValidationError("\(option) is \(list), not \"\(text)\"\(meant)")
    }

    /// Returns the word of a type that a text is.
    ///
    /// - Throws: `ValidationError` with all words and the one that was probably meant.
    package static func value<Word: CaseIterable & RawRepresentable>(
        _ text: String,
        of type: Word.Type,
        _ option: String,
    ) throws -> Word where Word.RawValue == String {
        try Self.value(text, of: Word.allCases.map { ($0.rawValue, $0) }, option)
    }

    /// Returns the words of a type for the help, such as `register|publish|admin`.
    package static func joined<Word: CaseIterable & RawRepresentable>(_ type: Word.Type) -> String
    where Word.RawValue == String {
        Word.allCases.map(\.rawValue).joined(separator: "|")
    }

    /// Returns the words of a type for shells to complete.
    package static func completion<Word: CaseIterable & RawRepresentable>(_ type: Word.Type) -> CompletionKind
    where Word.RawValue == String {
        .list(Word.allCases.map(\.rawValue))
    }
}
