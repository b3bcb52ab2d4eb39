/// Reports an error of the simulator.
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
        /// A key or certificate could not be created.
        public static let keys = Code(value: .keys)
        /// A port could not be opened.
        public static let listening = Code(value: .listening)
        /// The folder could not be written.
        public static let folder = Code(value: .folder)
    }

    /// The kind of error.
    public let code: Code
    /// A sentence that explains it.
    public let message: String
    /// The invalid field, such as "phases[0].delay_ms"; empty for the whole, or none.
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

/// The limits of the simulator, whatever a client does.
package enum SimulatorLimits {
    /// The maximum bytes of a request's body. It exceeds every provider's own limit, so that a body that is too large
    /// is answered and not cut off; a batch of 1,000 tokens for a topic is the longest.
    package static let requestBodyBytesMax = 256 * 1_024
    /// The maximum bytes of a request's header block, compressed.
    package static let headerBlockBytesMax = 32 * 1_024
    /// The maximum bytes of a body sent to the control listener: some hundred thousand declared tokens.
    package static let controlBodyBytesMax = 16 * 1_024 * 1_024
    /// The maximum bytes of a text from a browser.
    package static let firefoxTextBytesMax = 16 * 1_024
    /// The maximum nesting of a payload's JSON.
    package static let payloadDepthMax = 32
    /// The maximum bytes of a send's id in the ledger.
    package static let sendBytesMax = 64
    /// The maximum number of scripts that wait for their requests.
    package static let scriptsMax = 1_000
    /// The maximum number of verified provider tokens that a connection remembers; a good client uses one an hour.
    package static let providerTokensMax = 8
    /// The maximum bytes of a provider's JWT or a service account's assertion.
    package static let jwtBytesMax = 8 * 1_024
}
