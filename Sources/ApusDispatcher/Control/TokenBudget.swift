internal import ApusCore
internal import ApusStreams

/// Counts what one event loop may send on a limiter: a token bucket that is filled by leases of a fleet's common one.
///
/// Times are nanoseconds of one monotonic clock. Nothing may be sent before the first lease, nor when the last one is too old: without an
/// answer of Redis for so long, nothing is allowed.
struct TokenBudget: Sendable {
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
        /// Redis has granted no lease for too long.
        case unknown
    }

    /// Permits in hand, the reserve included.
    private(set) var held = 0
    /// Of those, for express alone.
    private(set) var reserve = 0
    /// The last lease.
    private(set) var lease = RateLimitGrant(permits: 0)
    private var goodUntil: UInt64 = 0
    private var cutUntil: UInt64 = 0
    private var used = 0
    private var refusals = 0
    private var pauseMilliseconds: Int64 = 0
    /// What the provider calls wrong with our configuration, until Redis has it.
    private var fault: RouteFault?
    /// What a third party behind the provider calls wrong, or that it calls nothing wrong any more, until Redis has it.
    private var thirdPartyFault = ""
    /// Whether a fault was recorded, and no lease since says whether the route is stopped for it.
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
    mutating func request(waiting: Int, now: UInt64) -> RateLimitRequest {
        self.expire(now: now)
        var request = RateLimitRequest()
        request.use = waiting
        // What was used since the last time is what will be used until the next.
        request.ahead = self.used
        request.held = self.held - self.reserve
        request.used = self.used
        request.refusals = self.refusals
        request.pauseMilliseconds = self.pauseMilliseconds
        request.fault = self.fault
        request.thirdPartyAuthError = self.thirdPartyFault
        (self.used, self.refusals, self.pauseMilliseconds, self.fault) = (0, 0, 0, nil)
        self.thirdPartyFault = ""
        return request
    }

    /// A lease came. Its age counts from when it was asked for.
    mutating func granted(_ lease: RateLimitGrant, askedAt: UInt64, now: UInt64) {
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
        if lease.pauseMilliseconds > 0 {
            self.cutUntil = now + UInt64(lease.pauseMilliseconds) * 1_000_000
        } else if self.refusals == 0 {
            self.cutUntil = 0
        }
        if now >= self.goodUntil { self.expire(now: now) }
    }

    /// Records that no lease came: what was to be reported goes with the next request.
    mutating func failed(_ request: RateLimitRequest) {
        self.used += request.used
        self.refusals += request.refusals
        self.pauseMilliseconds = max(self.pauseMilliseconds, request.pauseMilliseconds)
        self.fault = self.fault ?? request.fault
        if self.thirdPartyFault.isEmpty { self.thirdPartyFault = request.thirdPartyAuthError }
    }

    /// Whether something was recorded that Redis does not know yet.
    var hasNews: Bool { self.refusals > 0 || self.fault != nil || !self.thirdPartyFault.isEmpty }

    private mutating func expire(now: UInt64) {
        if now >= self.goodUntil { (self.held, self.reserve) = (0, 0) }
    }

    // MARK: Refusals

    /// `Retry-After` below this counts as this, above the other as that.
    static let cutMillisecondsRange: ClosedRange<Int64> = 1_000...3_600_000

    /// Records that the provider calls our configuration wrong: nothing more goes out before the route goes on.
    mutating func record(_ fault: RouteFault) {
        self.fault = fault
        self.isFaulty = true
    }

    /// Records that a third party behind the provider does not take our credential, in that word, or takes it again (nil): whoever needs it waits.
    mutating func record(thirdPartyFault: String?) {
        self.thirdPartyFault =
            thirdPartyFault.map { $0.isEmpty ? "unknown" : $0 } ?? RateLimitRequest.thirdPartyAuthRestored
    }

    /// The provider answered. Only a refusal that means the whole project counts: the rate of all is too high.
    ///
    /// - Parameter draw: a random number in 0..<1: up to a fifth more than `Retry-After`, so that fleets do not come back together.
    mutating func record(_ outcome: DeliveryOutcome, now: UInt64, draw: Double) {
        guard case .deferred(let deferral) = outcome, deferral.reason == .rateLimited, deferral.scope == .route else {
            return
        }
        self.refusals += 1
        guard let asked = deferral.retryAfterMilliseconds else { return }
        let wait = min(max(asked, Self.cutMillisecondsRange.lowerBound), Self.cutMillisecondsRange.upperBound)
        // Everything that was on the wire asks for the same; it is drawn for once.
        guard self.cutUntil < now + UInt64(wait) * 1_000_000 else { return }
        let cut = wait + Int64(Double(wait) * 0.2 * draw)
        self.pauseMilliseconds = max(self.pauseMilliseconds, cut)
        self.cutUntil = now + UInt64(cut) * 1_000_000
    }
}
