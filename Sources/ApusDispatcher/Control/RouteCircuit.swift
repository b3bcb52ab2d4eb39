internal import ApusCore

/// Spares a provider in trouble, and us the waiting for it: a pure machine of one route on one event loop.
///
/// Trouble is what lies with the provider: 5xx, or no answer. What an answer says of a message, a device or our own configuration counts for
/// nothing. Times are nanoseconds of one monotonic clock; chance comes in.
struct RouteCircuit: Sendable {
    /// When it opens, how long it waits, how it closes.
    struct Rules: Hashable, Sendable {
        /// Troubles within the window below which it never opens.
        var troublesMin = 20
        /// It opens when more than this share of the answers within the window are trouble.
        var troubleShare = 0.5
        /// Answers older than one to two windows are forgotten.
        var windowNanoseconds: UInt64 = 5_000_000_000
        /// The first wait, doubled with every probe that fails.
        var waitMilliseconds: Int64 = 1_000
        /// Waits grow up to here, unless the provider asks for more.
        var waitMillisecondsMax: Int64 = 30_000
        /// Requests that are tried after the wait; as many good answers close it.
        var probes = 3
    }

    /// Where it is.
    enum State: Hashable, Sendable {
        /// Everything goes out. Can become `open`.
        case closed
        /// Nothing goes out. Can become `halfOpen`.
        case open(until: UInt64)
        /// So many more may go out as probes, so many answers were good. Can become `closed` or `open`.
        case halfOpen(room: Int, good: Int)
    }

    /// What an answer says of the provider.
    enum Answer: Hashable, Sendable {
        /// It works.
        case good
        /// It does not; it may say when to come back.
        case trouble(retryAfterMilliseconds: Int64?)
        /// Nothing.
        case neutral

        /// Of what an answer means.
        init(_ outcome: DeliveryOutcome) {
            switch outcome {
            case .accepted, .unregistered, .suspect, .rejected: self = .good
            case .lost: self = .trouble(retryAfterMilliseconds: nil)
            case .misconfigured: self = .neutral
            case .deferred(let deferral):
                switch deferral.reason {
                case .providerUnavailable where !deferral.isFree:
                    self = .trouble(retryAfterMilliseconds: deferral.retryAfterMilliseconds)
                case .rateLimited: self = .good
                default: self = .neutral
                }
            }
        }
    }

    private(set) var state = State.closed
    private let rules: Rules
    private var current = Tally()
    private var previous = Tally()
    private var turnsAt: UInt64 = 0
    /// How often it has opened without closing.
    private var openings = 0

    private struct Tally: Sendable {
        var good = 0
        var troubles = 0
    }

    init(_ rules: Rules = Rules()) { self.rules = rules }

    /// How many may go out now.
    mutating func room(now: UInt64) -> Int {
        switch self.state {
        case .closed: return .max
        case .open(let until):
            guard now >= until else { return 0 }
            self.state = .halfOpen(room: self.rules.probes, good: 0)
            return self.rules.probes
        case .halfOpen(let room, _): return room
        }
    }

    /// So many went out.
    mutating func use(_ count: Int) {
        guard case .halfOpen(let room, let good) = self.state else { return }
        precondition(count <= room, "more probes than there may be")
        self.state = .halfOpen(room: room - count, good: good)
    }

    /// An answer came, or none will.
    ///
    /// - Parameter draw: a random number in 0..<1.
    mutating func record(_ answer: Answer, now: UInt64, draw: Double) {
        switch self.state {
        case .closed: self.count(answer, now, draw)
        case .open: break  // An answer to what had gone out before.
        case .halfOpen(let room, let good):
            switch answer {
            case .good where good + 1 >= self.rules.probes: self.close()
            case .good: self.state = .halfOpen(room: room, good: good + 1)
            case .neutral: self.state = .halfOpen(room: min(self.rules.probes, room + 1), good: good)
            case .trouble(let retryAfter): self.open(now, retryAfter, draw)
            }
        }
    }

    /// A good answer: the path of nearly all.
    mutating func recordAccepted() {
        if case .closed = self.state {
            self.current.good += 1
        } else {
            self.record(.good, now: 0, draw: 0)
        }
    }

    private mutating func count(_ answer: Answer, _ now: UInt64, _ draw: Double) {
        if now >= self.turnsAt {
            let isLate = now >= self.turnsAt + self.rules.windowNanoseconds
            self.previous = isLate ? Tally() : self.current
            self.current = Tally()
            self.turnsAt = now + self.rules.windowNanoseconds
        }
        switch answer {
        case .neutral: break
        case .good: self.current.good += 1
        case .trouble(let retryAfter):
            self.current.troubles += 1
            let troubles = self.current.troubles + self.previous.troubles
            let answers = troubles + self.current.good + self.previous.good
            guard troubles >= self.rules.troublesMin,
                Double(troubles) > Double(answers) * self.rules.troubleShare
            else { return }
            self.open(now, retryAfter, draw)
        }
    }

    private mutating func open(_ now: UInt64, _ retryAfter: Int64?, _ draw: Double) {
        self.openings += 1
        let doublings = Int64(min(self.openings - 1, 30))
        let grown = min(self.rules.waitMillisecondsMax, self.rules.waitMilliseconds << doublings)
        // Half of it for certain: every event loop of a fleet has its own circuit, and they should not probe together.
        let jittered = Int64(Double(grown) * (0.5 + 0.5 * draw))
        let wait = max(jittered, min(retryAfter ?? 0, TokenBudget.cutMillisecondsRange.upperBound))
        self.state = .open(until: now + UInt64(wait) * 1_000_000)
        (self.current, self.previous) = (Tally(), Tally())
    }

    private mutating func close() {
        self.state = .closed
        self.openings = 0
        self.turnsAt = 0
    }
}
