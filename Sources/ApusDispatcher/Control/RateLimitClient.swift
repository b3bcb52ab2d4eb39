internal import ApusProviders
internal import ApusStreams
internal import NIOCore

/// A source of leases for rate limits: Redis, or a stub in tests.
protocol RateLimitSource: Sendable {
    /// Requests one lease. The future completes on the event loop.
    func lease(
        _ request: RateLimitRequest,
        of limiter: RateLimit,
        ratePerSecond: Double?,
        on eventLoop: any EventLoop,
    ) -> EventLoopFuture<RateLimitGrant>
}

/// Requests leases from Redis for one member.
struct RedisRateLimits: RateLimitSource {
    let streams: SendStreams
    /// The name of the process and its event loop.
    let member: String

    func lease(
        _ request: RateLimitRequest,
        of limiter: RateLimit,
        ratePerSecond: Double?,
        on eventLoop: any EventLoop,
    ) -> EventLoopFuture<RateLimitGrant> {
        self.streams.rateLimits.request(
            request,
            of: limiter,
            by: self.member,
            ratePerSecond: ratePerSecond,
            on: eventLoop
        )
    }
}

/// Sends with the permits of a rate limit client.
protocol RateLimitClientDelegate: AnyObject {
    /// Returns how many more requests could be sent at once if there were permits.
    func waiting(for rateLimit: RateLimitClient) -> Int
    /// Returns true while anything is to be sent, now or soon. The client goes on requesting leases while it is.
    func isActive(_ rateLimit: RateLimitClient) -> Bool
    /// Receives the end of a lease request, granted or failed.
    func leased(_ rateLimit: RateLimitClient)
}

/// Requests leases of one rate limit on one event loop while permits are needed.
///
/// One request is in flight at a time; the next one follows an interval after the last request was sent, and never
/// before its answer.
final class RateLimitClient {
    /// The interval between leases while requests wait for permits.
    static let busyInterval: TimeAmount = .milliseconds(20)
    /// The interval between leases otherwise. An operator's command takes effect within it.
    static let calmInterval: TimeAmount = .milliseconds(50)
    /// The minimum interval between leases when a run that has just started waits for permits.
    static let hurryInterval: TimeAmount = .milliseconds(2)
    /// The time for which leases are still requested after the last need, so that single sends find permits.
    static let linger: TimeAmount = .seconds(1)

    let limiter: RateLimit
    var ratePerSecond: Double?
    /// The fingerprint of a route's configuration; empty for the rate of a send.
    var configurationFingerprint = ""
    var budget = TokenBudget()
    /// The subroutes of a route that its provider refuses; none for the rate of a send.
    var subroutes = SubrouteFaults()
    private let source: any RateLimitSource
    private let eventLoop: any EventLoop
    private weak var user: (any RateLimitClientDelegate)?
    private var isAsking = false
    private var isInHurry = false
    private var askedAt = NIODeadline.uptimeNanoseconds(0)
    private var neededAt = NIODeadline.uptimeNanoseconds(0)
    private var next: Scheduled<Void>?

    init(
        _ limiter: RateLimit,
        ratePerSecond: Double?,
        source: any RateLimitSource,
        eventLoop: any EventLoop,
        user: any RateLimitClientDelegate,
    ) {
        self.limiter = limiter
        self.ratePerSecond = ratePerSecond
        self.source = source
        self.eventLoop = eventLoop
        self.user = user
    }

    /// True when something was recorded that Redis has not received yet.
    var hasNews: Bool { self.budget.hasNews || self.subroutes.hasNews }

    /// Requests a lease, unless one is requested or scheduled already. In a hurry, it does not wait for a scheduled one.
    func need(hurry: Bool) {
        self.neededAt = .now()
        guard !self.isAsking else {
            self.isInHurry = self.isInHurry || hurry
            return
        }
        guard hurry || self.next == nil else { return }
        let earliest = self.askedAt + Self.hurryInterval
        guard self.neededAt < earliest else { return self.ask() }
        self.schedule(in: earliest - self.neededAt)
    }

    /// Stops requesting leases.
    func stop() {
        self.next?.cancel()
        self.next = nil
    }

    private func schedule(in time: TimeAmount) {
        self.next?.cancel()
        self.next = self.eventLoop.assumeIsolated().scheduleTask(in: time) { self.ask() }
    }

    private func ask() {
        self.next?.cancel()
        self.next = nil
        self.isAsking = true
        self.isInHurry = false
        let askedAt = NIODeadline.now()
        self.askedAt = askedAt
        var request = self.budget.request(waiting: self.user?.waiting(for: self) ?? 0, now: askedAt.uptimeNanoseconds)
        request.configurationFingerprint = self.configurationFingerprint
        request.subroutes = self.subroutes.takeNews()
        self.source.lease(request, of: self.limiter, ratePerSecond: self.ratePerSecond, on: self.eventLoop)
            .assumeIsolated()
            .whenComplete { result in
                switch result {
                case .success(let lease):
                    let now = NIODeadline.now().uptimeNanoseconds
                    self.budget.granted(lease, askedAt: askedAt.uptimeNanoseconds, now: now)
                    self.subroutes.granted(lease.refusedSubroutes)
                case .failure:
                    self.budget.failed(request)
                    self.subroutes.failed(request.subroutes)
                }
                self.answered(request, result)
            }
    }

    private func answered(_ request: RateLimitRequest, _ result: Result<RateLimitGrant, any Error>) {
        // The user is called first: if it finds the permits used up again, it waits for the next lease.
        self.user?.leased(self)
        self.isAsking = false
        let now = NIODeadline.now()
        if self.user?.isActive(self) == true { self.neededAt = now }
        // Requests go on until everything recorded is reported.
        guard now - self.neededAt < Self.linger || self.hasNews else { return }
        let isGoverned = (try? result.get())?.permits != nil
        var interval = isGoverned && request.use > 0 ? Self.busyInterval : Self.calmInterval
        if self.isInHurry { interval = Self.hurryInterval }
        let elapsed = now - self.askedAt
        self.schedule(in: max(.nanoseconds(0), interval - elapsed))
    }
}

/// The rate at which a route may send according to the configuration.
struct RoutePace: Sendable {
    /// The rate limit that grants the route's permits.
    var limiter: RateLimit
    /// The rate of the whole fleet per second; nil for no limit.
    var ratePerSecond: Double?

    /// Creates a pace in requests per second.
    init(limiter: RateLimit, ratePerSecond: Double?) {
        self.limiter = limiter
        self.ratePerSecond = ratePerSecond
    }

    /// Creates a pace that keeps to a route's rate.
    ///
    /// Within a minute, a limiter grants 60 seconds' worth of its rate plus the burst that its bucket holds at the
    /// start. A rate per minute is therefore spread over 60 seconds plus the seconds of the burst.
    init(limiter: RateLimit, rate: RouteRate) {
        self.limiter = limiter
        self.ratePerSecond =
            switch rate {
            case .unlimited: nil
            case .perSecond(let rate): rate
            case .perMinute(let rate): Double(rate) / (60 + StreamLimits.rateLimitBurstSeconds)
            }
    }
}
