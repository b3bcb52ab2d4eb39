/// The form of GOAWAY. Its debug data is JSON with a reason, as providers send it.
public struct GoAwayForm: Hashable, Sendable {
    /// The stream that GOAWAY names as the last one that was processed (RFC 9113 §6.8).
    public enum LastStream: String, CaseIterable, Hashable, Sendable {
        /// The request's own stream: the request is answered.
        case this
        /// The stream before it: the request is not processed, and may be sent again elsewhere.
        case before
        /// No stream: no request of the connection counts as processed. After an accepted request whose answer is
        /// delayed or never comes, `before` is sent instead: otherwise the ledger would count requests that GOAWAY
        /// disowns.
        case none
    }

    /// The reason in the debug data.
    public var reason = "Shutdown"
    /// The last stream.
    public var lastStream = LastStream.this

    /// Creates a GOAWAY for `Shutdown`, after the request's own stream.
    public init() {}
}

/// A period of time with its own rates of faults.
public struct FaultPhase: Hashable, Sendable {
    /// The beginning, in milliseconds after the plan came into force.
    public var fromMilliseconds: Int64
    /// The end, in milliseconds after the plan came into force; nil when it does not end.
    public var untilMilliseconds: Int64?
    /// The rates that replace the plan's own.
    public var rates: [FaultRoute: FaultRates]
    /// The value of MAX_CONCURRENT_STREAMS in the phase, which connections receive with their next request; nil for no change.
    public var streamsMax: UInt32?

    /// Creates a phase that changes nothing.
    public init(fromMilliseconds: Int64, untilMilliseconds: Int64? = nil) {
        self.fromMilliseconds = fromMilliseconds
        self.untilMilliseconds = untilMilliseconds
        self.rates = [:]
    }

    /// Returns true when the phase is in force.
    func contains(_ milliseconds: Int64) -> Bool {
        milliseconds >= self.fromMilliseconds && milliseconds < self.untilMilliseconds ?? .max
    }

    var isValid: Bool {
        self.fromMilliseconds >= 0 && self.untilMilliseconds ?? .max > self.fromMilliseconds
            && self.rates.values.allSatisfy(\.isValid) && self.streamsMax ?? 1 >= 1
    }
}

/// A quota of messages per window of time; further ones are answered with 429. Answers of 429, by quota or by another
/// fault, do not count against it, all others do.
public struct MessageQuota: Hashable, Sendable {
    /// The forms of the `Retry-After` that names the start of the next window.
    public enum RetryAfter: String, CaseIterable, Hashable, Sendable {
        /// Seconds.
        case seconds
        /// A date.
        case date
        /// Both forms in turn.
        case alternating
        /// There is no header.
        case none

        /// Returns the form for a time the given seconds ahead.
        func form(seconds: Int) -> RetryAfterForm {
            switch self {
            case .seconds: .seconds(seconds)
            case .date: .date(seconds: seconds)
            case .alternating: .alternating(seconds: seconds)
            case .none: .absent
            }
        }
    }

    /// The maximum number of messages in a window.
    public var messages: Int
    /// The length of a window; the first begins with the plan.
    public var windowMilliseconds: Int64
    /// The form of `Retry-After`; nil for the plan's, or seconds if the plan has none.
    public var retryAfter: RetryAfter?

    /// Creates a quota.
    public init(messages: Int, windowMilliseconds: Int64) {
        self.messages = messages
        self.windowMilliseconds = windowMilliseconds
    }

    var isValid: Bool {
        self.messages >= 0 && (1...FaultRates.delayMillisecondsMax).contains(self.windowMilliseconds)
    }
}

/// A provider's reason for a refusal, and its probability.
public struct ReasonRate: Hashable, Sendable {
    /// A reason of the route, such as `BadDeviceToken` or `QUOTA_EXCEEDED`.
    public var reason: String
    /// The probability, 0...1.
    public var probability: Double

    /// Creates a rate.
    public init(_ reason: String, _ probability: Double) {
        self.reason = reason
        self.probability = probability
    }
}

/// A literal answer, and its probability.
public struct AnswerRate: Hashable, Sendable {
    /// The status, 200...599.
    public var status: Int
    /// The body: JSON if it begins with a brace, otherwise a page of HTML.
    public var body: String
    /// The probability, 0...1.
    public var probability: Double

    /// Creates a rate.
    public init(status: Int, body: String, _ probability: Double) {
        self.status = status
        self.body = body
        self.probability = probability
    }
}
