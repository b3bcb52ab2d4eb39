/// Why the simulator could not do what it was asked.
public struct SimulatorError: Error, Equatable, Sendable, CustomStringConvertible {
    /// What kind of trouble.
    public struct Code: Hashable, Sendable {
        private enum Value: Hashable {
            case malformedJSON
            case invalidFaultPlan
            case invalidDeclaration
            case keys
            case listening
            case folder
        }

        private let value: Value

        /// A text is not JSON.
        public static let malformedJSON = Code(value: .malformedJSON)
        /// A fault plan says something impossible.
        public static let invalidFaultPlan = Code(value: .invalidFaultPlan)
        /// A declaration of tokens says something impossible.
        public static let invalidDeclaration = Code(value: .invalidDeclaration)
        /// A key or certificate could not be made.
        public static let keys = Code(value: .keys)
        /// A port could not be listened on.
        public static let listening = Code(value: .listening)
        /// The folder could not be written.
        public static let folder = Code(value: .folder)
    }

    /// What kind of trouble.
    public let code: Code
    /// The sentence for a person.
    public let message: String
    /// The field that is wrong, such as "phases[0].apns.delay_ms"; empty: the whole, or none.
    public let field: String

    /// An error.
    public init(_ code: Code, _ message: String, field: String = "") {
        self.code = code
        self.message = message
        self.field = field
    }

    /// The sentence.
    public var description: String { self.message }
}
