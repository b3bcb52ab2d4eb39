internal import ApusCore

/// What can go wrong with Redis, and what that says about the command.
///
/// Three classes matter to callers: the command was certainly not executed and waiting helps (`isRetryable`); nobody knows
/// whether it was (`isOutcomeUnknown`); and the rest, which repeating does not mend.
public struct RedisError: Error, Sendable, Hashable, CustomStringConvertible {
    /// What happened.
    public struct Code: Sendable, Hashable, CustomStringConvertible {
        private enum Kind: String {
            case moved, ask, tryAgain, clusterDown, crossSlot, readOnly, loading, masterDown, noReplicas
            case misconfigured, busy, outOfMemory, noAuthentication, wrongPassword, noPermission
            case unblocked, noGroup, groupExists, wrongType, transactionAborted, functionMissing, server
            case disconnected, notConnected, timedOut, full, closed
            case protocolViolation, unexpectedReply, tooLarge, configuration, tls
            case notInitialized, layoutMismatch, functionsMissing, functionsOutdated, serverChanged
        }
        private let kind: Kind

        /// `MOVED`: the slot lives on another server. Not executed.
        public static let moved = Code(kind: .moved)
        /// `ASK`: this key has moved already, the slot not yet. Not executed.
        public static let ask = Code(kind: .ask)
        /// `TRYAGAIN`: the keys of this command are being moved. Not executed.
        public static let tryAgain = Code(kind: .tryAgain)
        /// `CLUSTERDOWN`: a slot without a server, or no majority. Not executed.
        public static let clusterDown = Code(kind: .clusterDown)
        /// `CROSSSLOT`: keys of two slots in one command: our own mistake.
        public static let crossSlot = Code(kind: .crossSlot)
        /// `READONLY`: the server is a replica now. Not executed; the connection is closed.
        public static let readOnly = Code(kind: .readOnly)
        /// `LOADING`: the server reads its data after a start. Not executed.
        public static let loading = Code(kind: .loading)
        /// `MASTERDOWN`: a replica without its master. Not executed.
        public static let masterDown = Code(kind: .masterDown)
        /// `NOREPLICAS`: too few replicas to take a write. Not executed.
        public static let noReplicas = Code(kind: .noReplicas)
        /// `MISCONF`: the server cannot write to its disk. Not executed.
        public static let misconfigured = Code(kind: .misconfigured)
        /// `BUSY`: a script runs for too long. Not executed.
        public static let busy = Code(kind: .busy)
        /// `OOM`: the server's memory is used up. Not executed; stop filling, go on draining.
        public static let outOfMemory = Code(kind: .outOfMemory)
        /// `NOAUTH`: no password was given.
        public static let noAuthentication = Code(kind: .noAuthentication)
        /// `WRONGPASS`: user or password are wrong.
        public static let wrongPassword = Code(kind: .wrongPassword)
        /// `NOPERM`: the user may not do that.
        public static let noPermission = Code(kind: .noPermission)
        /// `UNBLOCKED`: the stream of a blocked read is gone, or its slot moved away.
        public static let unblocked = Code(kind: .unblocked)
        /// `NOGROUP`: the stream or its consumer group is gone: make it again, from 0.
        public static let noGroup = Code(kind: .noGroup)
        /// `BUSYGROUP`: the consumer group exists already.
        public static let groupExists = Code(kind: .groupExists)
        /// `WRONGTYPE`: the key holds something else.
        public static let wrongType = Code(kind: .wrongType)
        /// `EXECABORT`: a command of the transaction was refused, so none was executed.
        public static let transactionAborted = Code(kind: .transactionAborted)
        /// `ERR Function not found`: the server does not have our function library.
        public static let functionMissing = Code(kind: .functionMissing)
        /// Any other error that the server or a function of ours answered; its first word is in `word`.
        public static let server = Code(kind: .server)

        /// The connection ended after the command was sent: executed or not, nobody knows.
        public static let disconnected = Code(kind: .disconnected)
        /// There was no connection, the command was not sent.
        public static let notConnected = Code(kind: .notConnected)
        /// No answer in time; the connection was closed. Executed or not, nobody knows.
        public static let timedOut = Code(kind: .timedOut)
        /// Our own queue is at its limit, the command was not sent.
        public static let full = Code(kind: .full)
        /// The client was closed by its owner, the command was not sent.
        public static let closed = Code(kind: .closed)
        /// What came is no RESP2 or is beyond a limit; the connection was closed. Executed or not, nobody knows.
        public static let protocolViolation = Code(kind: .protocolViolation)
        /// The answer has another shape than the command's documentation says; the connection was closed. Executed or not, nobody knows.
        public static let unexpectedReply = Code(kind: .unexpectedReply)
        /// The command is beyond its limit, it was not sent.
        public static let tooLarge = Code(kind: .tooLarge)
        /// The address or another setting is wrong.
        public static let configuration = Code(kind: .configuration)
        /// The TLS handshake failed.
        public static let tls = Code(kind: .tls)

