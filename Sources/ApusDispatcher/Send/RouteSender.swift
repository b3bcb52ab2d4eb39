internal import ApusCore
internal import ApusMetrics
internal import ApusProviders
internal import ApusStreams
internal import NIOCore

/// One route on one event loop: its gateways with the runs that wait for their turn, and what decides whether anything goes out.
final class RouteSender {
    let number: RouteNumber
    /// The gateway to devices, and to channels unless those have a slot of their own.
    private let notifications: GatewaySlot
    /// The gateway to channels; nil when they have no address of their own.
    private let broadcasts: GatewaySlot?
    /// Both slots, or the only one.
    let slots: [GatewaySlot]
    let rateLimit: RateLimitClient
    /// The time at which this worker learnt that the route was resumed after a pause; nil before the first time.
    private(set) var resumedAt: NIODeadline?
    private var wasPaused = false
    var circuit = CircuitBreaker()
    /// The reason of the provider's last failure, in its own words.
    var lastFailure = ""
    var faults = RouteFaults()
    var window: SendWindow
    /// The number of runs that have not been removed.
    var runs = 0
    var directRuns = DirectRuns()
    /// The app's place among the labels, looked up once.
    private var appSlot: LabelSlot?
    /// The cause for which recipients wait, and the time since when; nil when nothing waits.
    private var throttle: (cause: ThrottleCause, since: NIODeadline)?
    /// The nanoseconds by cause that are not counted yet.
    private var throttled: [ThrottleCause: Int64] = [:]

    init(number: RouteNumber, gateways: RouteGateways, rateLimit: RateLimitClient, window: Int) {
        self.number = number
        self.notifications = GatewaySlot(gateways.notifications)
        self.broadcasts = gateways.broadcasts.map { GatewaySlot($0) }
        self.slots = [self.notifications] + (self.broadcasts.map { [$0] } ?? [])
        self.rateLimit = rateLimit
        self.window = SendWindow(limit: window)
    }

    /// Returns the place of the route's app among the labels.
    func slot(of app: AppID, in apps: ConfiguredLabel) -> LabelSlot {
        if let appSlot { return appSlot }
        let slot = apps.slot(for: app.text)
        self.appSlot = slot
        return slot
    }

    /// Records what a grant said of a pause.
    func noteGrant(now: NIODeadline) {
        let isPaused = self.rateLimit.bucket.isPaused
        if self.wasPaused, !isPaused { self.resumedAt = now }
        self.wasPaused = isPaused
    }

    /// Returns the number of requests that a lane may send now, without regard to the gateway's room.
    func room(_ lane: Lane, now: UInt64) -> Int {
        min(self.rateLimit.bucket.available(lane, now: now), self.window.room(lane), self.circuit.room(now: now))
    }

    /// Counts requests of a lane that went out.
    func sent(_ count: Int) {
        self.rateLimit.bucket.use(count)
        self.circuit.use(count)
        self.window.sent(count)
    }

    /// Returns true when it is known that nothing goes out for a while.
    func isClosed(now: UInt64) -> Bool {
        if self.rateLimit.bucket.isClosed(now: now) { return true }
        if case .open(let until) = self.circuit.state { return now < until }
        return false
    }

    /// Returns the number of requests that could go out at once if there were permits.
    func waitingForPermits(now: UInt64) -> Int {
        let circuit = self.circuit.room(now: now)
        var waiting = 0
        for lane in Lane.allCases where circuit > 0 {
            let recipients = self.slots.reduce(0) { $0 + $1.recipientsWithRoom(lane) }
            waiting += min(recipients, self.window.room(lane))
        }
        return min(waiting, circuit)
    }

    // MARK: Gateways

    /// The provider of the route.
    var provider: Provider { self.notifications.gateway.configuration.provider }

    /// Returns the slot by which a send's messages go.
    func gatewaySlot(of context: RouteContext) -> GatewaySlot {
        guard let broadcasts, context.isBroadcast else { return self.notifications }
        return broadcasts
    }

    /// Starts gateways that replace those in use.
    func exchange(for gateways: RouteGateways) {
        precondition((gateways.broadcasts == nil) == (self.broadcasts == nil), "addresses stay while the process runs")
        self.notifications.exchange(for: gateways.notifications)
        if let gateway = gateways.broadcasts { self.broadcasts?.exchange(for: gateway) }
    }

    /// Records that the configuration may be right again. Broadcasts wait for a time of their own: see `holdsBroadcasts(_:)`.
    func restored() { self.notifications.restored() }

    /// Returns true when broadcasts alone wait for the gateway: what their host says of us need not be true elsewhere.
    func holdsBroadcasts(_ gateway: ProviderGateway) -> Bool { self.broadcasts?.gateway === gateway }

    /// Returns true when requests go to the gateway: it is neither draining nor has yet to take over.
    func isSentWith(_ gateway: ProviderGateway) -> Bool { self.slots.contains { $0.gateway === gateway } }

    /// Returns true when requests go to the gateway, or have just begun to.
    func tookOver(_ gateway: ProviderGateway) -> Bool { self.slots.contains { $0.tookOver(gateway) } }

