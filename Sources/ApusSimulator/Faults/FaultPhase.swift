/// How GOAWAY is said.
///
/// Apple's debug data is JSON with a reason from the same list as its answers have
/// (https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns).
public struct GoAwayForm: Hashable, Sendable {
    /// Which stream it names as the last one that was processed (RFC 9113 §6.8).
    public enum LastStream: String, CaseIterable, Hashable, Sendable {
        /// The request's own: it is answered.
        case this
        /// The one before: the request is not processed, and may be sent again elsewhere.
        case before
        /// None: nothing of the connection counts as processed. As Apple says it to a certificate of the other environment. It is said
        /// as `before` once a request was accepted whose answer waits or never comes: the ledger would count what is disowned.
        case none
    }

    /// Apple's word.
    public var reason = "Shutdown"
    /// The last stream.
    public var lastStream = LastStream.this

    /// `Shutdown`, after the request's own stream.
    public init() {}
}

/// A time in which other things go wrong than before and after.
public struct FaultPhase: Hashable, Sendable {
    /// Milliseconds after the plan came into force at which it begins.
    public var fromMilliseconds: Int64
    /// And at which it ends; nil: never.
    public var untilMilliseconds: Int64?
    /// What goes wrong on these routes, in place of the plan's own rates.
    public var rates: [FaultRoute: FaultRates]
    /// MAX_CONCURRENT_STREAMS meanwhile: connections learn it with their next request; nil: as ever.
    public var streamsMax: UInt32?

    /// A phase in which nothing is changed.
    public init(fromMilliseconds: Int64, untilMilliseconds: Int64? = nil) {
        self.fromMilliseconds = fromMilliseconds
        self.untilMilliseconds = untilMilliseconds
        self.rates = [:]
    }

    /// Whether it is in force.
    func contains(_ milliseconds: Int64) -> Bool {
        milliseconds >= self.fromMilliseconds && milliseconds < self.untilMilliseconds ?? .max
    }

    var isValid: Bool {
        self.fromMilliseconds >= 0 && self.untilMilliseconds ?? .max > self.fromMilliseconds
            && self.rates.values.allSatisfy(\.isValid) && self.streamsMax ?? 1 >= 1
    }
}

/// How many messages Google takes in each window; the rest is answered with 429 `QUOTA_EXCEEDED`. Answers of 429, by quota or by lot,
/// use nothing up, all others do.
///
/// Google: https://firebase.google.com/docs/cloud-messaging/throttling-and-quotas
public struct MessageQuota: Hashable, Sendable {
    /// How `Retry-After` tells when the next window begins.
    public enum RetryAfter: String, CaseIterable, Hashable, Sendable {
        /// Seconds.
        case seconds
        /// A date.
        case date
        /// One and the other in turn.
        case alternating
        /// Not at all.
        case none

        /// That form for a time so many seconds ahead.
        func form(seconds: Int) -> RetryAfterForm {
            switch self {
            case .seconds: .seconds(seconds)
            case .date: .date(seconds: seconds)
            case .alternating: .alternating(seconds: seconds)
            case .none: .absent
            }
        }
    }

    /// Messages in a window.
    public var messages: Int
    /// Length of a window; the first begins with the plan.
    public var windowMilliseconds: Int64
    /// nil: as the plan says it elsewhere, and in seconds when that is not at all.
    public var retryAfter: RetryAfter?

    /// A quota.
    public init(messages: Int, windowMilliseconds: Int64) {
        self.messages = messages
        self.windowMilliseconds = windowMilliseconds
    }

    var isValid: Bool {
        self.messages >= 0 && (1...FaultRates.delayMillisecondsMax).contains(self.windowMilliseconds)
    }
}

/// A provider's own word for "no", and how often it comes.
public struct ReasonRate: Hashable, Sendable {
    /// Such as `BadDeviceToken` or `QUOTA_EXCEEDED`: one of ``FaultAnswers`` for the route.
    public var reason: String
    /// 0...1.
    public var probability: Double

    /// A rate.
    public init(_ reason: String, _ probability: Double) {
        self.reason = reason
        self.probability = probability
    }
}

/// An answer word for word, and how often it comes.
public struct AnswerRate: Hashable, Sendable {
    /// 200...599.
    public var status: Int
    /// As it goes out: JSON if it begins with a brace, else a page of HTML.
    public var body: String
    /// 0...1.
    public var probability: Double

    /// A rate.
    public init(status: Int, body: String, _ probability: Double) {
        self.status = status
        self.body = body
        self.probability = probability
    }
}