        /// Another server answers than the caller meant: restarted, or another since a failover. The command was not sent.
        public static let serverChanged = Code(kind: .serverChanged)

        /// `apus:meta` is missing: `apus init` has not been run here.
        public static let notInitialized = Code(kind: .notInitialized)
        /// `apus:meta` says other sizes than the configuration.
        public static let layoutMismatch = Code(kind: .layoutMismatch)
        /// The function library is not loaded.
        public static let functionsMissing = Code(kind: .functionsMissing)
        /// The function library is older than this program needs.
        public static let functionsOutdated = Code(kind: .functionsOutdated)

        /// The name, for logs and metrics: from a closed set.
        public var description: String { self.kind.rawValue }
    }

    /// What happened.
    public let code: Code
    /// In words: the server's text or ours, at most `RedisLimits.errorTextBytesMax` bytes.
    public let message: String
    /// The first word of the server's text, such as `WRONGTYPE`; empty when the error is not the server's.
    public let word: String

    /// An error of our own side.
    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message.clipped(toBytes: RedisLimits.errorTextBytesMax)
        self.word = ""
    }

    /// The error that a server's text stands for.
    public init(serverText text: String) {
        let word = text.prefix { $0 != " " }
        self.word = String(word).clipped(toBytes: 64)
        self.message = text.clipped(toBytes: RedisLimits.errorTextBytesMax)
        if let code = Self.codes[self.word] {
            self.code = code
        } else if text.hasPrefix("ERR Function not found") {
            self.code = .functionMissing
        } else {
            self.code = .server
        }
    }

    /// The vocabulary of the server, in one place.
    private static let codes: [String: Code] = [
        "MOVED": .moved,
        "ASK": .ask,
        "TRYAGAIN": .tryAgain,
        "CLUSTERDOWN": .clusterDown,
        "CROSSSLOT": .crossSlot,
        "READONLY": .readOnly,
        "LOADING": .loading,
        "MASTERDOWN": .masterDown,
        "NOREPLICAS": .noReplicas,
        "MISCONF": .misconfigured,
        "BUSY": .busy,
        "OOM": .outOfMemory,
        "NOAUTH": .noAuthentication,
        "WRONGPASS": .wrongPassword,
        "NOPERM": .noPermission,
        "UNBLOCKED": .unblocked,
        "NOGROUP": .noGroup,
        "BUSYGROUP": .groupExists,
        "WRONGTYPE": .wrongType,
        "EXECABORT": .transactionAborted,
    ]

    /// The command was certainly not executed, and the same command may well succeed a moment later.
    ///
    /// `outOfMemory` is not among them: who fills must stop, not push.
    public var isRetryable: Bool {
        switch self.code {
        case .moved, .ask, .tryAgain, .clusterDown, .readOnly, .loading, .masterDown, .noReplicas, .misconfigured,
            .busy, .notConnected, .full:
            true
        default: false
        }
    }

    /// The command was sent and its answer never came: only an idempotent one may be repeated.
    public var isOutcomeUnknown: Bool {
        switch self.code {
        case .disconnected, .timedOut, .protocolViolation, .unexpectedReply: true
        default: false
        }
    }

    /// User, password or rights: trying faster does not help, an operator must act.
    public var isCredentials: Bool {
        switch self.code {
        case .noAuthentication, .wrongPassword, .noPermission: true
        default: false
        }
    }

    /// The server or the way to it is in trouble, whatever was asked: later the same command may well succeed. Says nothing against
    /// whoever needed it.
    public var isOutage: Bool {
        if self.isRetryable || self.isOutcomeUnknown || self.isCredentials || self.isGroupGone { return true }
        switch self.code {
        case .outOfMemory, .functionMissing, .functionsMissing, .functionsOutdated, .serverChanged, .tls, .closed,
            .unexpectedReply:
            return true
        default: return false
        }
    }

    /// The stream or its group is gone: make it again and retry.
    public var isGroupGone: Bool { self.code == .noGroup || self.code == .unblocked }

    /// The sentence for a log line.
    public var description: String { "redis \(self.code): \(self.message)" }
}

/// An error that may have one of Redis behind it.
package protocol RedisFailure: Error {
    /// What Redis or the way to it had to say; nil: it is not that.
    var redis: RedisError? { get }
}

extension RedisError: RedisFailure {
    /// The error itself.
    package var redis: RedisError? { self }
}

extension RESPReply {
    /// The reply itself, or its error when the root is one.
    func checked() throws(RedisError) -> RESPReply {
        if let text = self.root.errorText { throw RedisError(serverText: text) }
        return self
    }
}
