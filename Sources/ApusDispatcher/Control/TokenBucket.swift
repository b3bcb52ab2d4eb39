internal import ApusCore
internal import ApusStreams

/// A token bucket of one event loop, filled by grants of the fleet's common rate limit.
///
/// Times are nanoseconds of one monotonic clock. Nothing may be sent before the first grant, nor after the last grant
/// has expired: without an answer from Redis, nothing is allowed.
struct TokenBucket: Sendable {
    /// The least lifetime of permits.
    static let permitNanosecondsMin: UInt64 = 250_000_000
    /// The lifetime of permits in intervals between two grants, where those are long.
    static let permitIntervals: UInt64 = 3
    /// The least lifetime of a grant without a limit.
    static let freedomNanosecondsMin: UInt64 = 750_000_000
    /// The lifetime of a grant without a limit in intervals between two grants, where those are long.
    static let freedomIntervals: UInt64 = 6
    /// The reserve for express: one part in this many of a grant, which bulk may not use.
    static let reserveParts = 10

    /// The reasons why nothing may be sent.
    enum Hold: Hashable, Sendable {
        /// The route is stopped.
        case paused
        /// The provider has asked the whole route to wait.
        case cut
        /// The rate is used up.
        case rate
        /// Redis has given no grant for too long.
        case unknown
    }

    /// The permits in hand, including the reserve.
    private(set) var held = 0
    /// The part of the permits in hand that only express may use.
    private(set) var reserve = 0
    /// The last grant.
    private(set) var grant = RateLimitGrant(permits: 0)
    private var validUntil: UInt64 = 0
    private var cutUntil: UInt64 = 0
    private var used = 0
    private var refusals = 0
    private var pauseMilliseconds: Int64 = 0
    /// The fault of our configuration that the provider has reported, until Redis has received it.
    private var fault: RouteFault?
    /// The authentication error of a third party behind the provider, or the word for its end, until Redis has received
    /// it.
    private var thirdPartyFault = ""
    /// The reason for which the provider cannot be reached, or the word for its end, until Redis has received it.
    private var connectionFault = ""
    /// True when the provider could not be reached at the last attempt; nil before the first one has ended.
    private var isUnreachable: Bool?
    /// True after a fault was recorded, until a grant shows whether the route is stopped for it.
    private var isFaulty = false

    // MARK: Spending

    /// Returns the number of requests that a lane may send now.
    func available(_ lane: Lane, now: UInt64) -> Int {
        guard now < self.validUntil, now >= self.cutUntil, !self.isPaused else { return 0 }
        guard self.grant.permits != nil else { return .max }
        return lane == .express ? self.held : max(0, self.held - self.reserve)
    }

    /// Returns the reason why a lane may send nothing now; nil if it may send.
    func hold(_ lane: Lane, now: UInt64) -> Hold? {
        if now < self.cutUntil { return .cut }
        guard now < self.validUntil else { return .unknown }
        if self.isPaused { return .paused }
        return self.available(lane, now: now) == 0 ? .rate : nil
    }

    /// Returns true when the route is known to send nothing for a while: it has to wait, is faulty, or is stopped.
    func isClosed(now: UInt64) -> Bool {
        now < self.cutUntil || self.isFaulty || now < self.validUntil && self.grant.isPaused
    }

    /// True when the route is stopped, as far as is known.
    var isPaused: Bool { self.grant.isPaused || self.isFaulty }

    /// Records that requests were sent, and takes their permits.
    mutating func use(_ count: Int) {
        self.used += count
        guard self.grant.permits != nil else { return }
        precondition(count <= self.held, "more was sent than was allowed")
        self.held -= count
        self.reserve = min(self.reserve, self.held)
    }

    // MARK: Grants

    /// Returns the next grant request. Everything recorded since the last request goes with it.
    ///
    /// - Parameter waiting: the number of requests that could be sent at once.
    mutating func request(waiting: Int, now: UInt64) -> RateLimitRequest {
        self.expire(now: now)
        var request = RateLimitRequest()
        request.use = waiting
        // The use since the last grant predicts the use until the next.
        request.ahead = self.used
        request.held = self.held - self.reserve
        request.used = self.used
        request.refusals = self.refusals
        request.pauseMilliseconds = self.pauseMilliseconds
        request.fault = self.fault
        request.thirdPartyAuthError = self.thirdPartyFault
        (self.used, self.refusals, self.pauseMilliseconds, self.fault) = (0, 0, 0, nil)
        request.connectionFault = self.connectionFault
        (self.thirdPartyFault, self.connectionFault) = ("", "")
        return request
    }

