/// Where a fault strikes.
public enum FaultRoute: UInt8, CaseIterable, Sendable, Hashable {
    /// Apple's `/3/device/…`.
    case apns = 1
    /// Google's `messages:send`.
    case fcm = 2
    /// Google's token endpoint.
    case oauth = 3

    /// The name in plans, ledgers and summaries.
    public var name: String {
        switch self {
        case .apns: "apns"
        case .fcm: "fcm"
        case .oauth: "oauth"
        }
    }

    /// The route of that name.
    public init?(name: String) {
        guard let match = Self.allCases.first(where: { $0.name == name }) else { return nil }
        self = match
    }
}

/// What goes wrong with a request.
public enum Fault: Hashable, Sendable {
    /// 429, with `Retry-After` if the plan has one.
    case tooManyRequests
    /// 503, with `Retry-After` if the plan has one.
    case unavailable
    /// 500.
    case internalError
    /// It is taken, and no answer ever comes.
    case silence
    /// RST_STREAM with REFUSED_STREAM: it was not looked at (RFC 9113 §8.7).
    case refusal
    /// It is taken, and then the connection breaks.
    case drop
    /// It is answered, and GOAWAY with its stream as the last one follows: whatever comes after it is not processed.
    case goAway
    /// It is answered, but only half of the body comes, and the stream stays open.
    case halfBody
    /// An answer word for word.
    case answer(status: Int, body: String)
    /// The answer that a provider has for its word: see ``ReasonRate``.
    case reason(String)
    /// What Instance ID says of tokens in a batch that it takes: of those that hold a text, or of all. It strikes nothing else.
    case result(String, tokensContaining: String?)

    /// The name in plans, ledgers and summaries.
    public var name: String {
        switch self {
        case .tooManyRequests: "too_many_requests"
        case .unavailable: "unavailable"
        case .internalError: "internal_error"
        case .silence: "silence"
        case .refusal: "refusal"
        case .drop: "drop"
        case .goAway: "go_away"
        case .halfBody: "half_body"
        case .answer: "answer"
        case .reason: "reason"
        case .result: "result"
        }
    }

    /// The name in counters: of answers with their status or word, such as "reason:BadDeviceToken" or "answer:502".
    package var label: String {
        switch self {
        case .answer(let status, _): "\(self.name):\(status)"
        case .reason(let word), .result(let word, _): "\(self.name):\(word)"
        default: self.name
        }
    }

    /// All that a name says enough of.
    static let named: [Fault] = [
        .tooManyRequests, .unavailable, .internalError, .silence, .refusal, .drop, .goAway, .halfBody,
    ]

    /// The number in packed ledger entries; 0 is no fault.
    var code: UInt8 {
        switch self {
        case .tooManyRequests: 1
        case .unavailable: 2
        case .internalError: 3
        case .silence: 4
        case .refusal: 5
        case .drop: 6
        case .goAway: 7
        case .answer: 8
        case .halfBody: 9
        case .reason: 10
        case .result: 11
        }
    }

    /// The name of a packed number, of which an entry has room for 31.
    static func name(code: UInt8) -> String? {
        switch code {
        case 8: "answer"
        case 10: "reason"
        case 11: "result"
        default: Self.named.first { $0.code == code }?.name
        }
    }
}

/// How `Retry-After` stands beside 429 and 503.
public enum RetryAfterForm: Hashable, Sendable {
    /// Not at all.
    case absent
    /// Seconds.
    case seconds(Int)
    /// The date so many seconds ahead.
    case date(seconds: Int)
    /// One and the other form in turn.
    case alternating(seconds: Int)
}
