/// The form of GOAWAY. Its debug data is JSON with a reason, as providers send it.
public struct GoAwayForm: Hashable, Sendable {
    /// The stream that it names as the last one that was processed (RFC 9113 §6.8).
    public enum LastStream: String, CaseIterable, Hashable, Sendable {
        /// The request's own: it is answered.
        case this
        /// The one before: the request is not processed, and may be sent again elsewhere.
        case before
        /// None: no request of the connection counts as processed. Once a request was accepted whose answer is held back or never
        /// comes, `before` is sent instead: the ledger would count what is disowned.
        case none
    }

    /// The reason in the debug data.
    public var reason = "Shutdown"
    /// The last stream.
    public var lastStream = LastStream.this

    /// Creates a GOAWAY for `Shutdown`, after the request's own stream.
    public init() {}
}

/// A period of time with other rates of faults than before and after.
public struct FaultPhase: Hashable, Sendable {
    /// The beginning, in milliseconds after the plan came into force.
    public var fromMilliseconds: Int64
    /// The end, in milliseconds after the plan came into force; nil when it does not end.
    public var untilMilliseconds: Int64?
    /// The rates that take the place of the plan's own.
    public var rates: [FaultRoute: FaultRates]
    /// MAX_CONCURRENT_STREAMS meanwhile, which connections are told with their next request; nil when it does not change.
    public var streamsMax: UInt32?

    /// Creates a phase that changes nothing.
    public init(fromMilliseconds: Int64, untilMilliseconds: Int64? = nil) {
        self.fromMilliseconds = fromMilliseconds
        self.untilMilliseconds = untilMilliseconds
        self.rates = [:]
    }

    /// Returns true when it is in force.
    func contains(_ milliseconds: Int64) -> Bool {
        milliseconds >= self.fromMilliseconds && milliseconds < self.untilMilliseconds ?? .max
    }

    var isValid: Bool {
        self.fromMilliseconds >= 0 && self.untilMilliseconds ?? .max > self.fromMilliseconds
            && self.rates.values.allSatisfy(\.isValid) && self.streamsMax ?? 1 >= 1
    }
}

/// A quota of messages per window of time; the rest is answered with 429. Answers of 429, by quota or by another fault, use nothing up,
/// all others do.
public struct MessageQuota: Hashable, Sendable {
    /// The form of the `Retry-After` that tells when the next window begins.
    public enum RetryAfter: String, CaseIterable, Hashable, Sendable {
        /// Seconds.
        case seconds
        /// A date.
        case date
        /// Both in turn.
        case alternating
        /// There is none.
        case none

        /// The form for a time so many seconds ahead.
        func form(seconds: Int) -> RetryAfterForm {
            switch self {
            case .seconds: .seconds(seconds)
            case .date: .date(seconds: seconds)
            case .alternating: .alternating(seconds: seconds)
            case .none: .absent
            }
        }
    }

    /// The most messages in a window.
    public var messages: Int
    /// The length of a window; the first begins with the plan.
    public var windowMilliseconds: Int64
    /// The form of `Retry-After`; nil when the plan's, or seconds if the plan has none.
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
    /// One of the reasons of the route, such as `BadDeviceToken` or `QUOTA_EXCEEDED`.
    public var reason: String
    /// 0...1.
    public var probability: Double

    /// Creates a rate.
    public init(_ reason: String, _ probability: Double) {
        self.reason = reason
        self.probability = probability
    }
}

/// An answer word for word, and its probability.
public struct AnswerRate: Hashable, Sendable {
    /// 200...599.
    public var status: Int
    /// The body: JSON if it begins with a brace, else a page of HTML.
    public var body: String
    /// 0...1.
    public var probability: Double

    /// Creates a rate.
    public init(status: Int, body: String, _ probability: Double) {
        self.status = status
        self.body = body
        self.probability = probability
    }
}
