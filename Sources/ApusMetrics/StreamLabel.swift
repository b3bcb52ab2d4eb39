/// The kinds of streams between the services. All queue shards of a kind count as one.
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

    /// `stream`.
    public static let labelNames = ["stream"]
}

/// A stream and the one group of consumers that reads it.
public struct GroupedStream: ClosedMetricLabel, Hashable {
    /// The stream.
    public let stream: StreamLabel

    /// Creates the stream with its group.
    public init(_ stream: StreamLabel) { self.stream = stream }

    /// All streams.
    public static let allCases = StreamLabel.allCases.map(GroupedStream.init)
    /// `stream` and `group`.
    public static let labelNames = ["stream", "group"]
    /// As the stream's.
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

/// The reasons why an entry became a dead letter.
public enum DeadLetterLabel: Int, ClosedMetricLabel, Hashable {
    /// Not a message of the schema, or beyond its limits.
    case malformed
    /// Well formed, but breaks a rule.
    case invalid
    /// Delivered again and again without progress.
    case poison
    /// An idempotency key used with another body.
    case conflict

    /// `reason`.
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

    /// `command`.
    public static let labelNames = ["command"]
}

/// How a Redis command ended.
public enum RedisOutcomeLabel: Int, ClosedMetricLabel, Hashable {
    /// Answered.
    case ok
    /// Answered with an error.
    case error
    /// Not answered in time.
    case timeout
    /// The connection ended first.
    case disconnected

    /// `outcome`.
    public static let labelNames = ["outcome"]
}

/// The level of a log line.
public enum LogLevelLabel: Int, ClosedMetricLabel, Hashable {
    /// As swift-log names it.
    case trace
    /// As swift-log names it.
    case debug
    /// As swift-log names it.
    case info
    /// As swift-log names it.
    case notice
    /// As swift-log names it.
    case warning
    /// As swift-log names it.
    case error
    /// As swift-log names it.
    case critical

    /// `level`.
    public static let labelNames = ["level"]
}

/// What became of a span.
public enum SpanOutcomeLabel: Int, ClosedMetricLabel, Hashable {
    /// The collector has it.
    case exported
    /// The collector did not take it.
    case failed
    /// Too many waited.
    case dropped

    /// `outcome`.
    public static let labelNames = ["outcome"]
}
