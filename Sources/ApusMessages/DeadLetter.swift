public import ApusCore

/// Holds a message that could not be handled, with its original bytes, for an operator.
public struct DeadLetter: Hashable, Sendable {
    /// The reasons for a dead letter.
    public enum Cause: UInt8, CaseIterable, Sendable {
        /// The bytes are not a message of the schema, or exceed its limits.
        case malformed = 1
        /// The message is well formed, but breaks a rule.
        case invalid = 2
        /// The entry was delivered again and again without progress.
        case poison = 3
        /// An idempotency key was used with another body.
        case conflict = 4

        /// The name in metrics and on the command line.
        public var name: String {
            switch self {
            case .malformed: "malformed"
            case .invalid: "invalid"
            case .poison: "poison"
            case .conflict: "conflict"
            }
        }
    }

    /// The key of the stream that the message came from.
    public var stream: String
    /// The entry's id in that stream.
    public var entry: String
    /// The reason for the dead letter.
    public var cause: Cause
    /// The error.
    public var problem: Problem
    /// The original bytes; of a message beyond every limit the first `Limits.deadLetterPayloadBytesMax`.
    public var payload: [UInt8]
    /// The number of deliveries.
    public var deliveries: UInt32 = 1
    /// The time at which the message was given up.
    public var at: UnixMilliseconds
    /// The service that gave it up.
    public var service: String = ""
    /// The app, if it could be read.
    public var app: String = ""
    /// The send, if it could be read.
    public var send: String = ""

    /// Creates a dead letter.
    public init(
        stream: String,
        entry: String,
        cause: Cause,
        problem: Problem,
        payload: [UInt8],
        at: UnixMilliseconds,
    ) {
        self.stream = stream
        self.entry = entry
        self.cause = cause
        self.problem = problem
        self.payload = payload
        self.at = at
    }
}
