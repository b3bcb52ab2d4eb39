internal import ApusRedis

/// The reasons why a publication failed, or a receipt could not be had.
public struct PublisherError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What happened.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Kind: String {
            case unavailable, notInitialized, refused, invalid, conflict, mailboxFull, timedOut
            case acknowledgementUnavailable
        }
        private let kind: Kind

        /// Redis cannot be reached, or the command's outcome is unknown: publishing the same command (with its id) again is
        /// safe.
        public static let unavailable = Code(kind: .unavailable)
        /// There is no Apus in this Redis, or an older one.
        public static let notInitialized = Code(kind: .notInitialized)
        /// Redis answered with an error that repeating does not mend: rights, memory, an address that is none.
        public static let refused = Code(kind: .refused)
        /// The command is not one that Apus takes: `field` says where.
        public static let invalid = Code(kind: .invalid)
        /// The idempotency key named another body within a day.
        public static let conflict = Code(kind: .conflict)
        /// Dispatchers are behind: nothing was written; `retryAfter` says when to publish again.
        public static let mailboxFull = Code(kind: .mailboxFull)
        /// No receipt came in time. The send goes on.
        public static let timedOut = Code(kind: .timedOut)

        /// This Redis cannot give the acknowledgement that was asked for; nothing was written.
        public static let acknowledgementUnavailable = Code(kind: .acknowledgementUnavailable)

        /// The name, from a closed set.
        public var description: String { self.kind.rawValue }
    }

    /// What happened.
    public let code: Code
    /// In words.
    public let message: String
    /// The field that is wrong, as a path; empty: the whole.
    public let field: String
    /// The send that the key named before, in a conflict.
    public let send: String?
    /// The time at which a full mailbox is expected to have room again, from the pace at which it is emptied: 0.1 to 30 s.
    public let retryAfter: Duration?

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
        self.init(code, error.message)
    }

    static func mailboxFull(_ entries: Int, retryAfterMilliseconds milliseconds: Int64) -> PublisherError {
        let seconds = Double(milliseconds) / 1_000
        let rounded = (seconds * 10).rounded() / 10
        let text = "\(entries) commands wait in the mailbox, which takes no more: publish again in \(rounded) s. "
        return PublisherError(
            .mailboxFull,
            text + "When that is long, dispatchers are down or too few",
            retryAfter: .milliseconds(milliseconds),
        )
    }

    /// Whatever was thrown below.
    init(_ error: any Error) {
        switch error {
        case let error as PublisherError: self = error
        case let error as RedisError: self.init(error)
        case is CancellationError: self.init(.unavailable, "cancelled while waiting to publish again")
        default: self.init(.refused, "\(error)")
        }
    }

    /// The sentence.
    public var description: String { self.message }
}
