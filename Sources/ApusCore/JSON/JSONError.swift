/// An error in a JSON text, with its place.
public struct JSONError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kinds of errors.
    public enum Code: Hashable, Sendable {
        /// The text ends in the middle of a value.
        case unexpectedEnd
        /// A byte is not allowed at its place.
        case unexpectedByte
        /// The value is followed by more text.
        case trailingBytes
        /// A number does not follow the grammar: `01`, `1.`, `.5`, `+1`, `NaN`.
        case malformedNumber
        /// An unknown escape, or half of a surrogate pair.
        case malformedEscape
        /// A control character stands in a string unescaped.
        case controlCharacter
        /// A string is not UTF-8.
        case malformedUTF8
        /// An object names a member twice.
        case duplicateName
        /// The nesting exceeds the limit.
        case tooDeep
        /// There are more values than the limit.
        case tooManyValues
        /// The text exceeds the limit.
        case tooLong
    }

    /// The kind of error.
    public let code: Code
    /// The number of bytes before the place.
    public let offset: Int

    /// Creates an error at a place.
    public init(_ code: Code, at offset: Int) {
        self.code = code
        self.offset = offset
    }

    /// The sentence for an answer or a log line; it repeats nothing of the text.
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
            case .tooManyValues: "too many values"
            case .tooLong: "too long"
            }
        return "\(what) at byte \(self.offset)"
    }
}
