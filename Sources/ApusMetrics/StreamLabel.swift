/// The kinds of streams between the services. All queue shards of a kind count together.
public enum StreamLabel: Int, ClosedMetricLabel, Hashable {
    /// Commands that a person waits for.
    case inExpress
    /// All other commands.
    case inBulk
    /// Audience sends being planned.
    case plan
    /// Work units of every route and lane.
    case work
    /// Retries and scheduled sends.
    case due
    /// Registration commands of backends.
    case register
    /// Outcomes of deliveries.
    case outcomes
    /// Events from clients.
    case events
    /// Receipts to publishers.
    case receipts
    /// Dead letters.
    case dead

    /// The label `stream`.
    public static let labelNames = ["stream"]
}

/// A stream and the one group of consumers that reads it.
public struct GroupedStream: ClosedMetricLabel, Hashable {
    /// The stream.
    public let stream: StreamLabel

    /// Creates the stream with its group.
    public init(_ stream: StreamLabel) { self.stream = stream }

    /// All streams with their groups.
    public static let allCases = StreamLabel.allCases.map(GroupedStream.init)
    /// The labels `stream` and `group`.
    public static let labelNames = ["stream", "group"]
    /// The index of the stream.
    @inlinable public var labelIndex: Int { self.stream.rawValue }
    /// The stream's name and the service that reads it.
    public var labelValues: [String] { self.stream.labelValues + [self.group] }

    private var group: String {
        switch self.stream {
        case .inExpress, .inBulk, .plan, .work, .due: "dispatcher"
        case .register: "registration"
        case .outcomes, .events: "feedback"
        case .receipts: "publishers"
        case .dead: "operators"
        }
    }
}

/// The reasons for a dead letter.
public enum DeadLetterLabel: Int, ClosedMetricLabel, Hashable {
    /// The bytes are not a message of the schema, or exceed its limits.
    case malformed
    /// The message is well formed, but breaks a rule.
    case invalid
    /// The entry was delivered again and again without progress.
    case poison
    /// An idempotency key was used with another body.
    case conflict

    /// The label `reason`.
    public static let labelNames = ["reason"]
}

/// The Redis commands in use; blocking reads are counted, but not timed.
public enum RedisCommandLabel: Int, ClosedMetricLabel, Hashable {
    /// FCALL.
    case fcall
    /// FCALL_RO.
    case fcallReadOnly
    /// XREADGROUP.
    case xreadgroup
    /// XAUTOCLAIM.
    case xautoclaim
    /// XADD.
    case xadd
    /// XLEN.
    case xlen
    /// XPENDING.
    case xpending
    /// XGROUP and XINFO.
    case xgroup
    /// GET, HGET, HMGET, HGETALL and their kind.
    case read
    /// SET, DEL and their kind.
    case write
    /// Everything else.
    case other

    /// The label `command`.
    public static let labelNames = ["command"]
}

/// The results of a Redis command.
public enum RedisOutcomeLabel: Int, ClosedMetricLabel, Hashable {
    /// The server answered.
    case ok
    /// The server answered with an error.
    case error
    /// The reply did not arrive in time.
    case timeout
    /// The connection ended before the reply.
    case disconnected

    /// The label `outcome`.
    public static let labelNames = ["outcome"]
}

/// The levels of log lines, by swift-log's names.
public enum LogLevelLabel: Int, ClosedMetricLabel, Hashable {
    /// The level trace.
    case trace
    /// The level debug.
    case debug
    /// The level info.
    case info
    /// The level notice.
    case notice
    /// The level warning.
    case warning
    /// The level error.
    case error
    /// The level critical.
    case critical

    /// The label `level`.
    public static let labelNames = ["level"]
}

/// The results of a span.
public enum SpanOutcomeLabel: Int, ClosedMetricLabel, Hashable {
    /// The collector accepted the span.
    case exported
    /// The collector did not accept the span.
    case failed
    /// The span was dropped, because too many waited.
    case dropped

    /// The label `outcome`.
    public static let labelNames = ["outcome"]
}
