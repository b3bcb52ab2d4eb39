/// An error in a JSON text, with its place.
public struct JSONError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What is wrong.
    public enum Code: Hashable, Sendable {
        /// The text ends in the middle of a value.
        case unexpectedEnd
        /// A byte stands where the grammar has no place for it.
        case unexpectedByte
        /// More follows after the value.
        case trailingBytes
        /// A number that the grammar does not know: `01`, `1.`, `.5`, `+1`, `NaN`.
        case malformedNumber
        /// An unknown escape, or half of a surrogate pair.
        case malformedEscape
        /// A control character stands in a string unescaped.
        case controlCharacter
        /// A string is not UTF-8.
        case malformedUTF8
        /// An object names a member twice.
        case duplicateName
        /// Nested deeper than allowed.
        case tooDeep
        /// Longer than allowed.
        case tooLong
    }

    /// What is wrong.
    public let code: Code
    /// Bytes before the place.
    public let offset: Int

    /// An error at that place.
    public init(_ code: Code, at offset: Int) {
        self.code = code
        self.offset = offset
    }

    /// A sentence for an answer or a log line; repeats nothing of the text.
    public var description: String {
        let what =
            switch self.code {
            case .unexpectedEnd: "the text ends in the middle of a value"
            case .unexpectedByte: "unexpected character"
            case .trailingBytes: "more than one value"
            case .malformedNumber: "malformed number"
            case .malformedEscape: "malformed escape"
            case .controlCharacter: "control character in a string"
            case .malformedUTF8: "not UTF-8"
            case .duplicateName: "the same member twice"
            case .tooDeep: "nested too deep"
            case .tooLong: "too long"
            }
        return "\(what) at byte \(self.offset)"
    }
}
