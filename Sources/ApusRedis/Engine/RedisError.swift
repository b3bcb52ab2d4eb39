internal import ApusCore

/// Reports a failure of Redis or of the connection, and what it means for the command.
///
/// Callers distinguish three classes: the command was certainly not executed and waiting helps (`isRetryable`); its
/// outcome is unknown (`isOutcomeUnknown`); and the rest, which repetition does not repair.
public struct RedisError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The kinds of failures.
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
        /// `CROSSSLOT`: one command has keys of two slots, which is a bug of ours.
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
        /// Any other error of the server or of one of our functions; `word` holds its first word.
        public static let server = Code(kind: .server)

        /// The connection ended after the command was sent: the outcome is unknown.
        public static let disconnected = Code(kind: .disconnected)
        /// There was no connection; the command was not sent.
        public static let notConnected = Code(kind: .notConnected)
        /// The reply did not arrive in time; the connection was closed. The outcome is unknown.
        public static let timedOut = Code(kind: .timedOut)
        /// Our own queue is at its limit; the command was not sent.
        public static let full = Code(kind: .full)
        /// The client was closed by its owner; the command was not sent.
        public static let closed = Code(kind: .closed)
        /// The received bytes are not RESP2 or exceed a limit; the connection was closed. The outcome is unknown.
        public static let protocolViolation = Code(kind: .protocolViolation)
        /// The reply's shape differs from the command's documentation; the connection was closed. The outcome is unknown.
        public static let unexpectedReply = Code(kind: .unexpectedReply)
        /// The command exceeds its size limit and was not sent.
        public static let tooLarge = Code(kind: .tooLarge)
        /// The address or another setting is wrong.
        public static let configuration = Code(kind: .configuration)
        /// The TLS handshake failed.
        public static let tls = Code(kind: .tls)

        /// The server is not the intended one: it was restarted, or replaced by a failover. The command was not sent.
        public static let serverChanged = Code(kind: .serverChanged)

        /// `apus:meta` is missing: `apus init` has not been run on this Redis.
        public static let notInitialized = Code(kind: .notInitialized)
        /// `apus:meta` holds other sizes than the configuration.
        public static let layoutMismatch = Code(kind: .layoutMismatch)
        /// The function library is not loaded.
        public static let functionsMissing = Code(kind: .functionsMissing)
        /// The function library is older than this program needs.
        public static let functionsOutdated = Code(kind: .functionsOutdated)

        /// The code's name for logs and metrics, from a closed set.
        public var description: String { self.kind.rawValue }

        /// The consequence of the failure. A new code does not compile without it.
        package var disposition: Disposition {
            switch self.kind {
            case .serverChanged, .noGroup, .unblocked: .retryNow
            case .closed: .stop
            case .moved, .ask, .tryAgain, .clusterDown, .readOnly, .loading, .masterDown, .noReplicas, .misconfigured,
                .busy, .outOfMemory, .noAuthentication, .wrongPassword, .noPermission, .functionMissing,
                .functionsMissing, .functionsOutdated, .disconnected, .notConnected, .timedOut, .full,
                .protocolViolation, .unexpectedReply, .tls:
                .retryLater
            case .crossSlot, .groupExists, .wrongType, .transactionAborted, .server, .configuration, .notInitialized,
                .layoutMismatch:
                .giveBack
            case .tooLarge: .bury
            }
        }
    }

    /// The kind of failure.
    public let code: Code
    /// The server's text or ours, at most `RedisLimits.errorTextBytesMax` bytes.
    public let message: String
    /// The first word of the server's text, such as `WRONGTYPE`; empty when the error is not the server's.
    public let word: String

    /// Creates an error of our own side.
    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message.clipped(toBytes: RedisLimits.errorTextBytesMax)
        self.word = ""
    }

    /// Creates the error that a server's text stands for.
    public init(serverText text: String) {
        let word = text.prefix { $0 != " " }
        self.word = String(word).clipped(toBytes: 64)
        self.message = text.clipped(toBytes: RedisLimits.errorTextBytesMax)
        if let code = Self.codes[self.word] {
            self.code = code
        } else if text.hasPrefix("ERR Function not found") {
            self.code = .functionMissing
        } else if self.word == "ERR", let code = Self.scriptCode(text) {
            self.code = code
        } else {
            self.code = .server
        }
    }

    /// Returns the code of an error by which a server refuses a command of a script, because of the user's rights or the
    /// cluster's state: the words that a client would get are told there in prose only.
    private static func scriptCode(_ text: String) -> Code? {
        if text.hasPrefix("ERR The user executing the script ") { return .noPermission }
        guard text.hasPrefix("ERR Script attempted to ") else { return nil }
        if text.contains("non local key") || text.contains("undeclared key") { return .tryAgain }
        return text.contains("while the cluster is down") ? .clusterDown : nil
    }

    /// The server's error words.
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

    /// True when the command was certainly not executed and may well succeed a moment later.
    ///
    /// `outOfMemory` is not included: writers must stop, not repeat.
    public var isRetryable: Bool {
        switch self.code {
        case .moved, .ask, .tryAgain, .clusterDown, .readOnly, .loading, .masterDown, .noReplicas, .misconfigured,
            .busy, .notConnected, .full:
            true
        default: false
        }
    }

    /// True when the command's slot may be on another server by now.
    package var suggestsAnotherServer: Bool {
        switch self.code {
        case .moved, .clusterDown, .readOnly, .masterDown, .loading, .notConnected, .disconnected, .timedOut,
            .unblocked, .serverChanged:
            true
        default: false
        }
    }

    /// True when the connection ended or the time was over before the reply came.
    package var isUnanswered: Bool { self.code == .disconnected || self.code == .timedOut }

    /// True when the command was sent and its reply never came: only an idempotent one may be repeated.
    public var isOutcomeUnknown: Bool {
        switch self.code {
        case .disconnected, .timedOut, .protocolViolation, .unexpectedReply: true
        default: false
        }
    }

    /// True for a wrong user or password or missing permissions: retries do not help, an operator must act.
    public var isCredentials: Bool {
        switch self.code {
        case .noAuthentication, .wrongPassword, .noPermission: true
        default: false
        }
    }

    /// True for what an operator must put right first: the credentials, or a library of functions that the server lacks.
    package var needsOperator: Bool { self.isCredentials || self.code == .functionMissing }

    /// True when the server or the connection to it is in trouble, whatever the command: the same command may well
    /// succeed later. The error is no evidence against the data that the command was for.
    public var isOutage: Bool { self.code == .closed || self.code.disposition.isOutage }

    /// True for an outage that may end without an operator: whoever watches asks again.
    package var isPassing: Bool { self.isOutage && !self.needsOperator }

    /// True when the stream or its group is gone: create it again and retry.
    public var isGroupGone: Bool { self.code == .noGroup || self.code == .unblocked }

    /// The sentence for a log line.
    public var description: String { "redis \(self.code): \(self.message)" }
}

/// An error with a consequence for the entry in hand.
package protocol DisposedError: Error {
    /// The consequence of the error.
    var disposition: Disposition { get }
    /// The error of Redis that caused it; nil for another cause.
    var redis: RedisError? { get }
}

extension DisposedError {
    /// The error has another cause than Redis.
    package var redis: RedisError? { nil }
}

extension RedisError: DisposedError {
    /// The consequence of the error, by its code.
    package var disposition: Disposition { self.code.disposition }
    /// The error itself.
    package var redis: RedisError? { self }
}

extension Disposition {
    /// The consequence of an error; `giveBack` for an unknown one.
    package init(of error: any Error) {
        switch error {
        case is CancellationError: self = .stop
        case let error as any DisposedError: self = error.disposition
        default: self = .giveBack
        }
    }
}

extension RESPReply {
    /// Returns the reply, or throws its error when the root is one.
    func checked() throws(RedisError) -> RESPReply {
        if let text = self.root.errorText { throw RedisError(serverText: text) }
        return self
    }
}
