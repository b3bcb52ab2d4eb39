internal import ApusStreams
internal import NIOCore

/// Gives leases of a rate limit: Redis, or a test.
protocol RateLimitSource: Sendable {
    /// Asks for one lease; the future completes on the event loop.
    func lease(
        _ request: RateLimitRequest,
        of limiter: RateLimit,
        ratePerSecond: Double?,
        on eventLoop: any EventLoop,
    ) -> EventLoopFuture<RateLimitGrant>
}

/// Asks Redis for leases, for one member.
struct RedisRateLimits: RateLimitSource {
    let streams: SendStreams
    /// The process and its event loop.
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

/// Sends with the permits of a client.
protocol RateLimitClientDelegate: AnyObject {
    /// How many more could be sent at once if there were permits.
    func waiting(for rateLimit: RateLimitClient) -> Int
    /// Whether anything is to be sent, now or soon: the client goes on asking while it is.
    func isActive(_ rateLimit: RateLimitClient) -> Bool
    /// A lease came, or none did.
    func leased(_ rateLimit: RateLimitClient)
}

/// Asks for leases of one limiter on one event loop, as long as somebody needs permits: one call at a time, and the next one an interval
/// after its answer.
final class RateLimitClient {
    /// Between leases while permits are waited for.
    static let busyInterval: TimeAmount = .milliseconds(20)
    /// Between leases otherwise: an operator's command takes effect that soon.
    static let calmInterval: TimeAmount = .milliseconds(50)
    /// The least between leases, when somebody in a hurry asks for one.
    static let hurryInterval: TimeAmount = .milliseconds(2)
    /// How long it goes on after the last need, so that single sends find permits.
    static let linger: TimeAmount = .seconds(1)

    let limiter: RateLimit
    var ratePerSecond: Double?
    /// A digest of a route's configuration; empty for a send's pace.
    var configurationFingerprint = ""
    var budget = TokenBudget()
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

    /// Somebody wants to send: asks soon if it does not ask already; at once when in a hurry.
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

    /// Asks no more.
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
        self.source.lease(request, of: self.limiter, ratePerSecond: self.ratePerSecond, on: self.eventLoop)
            .assumeIsolated()
            .whenComplete { result in
                switch result {
                case .success(let lease):
                    let now = NIODeadline.now().uptimeNanoseconds
                    self.budget.granted(lease, askedAt: askedAt.uptimeNanoseconds, now: now)
                case .failure: self.budget.failed(request)
                }
                self.answered(request, result)
            }
    }

    private func answered(_ request: RateLimitRequest, _ result: Result<RateLimitGrant, any Error>) {
        // Who finds the permits used up again has waited for this lease, and waits for the next.
        self.user?.leased(self)
        self.isAsking = false
        let now = NIODeadline.now()
        if self.user?.isActive(self) == true { self.neededAt = now }
        // Whatever is to be reported is reported.
        guard now - self.neededAt < Self.linger || self.budget.hasNews else { return }
        let isGoverned = (try? result.get())?.permits != nil
        var interval = isGoverned && request.use > 0 ? Self.busyInterval : Self.calmInterval
        if self.isInHurry { interval = Self.hurryInterval }
        let elapsed = now - self.askedAt
        self.schedule(in: max(.nanoseconds(0), interval - elapsed))
    }
}
