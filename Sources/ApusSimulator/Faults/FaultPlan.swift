internal import ApusCore

/// The rates of faults on one route: probabilities per request, each 0...1, together at most 1.
public struct FaultRates: Hashable, Sendable {
    /// The probability of 429.
    public var tooManyRequests = 0.0
    /// The probability of 503.
    public var unavailable = 0.0
    /// The probability of 500.
    public var internalError = 0.0
    /// The probability of no answer.
    public var silence = 0.0
    /// The probability of REFUSED_STREAM.
    public var refusal = 0.0
    /// The probability that the connection breaks after the request was accepted.
    public var drop = 0.0
    /// The probability that only half of the answer is sent.
    public var halfBody = 0.0
    /// The probabilities of the provider's reasons.
    public var reasons: [ReasonRate] = []
    /// The probabilities of literal answers.
    public var answers: [AnswerRate] = []
    /// The probability of an answer that takes ``slowMilliseconds`` longer, in addition to any other fault.
    public var slow = 0.0
    /// The delay of a slow answer, in milliseconds.
    public var slowMilliseconds: Int64 = 10_000
    /// The form of GOAWAY.
    public var goAway = GoAwayForm()
    /// The delay of every answer, in milliseconds.
    public var delayMilliseconds: Int64 = 0
    /// The maximum random addition to the delay, in milliseconds.
    public var jitterMilliseconds: Int64 = 0
    /// The number of requests after which a connection gets GOAWAY; nil when it gets none.
    public var goAwayAfterRequests: Int?
    /// The age at which a connection gets GOAWAY with its next request, in milliseconds; nil when it gets none.
    public var goAwayEveryMilliseconds: Int64?

    /// Creates rates without faults.
    public init() {}

    /// The faults with their probabilities, in the order in which they are drawn.
    var laid: [(fault: Fault, probability: Double)] {
        [
            (.tooManyRequests, self.tooManyRequests), (.unavailable, self.unavailable),
            (.internalError, self.internalError), (.silence, self.silence), (.refusal, self.refusal),
            (.drop, self.drop), (.halfBody, self.halfBody),
        ] + self.reasons.map { (fault: Fault.reason($0.reason), probability: $0.probability) }
            + self.answers.map { (fault: Fault.answer(status: $0.status, body: $0.body), probability: $0.probability) }
    }

    /// True when each number is valid.
    var isValid: Bool {
        let probabilities = self.laid.map(\.probability)
        return probabilities.allSatisfy { $0 >= 0 && $0 <= 1 } && probabilities.reduce(0, +) <= 1 + 1e-9
            && self.answers.allSatisfy { (200...599).contains($0.status) }
            && (0...Self.delayMillisecondsMax).contains(self.delayMilliseconds)
            && (0...Self.delayMillisecondsMax).contains(self.jitterMilliseconds)
            && (0...1).contains(self.slow) && (0...Self.delayMillisecondsMax).contains(self.slowMilliseconds)
            && self.goAwayAfterRequests ?? 1 >= 1
            && (1...Self.delayMillisecondsMax).contains(self.goAwayEveryMilliseconds ?? 1)
    }

    /// The maximum delay and the maximum jitter: an hour.
    public static let delayMillisecondsMax: Int64 = 3_600_000
}

/// A plan of the faults on all routes. The same seed gives the same faults to the same numbers of requests.
public struct FaultPlan: Hashable, Sendable {
    /// The seed that selects the affected requests.
    public var seed: UInt64
    /// The rates of routes that have faults.
    private var rates: [FaultRoute: FaultRates] = [:]
    /// The form of `Retry-After`.
    public var retryAfter = RetryAfterForm.absent
    /// The phases with other rates; of those in force at one time the last one counts.
    public var phases: [FaultPhase] = []
    /// The quota of messages, at providers that have one; nil for none.
    public var quota: MessageQuota?

    /// Creates a plan without faults.
    public init(seed: UInt64 = 0) { self.seed = seed }

    /// The rates of a route.
    public subscript(_ route: FaultRoute) -> FaultRates {
        get { self.rates[route] ?? FaultRates() }
        set { self.rates[route] = newValue == FaultRates() ? nil : newValue }
    }

    /// True when every number is valid.
    public var isValid: Bool {
        self.rates.values.allSatisfy(\.isValid) && self.phases.allSatisfy(\.isValid)
            && self.quota?.isValid ?? true
    }

    /// True when there are no faults.
    public var isQuiet: Bool {
        self.rates.isEmpty && self.phases.isEmpty && self.quota == nil
    }

    /// Returns the rates of a route at a time, in milliseconds after the plan came into force.
    public func rates(_ route: FaultRoute, at milliseconds: Int64) -> FaultRates {
        self.phases.last { $0.contains(milliseconds) && $0.rates[route] != nil }?.rates[route] ?? self[route]
    }

    /// Returns the form of `Retry-After` beside a 429 of a quota that is renewed in the given seconds.
    func quotaRetryAfter(seconds: Int) -> RetryAfterForm {
        if let form = self.quota?.retryAfter { return form.form(seconds: seconds) }
        return switch self.retryAfter {
        case .absent, .seconds: .seconds(seconds)
        case .date: .date(seconds: seconds)
        case .alternating: .alternating(seconds: seconds)
        }
    }

    /// Returns the value of MAX_CONCURRENT_STREAMS at a time; nil when no phase sets it.
    public func streamsMax(at milliseconds: Int64) -> UInt32? {
        self.phases.last { $0.contains(milliseconds) && $0.streamsMax != nil }?.streamsMax
    }

    /// Draws the fault of a request by its number, counted from 0 per route over all connections.
    ///
    /// It is pure, so that a test can compute how many of a thousand requests fail.
    ///
    /// - Parameter milliseconds: the time since the plan came into force.
    public func draw(_ route: FaultRoute, number: UInt64, at milliseconds: Int64 = 0) -> FaultDraw {
        let rates = self.rates(route, at: milliseconds)
        var generator = SeededGenerator(
            seed: self.seed &+ UInt64(route.number) &* 0xd134_2543_de82_ef95 &+ number &* 0xaf25_1af3_b0f0_25b5
        )
        var rest = Double(generator.next() >> 11) * 0x1p-53
        var struck: Fault?
        for (fault, probability) in rates.laid where struck == nil {
            if rest < probability { struck = fault }
            rest -= probability
        }
        let jitter = rates.jitterMilliseconds
        let extra = jitter > 0 ? Int64(generator.next() % UInt64(jitter * 1_000 + 1)) : 0
        let isSlow = rates.slow > 0 && Double(generator.next() >> 11) * 0x1p-53 < rates.slow
        let more = isSlow ? rates.slowMilliseconds * 1_000 : 0
        return FaultDraw(fault: struck, delayMicroseconds: rates.delayMilliseconds * 1_000 + extra + more)
    }
}

/// The fault and the delay of one request.
public struct FaultDraw: Hashable, Sendable {
    /// The fault; nil when there is none.
    public var fault: Fault?
    /// The delay of the answer.
    public var delayMicroseconds: Int64
    /// The form of `Retry-After`; nil for the plan's.
    public var retryAfter: RetryAfterForm?

    /// Creates a draw.
    public init(fault: Fault?, delayMicroseconds: Int64, retryAfter: RetryAfterForm? = nil) {
        self.fault = fault
        self.delayMicroseconds = delayMicroseconds
        self.retryAfter = retryAfter
    }

    /// A draw without fault and delay.
    public static let none = FaultDraw(fault: nil, delayMicroseconds: 0)
}
