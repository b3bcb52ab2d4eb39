internal import ApusProviders
internal import ApusStreams
internal import NIOCore

/// A source of grants for rate limits: Redis, or a stub in tests.
protocol RateLimitSource: Sendable {
    /// The place of the process's moments within an interval, in nanoseconds: its loops ask at the same moments, other processes at others.
    var phaseNanoseconds: UInt64 { get }

    /// Requests one grant. The future completes on the event loop.
    func grant(
        _ request: RateLimitRequest,
        of limiter: RateLimit,
        ratePerSecond: Double?,
        on eventLoop: any EventLoop,
    ) -> EventLoopFuture<RateLimitGrant>
}

/// Sends with the permits of a rate limit client.
protocol RateLimitClientDelegate: AnyObject {
    /// Returns how many more requests could be sent at once if there were permits.
    func waiting(for rateLimit: RateLimitClient) -> Int
    /// Returns true while anything is to be sent, now or soon. The client goes on requesting grants while it is.
    func isActive(_ rateLimit: RateLimitClient) -> Bool
    /// Receives the end of a grant request, granted or failed.
    func rateLimitAnswered(_ rateLimit: RateLimitClient)
}

/// Requests grants of one rate limit on one event loop while permits are needed.
///
/// One request is in flight at a time; the next one follows at the end of the interval in which the last one was sent, and never before its
/// answer. Intervals end at the same moment on all event loops of a process, so that their requests go together. Redis says how long they
/// are: the more members the limit has, the longer.
final class RateLimitClient {
    /// The least interval between grants while requests wait for permits.
    static let busyIntervalMin: TimeAmount = .milliseconds(20)
    /// The least interval between grants otherwise. An operator's command takes effect within it.
    static let calmIntervalMin: TimeAmount = .milliseconds(50)
    /// The calm interval in busy ones, where those are long.
    static let calmIntervals: Int64 = 2
    /// The least interval between grants when a run that has just started waits for permits.
    static let hurryIntervalMin: TimeAmount = .milliseconds(2)
    /// The number of those in a busy interval, where that is long.
    static let hurriesPerInterval: Int64 = 10
    /// The time for which grants are still requested after the last need, so that single sends find permits.
    static let linger: TimeAmount = .seconds(1)

    let limiter: RateLimit
    var ratePerSecond: Double?
    /// The fingerprint of a route's configuration; empty for the rate of a send.
    var configurationFingerprint = ""
    var bucket = TokenBucket()
    /// The subroutes of a route that its provider refuses; none for the rate of a send.
    var subroutes = SubrouteFaults()
    private let source: any RateLimitSource
    private let eventLoop: any EventLoop
    private weak var user: (any RateLimitClientDelegate)?
    /// The interval of the last grant.
    private var interval = busyIntervalMin
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
    var hasNews: Bool { self.bucket.hasNews || self.subroutes.hasNews }

    /// Requests a grant, unless one is requested or scheduled already. In a hurry, it does not wait for a scheduled one.
    func need(hurry: Bool) {
        self.neededAt = .now()
        guard !self.isAsking else {
            self.isInHurry = self.isInHurry || hurry
            return
        }
        guard hurry || self.next == nil else { return }
        let earliest = self.askedAt + self.hurryInterval
        guard self.neededAt < earliest else { return self.ask(isUrgent: true) }
        self.schedule(in: earliest - self.neededAt, isUrgent: true)
    }

    /// Stops requesting grants.
    func stop() {
        self.next?.cancel()
        self.next = nil
    }

    private var hurryInterval: TimeAmount {
        max(Self.hurryIntervalMin, .nanoseconds(self.interval.nanoseconds / Self.hurriesPerInterval))
    }

    private func schedule(in time: TimeAmount, isUrgent: Bool) {
        self.next?.cancel()
        self.next = self.eventLoop.assumeIsolated().scheduleTask(in: time) { self.ask(isUrgent: isUrgent) }
    }

    /// Returns the time until intervals of a length end next: not before half of one has passed since the last request.
    static func wait(
        for interval: TimeAmount,
        phase: UInt64,
        askedAt: NIODeadline,
        now: NIODeadline,
    ) -> TimeAmount {
        let length = UInt64(interval.nanoseconds)
        let earliest = max(now.uptimeNanoseconds, askedAt.uptimeNanoseconds + length / 2)
        let end = ((earliest + phase) / length + 1) * length - phase
        return .nanoseconds(Int64(end - now.uptimeNanoseconds))
    }

    private func ask(isUrgent: Bool) {
        self.next?.cancel()
        self.next = nil
        self.isAsking = true
        self.isInHurry = false
        let askedAt = NIODeadline.now()
        self.askedAt = askedAt
        var request = self.bucket.request(waiting: self.user?.waiting(for: self) ?? 0, now: askedAt.uptimeNanoseconds)
        request.isUrgent = isUrgent
        request.configurationFingerprint = self.configurationFingerprint
        request.subroutes = self.subroutes.takeNews()
        self.source.grant(request, of: self.limiter, ratePerSecond: self.ratePerSecond, on: self.eventLoop)
            .assumeIsolated()
            .whenComplete { result in
                switch result {
                case .success(let grant):
                    let now = NIODeadline.now().uptimeNanoseconds
                    self.bucket.granted(grant, askedAt: askedAt.uptimeNanoseconds, now: now)
                    self.subroutes.granted(grant.refusedSubroutes)
                    self.interval = max(Self.busyIntervalMin, .milliseconds(grant.intervalMilliseconds))
                case .failure:
                    self.bucket.failed(request)
                    self.subroutes.failed(request.subroutes)
                }
                self.answered(request, result)
            }
    }

    private func answered(_ request: RateLimitRequest, _ result: Result<RateLimitGrant, any Error>) {
        // The user is called first: if it finds the permits used up again, it waits for the next grant.
        self.user?.rateLimitAnswered(self)
        self.isAsking = false
        let now = NIODeadline.now()
        if self.user?.isActive(self) == true { self.neededAt = now }
        // Requests go on until everything recorded is reported.
        guard now - self.neededAt < Self.linger || self.hasNews else { return }
        let isLimited = (try? result.get())?.permits != nil
        if self.isInHurry {
            return self.schedule(in: max(.zero, self.askedAt + self.hurryInterval - now), isUrgent: true)
        }
        let calm = max(Self.calmIntervalMin, .nanoseconds(self.interval.nanoseconds * Self.calmIntervals))
        let interval = isLimited && request.use > 0 ? self.interval : calm
        let phase = self.source.phaseNanoseconds
        let wait = Self.wait(for: interval, phase: phase, askedAt: self.askedAt, now: now)
        self.schedule(in: wait, isUrgent: false)
    }
}

/// The rate limit of a route, and its rate according to the configuration.
struct RouteRateLimit: Sendable {
    /// The rate limit that grants the route's permits.
    var limiter: RateLimit
    /// The rate of the whole fleet per second; nil for no limit.
    var ratePerSecond: Double?

    /// Creates a limit in requests per second.
    init(limiter: RateLimit, ratePerSecond: Double?) {
        self.limiter = limiter
        self.ratePerSecond = ratePerSecond
    }

    /// Creates a limit that keeps to a route's rate.
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
