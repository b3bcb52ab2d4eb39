internal import ApusCore

/// How often what goes wrong on one route: probabilities of a request, each 0...1, together at most 1.
public struct FaultRates: Hashable, Sendable {
    /// Of 429.
    public var tooManyRequests = 0.0
    /// Of 503.
    public var unavailable = 0.0
    /// Of 500.
    public var internalError = 0.0
    /// Of no answer at all.
    public var silence = 0.0
    /// Of REFUSED_STREAM.
    public var refusal = 0.0
    /// Of a connection that breaks after taking the request.
    public var drop = 0.0
    /// Of an answer of which only half comes.
    public var halfBody = 0.0
    /// Of answers in the provider's own words.
    public var reasons: [ReasonRate] = []
    /// Of answers word for word.
    public var answers: [AnswerRate] = []
    /// Of an answer that takes ``slowMilliseconds`` longer; beside whatever else goes wrong.
    public var slow = 0.0
    /// How much longer that is, in milliseconds.
    public var slowMilliseconds: Int64 = 10_000
    /// How GOAWAY is said.
    public var goAway = GoAwayForm()
    /// How long every answer takes, in milliseconds.
    public var delayMilliseconds: Int64 = 0
    /// How much longer it may take, drawn evenly, in milliseconds.
    public var jitterMilliseconds: Int64 = 0
    /// After how many requests a connection gets GOAWAY; nil: never.
    public var goAwayAfterRequests: Int?
    /// How old a connection becomes until it gets GOAWAY with its next request, in milliseconds; nil: as old as it likes.
    public var goAwayEveryMilliseconds: Int64?

    /// Nothing goes wrong.
    public init() {}

    /// The probabilities in the order they are laid side by side.
    var laid: [(fault: Fault, probability: Double)] {
        [
            (.tooManyRequests, self.tooManyRequests), (.unavailable, self.unavailable),
            (.internalError, self.internalError), (.silence, self.silence), (.refusal, self.refusal),
            (.drop, self.drop), (.halfBody, self.halfBody),
        ] + self.reasons.map { (fault: Fault.reason($0.reason), probability: $0.probability) }
            + self.answers.map { (fault: Fault.answer(status: $0.status, body: $0.body), probability: $0.probability) }
    }

    /// Whether each number is possible.
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

    /// Longest delay and longest jitter: an hour.
    public static let delayMillisecondsMax: Int64 = 3_600_000
}

/// What goes wrong where, and how often. The same seed gives the same faults to the same numbers of requests.
public struct FaultPlan: Hashable, Sendable {
    /// Which requests are struck.
    public var seed: UInt64
    /// At Apple's.
    public var apns = FaultRates()
    /// At Google's.
    public var fcm = FaultRates()
    /// At Google's token endpoint.
    public var oauth = FaultRates()
    /// How `Retry-After` is given.
    public var retryAfter = RetryAfterForm.absent
    /// Times in which other things go wrong; of those that hold at one time the last one counts.
    public var phases: [FaultPhase] = []
    /// How many messages Google takes; nil: as many as come.
    public var quota: MessageQuota?

    /// Nothing goes wrong.
    public init(seed: UInt64 = 0) { self.seed = seed }

    /// The rates of a route.
    public subscript(_ route: FaultRoute) -> FaultRates {
        get {
            switch route {
            case .apns: self.apns
            case .fcm: self.fcm
            case .oauth: self.oauth
            }
        }
        set {
            switch route {
            case .apns: self.apns = newValue
            case .fcm: self.fcm = newValue
            case .oauth: self.oauth = newValue
            }
        }
    }

    /// Whether every number is possible.
    public var isValid: Bool {
        FaultRoute.allCases.allSatisfy { self[$0].isValid } && self.phases.allSatisfy(\.isValid)
            && self.quota?.isValid ?? true
    }

    /// Whether nothing can go wrong.
    public var isQuiet: Bool {
        FaultRoute.allCases.allSatisfy { self[$0] == FaultRates() } && self.phases.isEmpty && self.quota == nil
    }

    /// The rates of a route, so many milliseconds after the plan came into force.
    public func rates(_ route: FaultRoute, at milliseconds: Int64) -> FaultRates {
        self.phases.last { $0.contains(milliseconds) && $0.rates[route] != nil }?.rates[route] ?? self[route]
    }

    /// How `Retry-After` stands beside a 429 of the quota that holds for so many seconds more.
    func quotaRetryAfter(seconds: Int) -> RetryAfterForm {
        if let form = self.quota?.retryAfter { return form.form(seconds: seconds) }
        return switch self.retryAfter {
        case .absent, .seconds: .seconds(seconds)
        case .date: .date(seconds: seconds)
        case .alternating: .alternating(seconds: seconds)
        }
    }

    /// MAX_CONCURRENT_STREAMS at that time; nil: as ever.
    public func streamsMax(at milliseconds: Int64) -> UInt32? {
        self.phases.last { $0.contains(milliseconds) && $0.streamsMax != nil }?.streamsMax
    }

    /// What befalls the request of that number, counted from 0 per route over all connections.
    ///
    /// Pure: so a test can say beforehand how many of a thousand requests fail.
    ///
    /// - Parameter milliseconds: since the plan came into force.
    public func draw(_ route: FaultRoute, number: UInt64, at milliseconds: Int64 = 0) -> FaultDraw {
        let rates = self.rates(route, at: milliseconds)
        var lots = SeededGenerator(
            seed: self.seed &+ UInt64(route.rawValue) &* 0xd134_2543_de82_ef95 &+ number &* 0xaf25_1af3_b0f0_25b5
        )
        var rest = Double(lots.next() >> 11) * 0x1p-53
        var struck: Fault?
        for (fault, probability) in rates.laid where struck == nil {
            if rest < probability { struck = fault }
            rest -= probability
        }
        let jitter = rates.jitterMilliseconds
        let extra = jitter > 0 ? Int64(lots.next() % UInt64(jitter * 1_000 + 1)) : 0
        let isSlow = rates.slow > 0 && Double(lots.next() >> 11) * 0x1p-53 < rates.slow
        let more = isSlow ? rates.slowMilliseconds * 1_000 : 0
        return FaultDraw(fault: struck, delayMicroseconds: rates.delayMilliseconds * 1_000 + extra + more)
    }
}

/// What befalls one request.
public struct FaultDraw: Hashable, Sendable {
    /// nil: none, it is judged as ever.
    public var fault: Fault?
    /// How long its answer waits.
    public var delayMicroseconds: Int64
    /// How `Retry-After` stands there; nil: as the plan says.
    public var retryAfter: RetryAfterForm?

    /// What befalls a request.
    public init(fault: Fault?, delayMicroseconds: Int64, retryAfter: RetryAfterForm? = nil) {
        self.fault = fault
        self.delayMicroseconds = delayMicroseconds
        self.retryAfter = retryAfter
    }

    /// Nothing befalls it.
    public static let none = FaultDraw(fault: nil, delayMicroseconds: 0)
}
