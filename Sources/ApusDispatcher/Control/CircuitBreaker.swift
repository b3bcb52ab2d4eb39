internal import ApusCore

/// A circuit breaker for one route on one event loop: it stops sending while the provider fails. A pure state machine.
///
/// Failures are those of the provider: 5xx, or no answer. Answers about a message, a device or our own configuration
/// are not failures. Times are nanoseconds of one monotonic clock; random numbers are arguments.
struct CircuitBreaker: Sendable {
    /// The thresholds and waits of the circuit breaker.
    struct Rules: Hashable, Sendable {
        /// The minimum number of failures within the window that opens the circuit.
        var failuresMin = 20
        /// The circuit opens when more than this share of the answers within the window are failures.
        var failureShare = 0.5
        /// The length of the window. Answers are forgotten after one to two windows.
        var windowNanoseconds: UInt64 = 5_000_000_000
        /// The first wait. It doubles each time the circuit opens again without having closed.
        var waitMilliseconds: Int64 = 1_000
        /// The maximum wait, unless the provider asks for a longer one.
        var waitMillisecondsMax: Int64 = 30_000
        /// The number of probes sent after the wait. As many successes close the circuit.
        var probes = 3
        /// The time after the end of a wait from which a circuit that had nothing to probe with says nothing of the provider any more.
        var idleNanoseconds: UInt64 = 60_000_000_000
    }

    /// The states of the circuit.
    enum State: Hashable, Sendable {
        /// Everything is sent. Can become `open`.
        case closed
        /// Nothing is sent. Can become `halfOpen`.
        case open(until: UInt64)
        /// Up to `room` more probes may be sent, and `successes` probes succeeded. Can become `closed` or `open`.
        case halfOpen(room: Int, successes: Int)
    }

    /// The meaning of an answer for the circuit.
    enum Answer: Hashable, Sendable {
        /// The provider works.
        case success
        /// The provider fails. It may say when to come back.
        case failure(retryAfterMilliseconds: Int64?)
        /// The answer says nothing about the provider.
        case neutral

        /// Classifies the outcome of a delivery.
        ///
        /// - Parameter isOfOneOrigin: true when it came from one of many origins: its failures say nothing about the others.
        init(_ outcome: DeliveryOutcome, isOfOneOrigin: Bool = false) {
            switch outcome {
            case .accepted, .unregistered, .suspect, .rejected: self = .success
            case .lost: self = isOfOneOrigin ? .neutral : .failure(retryAfterMilliseconds: nil)
            case .misconfigured: self = .neutral
            case .deferred(let deferral):
                switch deferral.reason {
                case .providerUnavailable where !deferral.isFree && !isOfOneOrigin:
                    self = .failure(retryAfterMilliseconds: deferral.retryAfterMilliseconds)
                case .rateLimited: self = .success
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
    /// The number of times it has opened since it was last closed.
    private var openings = 0
    /// The time at which it first opened since it was last closed, and the end of its last wait; nil when it is closed.
    private var failing: (since: UInt64, waitsUntil: UInt64)?

    private struct Tally: Sendable {
        var successes = 0
        var failures = 0
    }

    init(_ rules: Rules = Rules()) { self.rules = rules }

    /// Returns the number of requests that may be sent now.
    mutating func room(now: UInt64) -> Int {
        switch self.state {
        case .closed: return .max
        case .open(let until):
            guard now >= until else { return 0 }
            self.state = .halfOpen(room: self.rules.probes, successes: 0)
            return self.rules.probes
        case .halfOpen(let room, _): return room
        }
    }

    /// Counts requests that were sent.
    mutating func use(_ count: Int) {
        guard case .halfOpen(let room, let successes) = self.state else { return }
        precondition(count <= room, "more probes than there may be")
        self.state = .halfOpen(room: room - count, successes: successes)
    }

    /// Records an answer, or its absence.
    ///
    /// - Parameter draw: a random number in 0..<1.
    mutating func record(_ answer: Answer, now: UInt64, draw: Double) {
        switch self.state {
        case .closed: self.count(answer, now, draw)
        case .open: break  // The answer belongs to a request sent before the circuit opened.
        case .halfOpen(let room, let successes):
            switch answer {
            case .success where successes + 1 >= self.rules.probes: self.close()
            case .success: self.state = .halfOpen(room: room, successes: successes + 1)
            case .neutral: self.state = .halfOpen(room: min(self.rules.probes, room + 1), successes: successes)
            case .failure(let retryAfter): self.open(now, retryAfter, draw)
            }
        }
    }

    /// Records an accepted message.
    mutating func recordAccepted() {
        if case .closed = self.state {
            self.current.successes += 1
        } else {
            self.record(.success, now: 0, draw: 0)
        }
    }

    /// Returns for how many nanoseconds the provider has been failing; nil when it works, as far as is known: a probe succeeded, or nothing
    /// was there to probe with for a while.
    func failingNanoseconds(now: UInt64) -> UInt64? {
        guard let failing, now < failing.waitsUntil + self.rules.idleNanoseconds else { return nil }
        if case .halfOpen(_, let successes) = self.state, successes > 0 { return nil }
        return now - min(now, failing.since)
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
        case .success: self.current.successes += 1
        case .failure(let retryAfter):
            self.current.failures += 1
            let failures = self.current.failures + self.previous.failures
            let answers = failures + self.current.successes + self.previous.successes
            guard failures >= self.rules.failuresMin,
                Double(failures) > Double(answers) * self.rules.failureShare
            else { return }
            self.open(now, retryAfter, draw)
        }
    }

    private mutating func open(_ now: UInt64, _ retryAfter: Int64?, _ draw: Double) {
        self.openings += 1
        let doublings = Int64(min(self.openings - 1, 30))
        let grown = min(self.rules.waitMillisecondsMax, self.rules.waitMilliseconds << doublings)
        // Half of the wait is fixed. The rest is random, so that the circuits of a fleet's event loops do not probe
        // together.
        let jittered = Int64(Double(grown) * (0.5 + 0.5 * draw))
        let wait = max(jittered, min(retryAfter ?? 0, TokenBucket.cutMillisecondsRange.upperBound))
        let until = now + UInt64(wait) * 1_000_000
        self.state = .open(until: until)
        self.failing = (self.failing?.since ?? now, until)
        (self.current, self.previous) = (Tally(), Tally())
    }

    private mutating func close() {
        self.state = .closed
        self.failing = nil
        self.openings = 0
        self.turnsAt = 0
    }
}