    /// Starts the gateways; `delegate` gets their answers.
    func start(delegate: any ProviderGatewayDelegate) {
        for slot in self.slots {
            slot.gateway.delegate = delegate
            slot.gateway.start()
        }
    }

    /// Closes all gateways when nothing of theirs is on the wire.
    func drain() -> EventLoopFuture<Void> {
        .andAllComplete(self.slots.map { $0.drain() }, on: self.notifications.gateway.eventLoop)
    }

    /// The fault for which one of the gateways in use has no connection or no credential, the longest one; nil when each has both.
    var gatewayFault: GatewayFault? { self.slots.compactMap(\.gateway.fault).min { $0.since < $1.since } }

    /// The states of the gateways that have connections.
    var statuses: [ProviderGatewayStatus] { self.slots.flatMap(\.statuses) }

    /// The counts of all gateways since the start.
    var counts: [GatewayTotals] { self.slots.map(\.counts) }

    // MARK: Throttling

    /// Notes why a lane that has something waiting sends nothing; the gateway's room aside.
    func noteHold(_ lane: Lane, now: NIODeadline) {
        let nanoseconds = now.uptimeNanoseconds
        let cause: ThrottleCause? =
            switch self.rateLimit.bucket.hold(lane, now: nanoseconds) {
            case .paused: .paused
            case .cut: .retryAfter
            case .rate: .rateLimit
            case .unknown: .redis
            case nil:
                if self.circuit.room(now: nanoseconds) == 0 {
                    .circuit
                } else {
                    self.window.room(lane) == 0 ? .window : nil
                }
            }
        if let throttle, throttle.cause == cause { return }
        self.endHold(now: now)
        self.throttle = cause.map { ($0, now) }
    }

    /// Ends the count of time without sending: something goes out again, or nothing waits.
    func endHold(now: NIODeadline) {
        guard let throttle else { return }
        self.throttled[throttle.cause, default: 0] += (now - throttle.since).nanoseconds
        self.throttle = nil
    }

    /// Returns the nanoseconds without sending by cause, since the last time.
    func takeThrottled(now: NIODeadline) -> [ThrottleCause: Int64] {
        if let throttle {
            self.endHold(now: now)
            self.throttle = (throttle.cause, now)
        }
        defer { self.throttled = [:] }
        return self.throttled
    }
}

/// The rate limit of one send on one event loop, and its runs that wait for it.
final class SendRateLimit {
    let client: RateLimitClient
    /// The number of runs that go by this rate.
    private(set) var runs = 0
    private var parked: [ActiveRun] = []

    init(client: RateLimitClient) { self.client = client }

    func join(_ active: ActiveRun) {
        active.sendRateLimit = self
        self.runs += 1
    }

    func leave(_ active: ActiveRun) {
        active.sendRateLimit = nil
        active.isParked = false
        self.runs -= 1
        self.parked.removeAll { $0 === active }
    }

    /// Records that a run has something to send and no permit.
    func park(_ active: ActiveRun) {
        self.client.need(hurry: false)
        guard !active.isParked else { return }
        active.isParked = true
        self.parked.append(active)
    }

    /// Returns the runs that waited.
    func takeParked() -> [ActiveRun] {
        let parked = self.parked
        for active in parked { active.isParked = false }
        self.parked = []
        return parked
    }

    /// The number of recipients that wait.
    var recipients: Int { self.parked.reduce(0) { $0 + $1.run.unsentCount } }
}

/// Limits the number of direct sends of a route that are under way on one event loop, so that no route can use up the credit of the
/// mailboxes. Pure.
///
/// A route that keeps up has as many under way as come together in a burst. Where its provider is slow or silent there are few, and the next
/// ones become units of the route.
struct DirectRuns: Sendable {
    /// The maximum, however slow the route is.
    static let slowMax = 128
    /// The maximum while the route keeps up: half of what the mailboxes of a dispatcher with default settings may have in hand.
    static let keepingUpMax = 2_048
    /// A route keeps up while its direct sends take less than this on average, and one has ended within this time.
    static let durationMax: TimeAmount = .seconds(1)
    /// The weight of the last duration in the average: one part in so many.
    private static let averageParts: Int64 = 16

    /// The number under way.
    private(set) var count = 0
    private var averageNanoseconds: Int64 = 0
    private var endedAt: NIODeadline?

    /// Returns true when one more may begin.
    func hasRoom(now: NIODeadline) -> Bool {
        guard self.count >= Self.slowMax else { return true }
        guard self.count < Self.keepingUpMax, let endedAt else { return false }
        return now - endedAt < Self.durationMax && self.averageNanoseconds < Self.durationMax.nanoseconds
    }

    /// Records that one has begun.
    mutating func begin() { self.count += 1 }

    /// Records that one has ended that began at that time.
    mutating func end(begunAt: NIODeadline, now: NIODeadline) {
        precondition(self.count > 0)
        self.count -= 1
        self.endedAt = now
        self.averageNanoseconds += ((now - begunAt).nanoseconds - self.averageNanoseconds) / Self.averageParts
    }
}

