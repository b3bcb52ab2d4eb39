internal import ApusCore
internal import ApusStreams

/// What one event loop may send on a limiter, from the leases that it was given: plain counters.
///
/// Times are nanoseconds of one monotonic clock. Nothing may be sent before the first lease, nor when the last one is too old: what was
/// not heard from Redis for so long is not allowed.
struct LeasedPermits: Sendable {
    /// How long permits may be used: longer, and Redis has forgotten them.
    static let permitNanoseconds: UInt64 = 250_000_000
    /// How long "there is no limit" is believed.
    static let freedomNanoseconds: UInt64 = 750_000_000
    /// What bulk leaves to express: one part in so many of a lease.
    static let reserveParts = 10

    /// Why nothing may be sent.
    enum Hold: Hashable, Sendable {
        /// The route is stopped.
        case paused
        /// The provider has asked everybody to wait.
        case cut
        /// The rate is used up.
        case rate
        /// No lease is young enough.
        case unknown
    }

    /// Permits in hand, the reserve included.
    private(set) var held = 0
    /// Of those, for express alone.
    private(set) var reserve = 0
    /// The last lease.
    private(set) var lease = Lease(permits: 0)
    private var goodUntil: UInt64 = 0
    private var cutUntil: UInt64 = 0
    private var used = 0
    private var refusals = 0
    private var cutMilliseconds: Int64 = 0
    /// What the provider calls wrong with our set-up, until Redis is told.
    private var fault: RouteFault?
    /// What the provider's partner calls wrong, or that it calls nothing wrong any more, until Redis is told.
    private var partnerFault = ""
    /// Whether it was heard, and no lease since says whether the route is stopped for it.
    private var isFaulty = false

    // MARK: Using

    /// How many a lane may send now.
    func available(_ lane: Lane, now: UInt64) -> Int {
        guard now < self.goodUntil, now >= self.cutUntil, !self.isPaused else { return 0 }
        guard self.lease.permits != nil else { return .max }
        return lane == .express ? self.held : max(0, self.held - self.reserve)
    }

    /// Why a lane may send nothing now; nil: it may.
    func hold(_ lane: Lane, now: UInt64) -> Hold? {
        if now < self.cutUntil { return .cut }
        guard now < self.goodUntil else { return .unknown }
        if self.isPaused { return .paused }
        return self.available(lane, now: now) == 0 ? .rate : nil
    }

    /// Whether it is known that nothing may be sent for a while.
    func isClosed(now: UInt64) -> Bool {
        now < self.cutUntil || self.isFaulty || now < self.goodUntil && self.lease.isPaused
    }

    /// Whether somebody has stopped the route, as far as is known.
    var isPaused: Bool { self.lease.isPaused || self.isFaulty }

    /// So many were sent.
    mutating func use(_ count: Int) {
        self.used += count
        guard self.lease.permits != nil else { return }
        precondition(count <= self.held, "more was sent than was allowed")
        self.held -= count
        self.reserve = min(self.reserve, self.held)
    }

    // MARK: Leases

    /// What to ask for, when so many could be sent at once.
    mutating func request(waiting: Int, now: UInt64) -> LeaseRequest {
        self.expire(now: now)
        var request = LeaseRequest()
        request.use = waiting
        // What was used since the last time is what will be used until the next.
        request.ahead = self.used
        request.held = self.held - self.reserve
        request.used = self.used
        request.refusals = self.refusals
        request.cutMilliseconds = self.cutMilliseconds
        request.fault = self.fault
        request.partnerFault = self.partnerFault
        (self.used, self.refusals, self.cutMilliseconds, self.fault) = (0, 0, 0, nil)
        self.partnerFault = ""
        return request
    }

    /// A lease came. Its age counts from when it was asked for.
    mutating func granted(_ lease: Lease, askedAt: UInt64, now: UInt64) {
        self.expire(now: now)
        let permits = lease.permits ?? 0
        self.held += permits
        if permits > 0 { self.reserve = min(self.held, max(self.reserve, permits / Self.reserveParts)) }
        if lease.permits == nil { (self.held, self.reserve) = (0, 0) }
        self.lease = lease
        // Redis knows, and has said since whether the route is stopped: perhaps it goes on already.
        if self.fault == nil { self.isFaulty = false }
        let lifetime = lease.permits == nil ? Self.freedomNanoseconds : Self.permitNanoseconds
        self.goodUntil = max(self.goodUntil, askedAt + lifetime)
        if lease.cutMilliseconds > 0 {
            self.cutUntil = now + UInt64(lease.cutMilliseconds) * 1_000_000
        } else if self.refusals == 0 {
            self.cutUntil = 0
        }
        if now >= self.goodUntil { self.expire(now: now) }
    }

    /// No lease came: what was to be told is told with the next request.
    mutating func failed(_ request: LeaseRequest) {
        self.used += request.used
        self.refusals += request.refusals
        self.cutMilliseconds = max(self.cutMilliseconds, request.cutMilliseconds)
        self.fault = self.fault ?? request.fault
        if self.partnerFault.isEmpty { self.partnerFault = request.partnerFault }
    }

    /// Whether something was heard that Redis does not know yet.
    var hasNews: Bool { self.refusals > 0 || self.fault != nil || !self.partnerFault.isEmpty }

    private mutating func expire(now: UInt64) {
        if now >= self.goodUntil { (self.held, self.reserve) = (0, 0) }
    }

    // MARK: Refusals

    /// `Retry-After` below this counts as this, above the other as that.
    static let cutMillisecondsRange: ClosedRange<Int64> = 1_000...3_600_000

    /// The provider calls our set-up wrong: nothing more goes out before the route is let go on.
    mutating func heard(_ fault: RouteFault) {
        self.fault = fault
        self.isFaulty = true
    }

    /// The provider's own partner does not take our credential, in that word, or takes it again (nil): whoever needs it waits.
    mutating func heard(partnerFault: String?) {
        self.partnerFault = partnerFault.map { $0.isEmpty ? "unknown" : $0 } ?? LeaseRequest.partnerMended
    }

    /// The provider answered. Only a refusal that means the whole project counts: the rate of all is too high.
    ///
    /// - Parameter draw: a random number in 0..<1: up to a fifth more than `Retry-After`, so that fleets do not come back together.
    mutating func heard(_ outcome: DeliveryOutcome, now: UInt64, draw: Double) {
        guard case .deferred(let deferral) = outcome, deferral.reason == .rateLimited, deferral.scope == .route else {
            return
        }
        self.refusals += 1
        guard let asked = deferral.retryAfterMilliseconds else { return }
        let wait = min(max(asked, Self.cutMillisecondsRange.lowerBound), Self.cutMillisecondsRange.upperBound)
        // Everything that was on the wire comes back with the same wish; it is drawn for once.
        guard self.cutUntil < now + UInt64(wait) * 1_000_000 else { return }
        let cut = wait + Int64(Double(wait) * 0.2 * draw)
        self.cutMilliseconds = max(self.cutMilliseconds, cut)
        self.cutUntil = now + UInt64(cut) * 1_000_000
    }
}
