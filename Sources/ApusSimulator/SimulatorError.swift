/// An error of the simulator.
public struct SimulatorError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The kind of error.
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
        /// A fault plan is invalid.
        public static let invalidFaultPlan = Code(value: .invalidFaultPlan)
        /// A declaration of tokens is invalid.
        public static let invalidDeclaration = Code(value: .invalidDeclaration)
        /// A key or certificate could not be made.
        public static let keys = Code(value: .keys)
        /// A port could not be listened on.
        public static let listening = Code(value: .listening)
        /// The folder could not be written.
        public static let folder = Code(value: .folder)
    }

    /// The kind of error.
    public let code: Code
    /// A sentence that explains it.
    public let message: String
    /// The field that is wrong, such as "phases[0].delay_ms"; empty: the whole, or none.
    public let field: String

    /// Creates an error.
    public init(_ code: Code, _ message: String, field: String = "") {
        self.code = code
        self.message = message
        self.field = field
    }

    /// The message.
    public var description: String { self.message }
}

/// The limits that the simulator sets itself, whatever a client does.
package enum SimulatorLimits {
    /// The most bytes of a request's body. More than every provider's own limit, so that a body that is too large is answered and not
    /// cut off; a batch of 1,000 tokens for a topic is the longest.
    package static let requestBodyBytesMax = 256 * 1_024
    /// The most bytes of a request's header block, compressed.
    package static let headerBlockBytesMax = 32 * 1_024
    /// The most bytes of a body sent to the control listener: some hundred thousand declared tokens.
    package static let controlBodyBytesMax = 16 * 1_024 * 1_024
    /// The most levels of a payload's JSON.
    package static let payloadDepthMax = 32
    /// The most bytes of a send's id that the ledger keeps.
    package static let sendBytesMax = 64
    /// The most scripts that wait for their requests.
    package static let scriptsMax = 1_000
    /// The most verified provider tokens that a connection remembers; a good client shows one an hour.
    package static let providerTokensMax = 8
    /// The most bytes of a provider's JWT or a service account's assertion.
    package static let jwtBytesMax = 8 * 1_024
}