    /// Adds the permits of a grant. Its lifetime counts from the time of the request.
    mutating func granted(_ grant: RateLimitGrant, askedAt: UInt64, now: UInt64) {
        self.expire(now: now)
        let permits = grant.permits ?? 0
        self.held += permits
        if permits > 0 { self.reserve = min(self.held, max(self.reserve, permits / Self.reserveParts)) }
        if grant.permits == nil { (self.held, self.reserve) = (0, 0) }
        self.grant = grant
        // Redis has received the fault, and its grant says whether the route is stopped: the route may have resumed
        // already.
        if self.fault == nil { self.isFaulty = false }
        let interval = UInt64(clamping: grant.intervalMilliseconds) * 1_000_000
        let lifetime =
            grant.permits == nil
            ? max(Self.freedomNanosecondsMin, interval * Self.freedomIntervals)
            : max(Self.permitNanosecondsMin, interval * Self.permitIntervals)
        self.validUntil = max(self.validUntil, askedAt + lifetime)
        if grant.pauseMilliseconds > 0 {
            self.cutUntil = now + UInt64(grant.pauseMilliseconds) * 1_000_000
        } else if self.refusals == 0 {
            self.cutUntil = 0
        }
        if now >= self.validUntil { self.expire(now: now) }
    }

    /// Records that a grant request failed. Its report goes with the next request.
    mutating func failed(_ request: RateLimitRequest) {
        self.used += request.used
        self.refusals += request.refusals
        self.pauseMilliseconds = max(self.pauseMilliseconds, request.pauseMilliseconds)
        self.fault = self.fault ?? request.fault
        if self.thirdPartyFault.isEmpty { self.thirdPartyFault = request.thirdPartyAuthError }
        if self.connectionFault.isEmpty { self.connectionFault = request.connectionFault }
    }

    /// True when a refusal or fault was recorded that Redis has not received yet.
    var hasNews: Bool {
        self.refusals > 0 || self.fault != nil || !self.thirdPartyFault.isEmpty || !self.connectionFault.isEmpty
    }

    private mutating func expire(now: UInt64) {
        if now >= self.validUntil { (self.held, self.reserve) = (0, 0) }
    }

    // MARK: Refusals

    /// The range of a provider's `Retry-After` in milliseconds; values outside are clamped.
    static let cutMillisecondsRange: ClosedRange<Int64> = 1_000...3_600_000

    /// Records that the provider calls our configuration wrong. Nothing is sent until the route resumes.
    mutating func record(_ fault: RouteFault) {
        self.fault = fault
        self.isFaulty = true
    }

    /// Records a third party's authentication error in the provider's word; nil when the third party accepts our
    /// credential again. It does not stop the route: only messages that need the third party wait.
    mutating func record(thirdPartyFault: String?) {
        self.thirdPartyFault =
            thirdPartyFault.map { $0.isEmpty ? "unknown" : $0 } ?? RateLimitRequest.noLonger
    }

    /// Records why an attempt to connect failed, for operators; nil when it did not. The first one that succeeds ends also a fault that an
    /// earlier process has left.
    mutating func record(connectionFault: String?) {
        guard connectionFault != nil || self.isUnreachable != false else { return }
        self.isUnreachable = connectionFault != nil
        self.connectionFault = connectionFault ?? RateLimitRequest.noLonger
    }

    /// Records that nothing of the provider is out of reach any more, if something was.
    mutating func recordConnectionFaultOver() {
        if self.isUnreachable == true { self.record(connectionFault: nil) }
    }

    /// Records a provider's answer. Only a rate-limit refusal for the whole route counts.
    ///
    /// - Parameter draw: a random number in 0..<1. It adds up to a fifth to `Retry-After`, so that fleets do not return
    ///   together.
    mutating func record(_ outcome: DeliveryOutcome, now: UInt64, draw: Double) {
        guard case .deferred(let deferral) = outcome, deferral.reason == .rateLimited, deferral.scope == .route else {
            return
        }
        self.refusals += 1
        guard let asked = deferral.retryAfterMilliseconds else { return }
        let wait = min(max(asked, Self.cutMillisecondsRange.lowerBound), Self.cutMillisecondsRange.upperBound)
        // Every request in flight gets the same `Retry-After`; only the first one draws a random number.
        guard self.cutUntil < now + UInt64(wait) * 1_000_000 else { return }
        let cut = wait + Int64(Double(wait) * 0.2 * draw)
        self.pauseMilliseconds = max(self.pauseMilliseconds, cut)
        self.cutUntil = now + UInt64(cut) * 1_000_000
    }
}
