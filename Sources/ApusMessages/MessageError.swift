/// Reports why bytes are not a message, or a value cannot become one: the error and its place.
///
/// The sentence never repeats the refused value: it may be hostile, or secret.
public struct MessageError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kinds of errors.
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

        /// The message exceeds its maximum bytes.
        public static let tooLarge = Code(value: .tooLarge)
        /// The bytes are not the wire format, not this schema, or contradict themselves.
        public static let malformed = Code(value: .malformed)
        /// A part is longer, or there are more parts, than `Limits` allow.
        public static let limitExceeded = Code(value: .limitExceeded)
        /// A text is not UTF-8, or holds a NUL.
        public static let invalidText = Code(value: .invalidText)
        /// A required value is missing.
        public static let missing = Code(value: .missing)
        /// This version of the schema does not know the enum value.
        public static let unknownValue = Code(value: .unknownValue)
        /// The decoded form would need more memory than its bytes justify.
        public static let outOfMemory = Code(value: .outOfMemory)

        /// The code's name in problems, metrics and logs: snake_case.
        public var name: String { self.value.rawValue }
        /// The name.
        public var description: String { self.name }
    }

    /// The kind of error.
    public let code: Code
    /// The path of the field, such as "notification.data[3].value"; empty for the whole message.
    public let field: String
    /// The rule that was broken, to be written behind the path: "must be …".
    public let detail: String

    /// Creates an error at a path.
    public init(_ code: Code, field: String = "", _ detail: String) {
        self.code = code
        self.field = field
        self.detail = detail
    }

    /// The sentence for a log line or an answer.
    public var description: String {
        self.field.isEmpty ? "message \(self.detail)" : "\(self.field) \(self.detail)"
    }

    /// Returns the same error from the view of the message that contains this one in the field `name`.
    func inside(_ name: String, index: Int? = nil) -> MessageError {
        let step = index.map { "\(name)[\($0)]" } ?? name
        return MessageError(self.code, field: self.field.isEmpty ? step : "\(step).\(self.field)", self.detail)
    }
}

/// Runs `body`, and puts the field's name before the path of its error.
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
