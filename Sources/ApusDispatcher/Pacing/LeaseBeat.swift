internal import ApusStreams
internal import NIOCore

/// Where leases come from: Redis, or a test.
protocol LeaseSource: Sendable {
    /// Asks once; the future completes on the event loop.
    func lease(
        _ request: LeaseRequest,
        of limiter: Limiter,
        ratePerSecond: Double?,
        on eventLoop: any EventLoop,
    ) -> EventLoopFuture<Lease>
}

/// Leases out of Redis, for one member.
struct RedisLeases: LeaseSource {
    let streams: SendStreams
    /// The process and its event loop.
    let member: String

    func lease(
        _ request: LeaseRequest,
        of limiter: Limiter,
        ratePerSecond: Double?,
        on eventLoop: any EventLoop,
    ) -> EventLoopFuture<Lease> {
        self.streams.lease(request, of: limiter, by: self.member, ratePerSecond: ratePerSecond, on: eventLoop)
    }
}

/// Who sends with the permits of a beat.
protocol LeaseBeatUser: AnyObject {
    /// How many more could be sent at once if there were permits.
    func waiting(for beat: LeaseBeat) -> Int
    /// Whether anything is to be sent, now or soon: the beat goes on while it is.
    func isActive(_ beat: LeaseBeat) -> Bool
    /// A lease came, or none did.
    func leased(_ beat: LeaseBeat)
}

/// Keeps the permits of one limiter fresh on one event loop, as long as somebody needs them: one call at a time, and the next one a beat
/// after its answer.
final class LeaseBeat {
    /// Between leases while permits are waited for.
    static let busyInterval: TimeAmount = .milliseconds(20)
    /// Between leases otherwise: an operator's word is heard that soon.
    static let calmInterval: TimeAmount = .milliseconds(50)
    /// The least between leases, when somebody in a hurry asks for one.
    static let hurryInterval: TimeAmount = .milliseconds(2)
    /// How long it goes on after the last need, so that single sends find permits.
    static let linger: TimeAmount = .seconds(1)

    let limiter: Limiter
    var ratePerSecond: Double?
    /// A digest of what a route is set up with; empty for a send's pace.
    var setUp = ""
    var permits = LeasedPermits()
    private let source: any LeaseSource
    private let eventLoop: any EventLoop
    private weak var user: (any LeaseBeatUser)?
    private var isAsking = false
    private var isInHurry = false
    private var askedAt = NIODeadline.uptimeNanoseconds(0)
    private var neededAt = NIODeadline.uptimeNanoseconds(0)
    private var next: Scheduled<Void>?

    init(
        _ limiter: Limiter,
        ratePerSecond: Double?,
        source: any LeaseSource,
        eventLoop: any EventLoop,
        user: any LeaseBeatUser,
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
        var request = self.permits.request(waiting: self.user?.waiting(for: self) ?? 0, now: askedAt.uptimeNanoseconds)
        request.setUp = self.setUp
        self.source.lease(request, of: self.limiter, ratePerSecond: self.ratePerSecond, on: self.eventLoop)
            .assumeIsolated()
            .whenComplete { result in
                switch result {
                case .success(let lease):
                    let now = NIODeadline.now().uptimeNanoseconds
                    self.permits.granted(lease, askedAt: askedAt.uptimeNanoseconds, now: now)
                case .failure: self.permits.failed(request)
                }
                self.answered(request, result)
            }
    }

    private func answered(_ request: LeaseRequest, _ result: Result<Lease, any Error>) {
        // Who finds the permits used up again has waited for this lease, and waits for the next.
        self.user?.leased(self)
        self.isAsking = false
        let now = NIODeadline.now()
        if self.user?.isActive(self) == true { self.neededAt = now }
        // Whatever is to be told is told.
        guard now - self.neededAt < Self.linger || self.permits.hasNews else { return }
        let isGoverned = (try? result.get())?.permits != nil
        var interval = isGoverned && request.use > 0 ? Self.busyInterval : Self.calmInterval
        if self.isInHurry { interval = Self.hurryInterval }
        let elapsed = now - self.askedAt
        self.schedule(in: max(.nanoseconds(0), interval - elapsed))
    }
}