/// Limits the number of unwritten recipients of a route on one event loop.
///
/// A recipient is unwritten from its request until its outcome is durable. After a `kill -9`, at most the unwritten
/// recipients are sent to again.
struct SendWindow: Sendable {
    /// The reserve for express: one part in this many of the limit, which bulk may not use.
    static let reserveParts = 8

    /// The maximum number of unwritten recipients.
    let limit: Int
    /// The current number of unwritten recipients.
    private(set) var unwritten = 0

    init(limit: Int) {
        precondition(limit >= Self.reserveParts)
        self.limit = limit
    }

    /// Returns how many more recipients a lane may send to.
    func room(_ lane: Lane) -> Int {
        let limit = lane == .express ? self.limit : self.limit - self.limit / Self.reserveParts
        return max(0, limit - self.unwritten)
    }

    /// Counts recipients that were sent to.
    mutating func sent(_ count: Int) { self.unwritten += count }

    /// Removes recipients whose outcome is durable, or whose request the provider did not process.
    mutating func settled(_ count: Int) {
        precondition(count <= self.unwritten)
        self.unwritten -= count
    }
}

/// Holds the gateway in use, its successor, the gateways that drain, and the runs that wait for their turn.
final class GatewaySlot {
    /// The gateway in use.
    private(set) var gateway: ProviderGateway
    var waiting = WaitingRuns()
    /// The successor. It replaces the gateway as soon as it can send.
    private var next: ProviderGateway?
    /// The replaced gateways that still await answers.
    private var draining: [ProviderGateway] = []
    /// The totals of retired gateways.
    private var retired = GatewayTotals()

    init(_ gateway: ProviderGateway) { self.gateway = gateway }

    /// Returns the number of waiting recipients of a lane if the gateway has room, and 0 otherwise. The gateway then
    /// reports when it has room again.
    func recipientsWithRoom(_ lane: Lane) -> Int {
        self.waiting.hasAny(lane) && self.gateway.hasRoom(lane) ? self.waiting.recipients(lane) : 0
    }

    /// Starts a gateway as the successor.
    func exchange(for gateway: ProviderGateway) {
        if let next { self.retire(next) }
        self.next = gateway
        gateway.start()
        // After this returned false, the gateway reports when it has room.
        let isReady = gateway.hasRoom(.bulk)
        if isReady || self.gateway.isHeld { _ = self.tookOver(gateway) }
    }

    /// Resumes held gateways, the successor too, because the configuration may be correct again.
    func restored() {
        self.gateway.restored()
        self.next?.restored()
    }

    /// Replaces a gateway whose credential is refused by its successor, which has another credential. Returns false if
    /// there is no successor, or if the gateway is not in use.
    func giveWay(_ gateway: ProviderGateway) -> Bool {
        guard gateway === self.gateway, let next else { return false }
        return self.tookOver(next)
    }

    /// Replaces the gateway in use if the given one is its successor. Returns true if the given gateway is now in use.
    func tookOver(_ gateway: ProviderGateway) -> Bool {
        if gateway === self.gateway { return true }
        guard gateway === self.next else { return false }
        self.next = nil
        let old = self.gateway
        self.gateway = gateway
        self.retire(old)
        return true
    }

    private func retire(_ gateway: ProviderGateway) {
        self.draining.append(gateway)
        gateway.drain().assumeIsolated().whenComplete { _ in
            self.draining.removeAll { $0 === gateway }
            self.retired.add(gateway.status.counts)
        }
    }

    /// Closes all gateways after their last answers.
    func drain() -> EventLoopFuture<Void> {
        let gateways = [self.gateway] + self.draining + (self.next.map { [$0] } ?? [])
        return .andAllComplete(gateways.map { $0.drain() }, on: self.gateway.eventLoop)
    }

    /// The status of each gateway that has connections.
    var statuses: [ProviderGatewayStatus] { ([self.gateway] + self.draining).map(\.status) }

    /// The totals of all gateways since the start.
    var counts: GatewayTotals {
        var counts = self.retired
        for status in self.statuses { counts.add(status.counts) }
        return counts
    }
}

/// The sums of what gateways have done, including retired ones.
struct GatewayTotals {
    private(set) var payloadBytes: UInt64 = 0
    private(set) var bytesSent: UInt64 = 0
    private(set) var bytesReceived: UInt64 = 0
    private(set) var goAways: [GoAwayCode: UInt64] = [:]
    private(set) var handshakes: UInt64 = 0
    private(set) var failures: [ConnectFailure: UInt64] = [:]

    mutating func add(_ counts: ProviderGatewayCounts) {
        self.payloadBytes += counts.payloadBytes
        self.bytesSent += counts.bytesSent
        self.bytesReceived += counts.bytesReceived
        self.goAways.merge(counts.goAways, uniquingKeysWith: +)
        self.handshakes += counts.handshakes
        self.failures.merge(counts.failures, uniquingKeysWith: +)
    }
}
