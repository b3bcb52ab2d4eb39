/// The reasons why bytes are not a message, or a value cannot become one: what is wrong, and where.
///
/// The sentence never repeats what was refused: it may be hostile, or secret.
public struct MessageError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What kind of wrong it is.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Value: String {
            case tooLarge = "too_large"
            case malformed
            case limitExceeded = "limit_exceeded"
            case invalidText = "invalid_text"
            case missing
            case unknownValue = "unknown_value"
            case outOfMemory = "out_of_memory"
        }

        private let value: Value

        /// More bytes than such a message may have.
        public static let tooLarge = Code(value: .tooLarge)
        /// Not the wire format, not this schema, or in contradiction with itself.
        public static let malformed = Code(value: .malformed)
        /// A part is longer, or there are more of them, than `Limits` allow.
        public static let limitExceeded = Code(value: .limitExceeded)
        /// A text that is not UTF-8, or holds a NUL.
        public static let invalidText = Code(value: .invalidText)
        /// Something required is not there.
        public static let missing = Code(value: .missing)
        /// A number that this version of the schema has no word for.
        public static let unknownValue = Code(value: .unknownValue)
        /// The decoded form would need more memory than its bytes justify.
        public static let outOfMemory = Code(value: .outOfMemory)

        /// The name in problems, metrics and logs: snake_case.
        public var name: String { self.value.rawValue }
        /// The name.
        public var description: String { self.name }
    }

    /// What kind of wrong it is.
    public let code: Code
    /// The path of the field, "notification.data[3].value"; empty: the whole.
    public let field: String
    /// What is wrong, in words that stand behind the path: "must be …".
    public let detail: String

    /// Creates an error at that path.
    public init(_ code: Code, field: String = "", _ detail: String) {
        self.code = code
        self.field = field
        self.detail = detail
    }

    /// A sentence for a log line or an answer.
    public var description: String {
        self.field.isEmpty ? "message \(self.detail)" : "\(self.field) \(self.detail)"
    }

    /// The same error, seen from the message that holds this one in the field `name`.
    func inside(_ name: String, index: Int? = nil) -> MessageError {
        let step = index.map { "\(name)[\($0)]" } ?? name
        return MessageError(self.code, field: self.field.isEmpty ? step : "\(step).\(self.field)", self.detail)
    }
}

/// Does `body`, and puts the field's name before the path of what it throws.
@inline(__always)
func within<Value>(
    _ name: StaticString,
    index: Int? = nil,
    _ body: @autoclosure () throws(MessageError) -> Value,
) throws(MessageError) -> Value {
    do throws(MessageError) {
        return try body()
    } catch {
        throw error.inside("\(name)", index: index)
    }
}
