public import ApusCore

/// What could not be handled, kept for an operator with its original bytes.
public struct DeadLetter: Hashable, Sendable {
    /// The reasons why it is here.
    public enum Cause: UInt8, CaseIterable, Sendable {
        /// Not a message of the schema, or beyond its limits.
        case malformed = 1
        /// Well formed, but breaks a rule.
        case invalid = 2
        /// Delivered again and again without progress.
        case poison = 3
        /// An idempotency key used with another body.
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

    /// Where it came from.
    public var stream: String
    /// Its entry there.
    public var entry: String
    /// The reason why it is here.
    public var cause: Cause
    /// What is wrong.
    public var problem: Problem
    /// The original bytes; of something larger than any message the first `Limits.deadLetterPayloadBytesMax`.
    public var payload: [UInt8]
    /// How often it was delivered.
    public var deliveries: UInt32 = 1
    /// The time at which it was given up.
    public var at: UnixMilliseconds
    /// By whom.
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
