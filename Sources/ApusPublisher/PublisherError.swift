public import ApusMessages
package import ApusRedis

/// Reports why a publication failed, or why there is no receipt.
public struct PublisherError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kinds of failures.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Kind: String {
            case unavailable, notInitialized, refused, invalid, conflict, mailboxFull, timedOut
            case acknowledgementUnavailable
        }
        private let kind: Kind

        /// Redis cannot be reached, or the command's outcome is unknown: publish the error's `command` again, which is the same send.
        public static let unavailable = Code(kind: .unavailable)
        /// This Redis holds no Apus installation, or an older one.
        public static let notInitialized = Code(kind: .notInitialized)
        /// Redis answered with an error that retries do not repair: permissions, memory, an invalid address.
        public static let refused = Code(kind: .refused)
        /// The command is invalid: `field` says where.
        public static let invalid = Code(kind: .invalid)
        /// The id or the idempotency key names a send with another body.
        public static let conflict = Code(kind: .conflict)
        /// Dispatchers are behind: nothing was written; `retryAfter` says when to publish again.
        public static let mailboxFull = Code(kind: .mailboxFull)
        /// No receipt came in time. The send goes on.
        public static let timedOut = Code(kind: .timedOut)

        /// This Redis cannot give the requested acknowledgement; nothing was written.
        public static let acknowledgementUnavailable = Code(kind: .acknowledgementUnavailable)

        /// The code's name, from a closed set.
        public var description: String { self.kind.rawValue }
    }

    /// The kind of failure.
    public let code: Code
    /// The error's sentence.
    public let message: String
    /// The path of the invalid field; empty for the whole command.
    public let field: String
    /// The send for which the key was used before, in a conflict.
    public let send: String?
    /// The time after which a full mailbox should have room again, from its present rate: 0.1 to 30 s.
    public let retryAfter: Duration?
    /// The command that was not published, or not known to be, with the id that it got: publishing it again never makes a second send of it.
    /// Nil when the error is about no command.
    public private(set) var command: SendCommand?

    init(
        _ code: Code,
        _ message: String,
        field: String = "",
        send: String? = nil,
        retryAfter: Duration? = nil,
    ) {
        self.code = code
        self.message = message
        self.field = field
        self.send = send
        self.retryAfter = retryAfter
    }

    init(_ error: RedisError) {
        let code: Code =
            switch error.code {
            case .notInitialized, .functionsMissing, .functionsOutdated, .functionMissing, .layoutMismatch:
                .notInitialized
            case _ where error.isRetryable || error.isOutcomeUnknown: .unavailable
            default: .refused
            }
        self.init(code, error.code == .outOfMemory ? Self.fullSentence(error) : error.message)
    }

    /// Returns what a full Redis means, and its cure.
    package static func fullSentence(_ error: RedisError) -> String {
        "Redis is full and takes nothing new (\(error.message)): give it more memory, or find the backlog with apus lag"
    }

    init(_ problem: Problem) { self.init(.invalid, "\(problem)", field: problem.field) }

    static func mailboxFull(_ entries: Int, retryAfterMilliseconds milliseconds: Int64) -> PublisherError {
        let seconds = Double(milliseconds) / 1_000
        let rounded = (seconds * 10).rounded() / 10
        let text = "\(entries) commands wait in the mailbox, which is full: publish again in \(rounded) s. "
        return PublisherError(
            .mailboxFull,
            text + "When that is long, dispatchers are down or too few",
            retryAfter: .milliseconds(milliseconds),
        )
    }

    /// Converts any error of the layers below that a command met.
    init(_ error: any Error, of command: SendCommand) {
        self.init(error)
        self.command = command
    }

    /// Converts any error of the layers below.
    init(_ error: any Error) {
        switch error {
        case let error as PublisherError: self = error
        case let error as RedisError: self.init(error)
        case let problem as Problem: self.init(problem)
        case is CancellationError: self.init(.unavailable, "cancelled while waiting to publish again")
        default: self.init(.refused, "\(error)")
        }
    }

    /// The error's sentence.
    public var description: String { self.message }
}
