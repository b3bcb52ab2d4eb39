internal import ApusCore
internal import ApusHTTP2
internal import Logging
internal import NIOCore

/// Sends the requests of a gateway whose recipients each have an address of their own: by one gateway for each origin,
/// made when it is first needed and closed when it has been idle.
///
/// Requests are made on other threads, since each is encrypted for its recipient. All calls must be made on the event loop.
final class OriginGateways: ProviderGatewayDelegate {
    /// The maximum number of requests of each lane that are being made or wait for room, over all origins.
    static let waitingMax = 1_024

    /// A request that waits for room at its origin.
    private struct Waiting {
        let request: (path: String, headers: [HeaderField], body: [UInt8])
        let tag: UInt64
        let since: UInt64
        let validUntil: UInt64
    }

    /// An origin with its gateway and the requests that wait for it.
    private final class Entry {
        let origin: Origin
        let trust: HostTrust
        private let exists: Bool
        let gateway: ProviderGateway
        var state: OriginState
        var express = CircularBuffer<Waiting>()
        var bulk = CircularBuffer<Waiting>()

        init(
            _ origin: Origin,
            _ trust: HostTrust,
            exists: Bool,
            _ gateway: ProviderGateway,
            _ state: OriginState,
        ) {
            self.origin = origin
            self.trust = trust
            self.exists = exists
            self.gateway = gateway
            self.state = state
        }

        /// The gateway's totals. Failed attempts count once the host is known to exist: whoever registers an address may make one up.
        var counts: ProviderGatewayCounts {
            var counts = self.gateway.status.counts
            if !self.isReal { counts.failures = [:] }
            return counts
        }

        /// True when the host exists: the configuration or the provider names it, or it was reached.
        var isReal: Bool { self.exists || self.gateway.status.counts.handshakes > 0 }

        /// True when nothing waits and nothing is in flight.
        var isEmpty: Bool { self.state.waiting == 0 && self.gateway.inFlight == 0 }

        func append(_ waiting: Waiting, _ lane: Lane) {
            switch lane {
            case .express: self.express.append(waiting)
            case .bulk: self.bulk.append(waiting)
            }
        }

        /// Decides about a request of a lane.
        func decide(_ lane: Lane, now: UInt64) -> OriginState.Decision {
            self.state.decide(lane, oldest: self.first(lane)?.since, now: now)
        }

        /// Returns true when the first request of a lane waits for too long already, while others need its room.
        ///
        /// - Parameter isScarce: true when all origins together have as many waiting requests as they may.
        func isStuck(now: UInt64, isScarce: Bool) -> Bool {
            Lane.allCases.contains { lane in
                (isScarce || self.state.isFull(lane)) && self.state.isSlow(oldest: self.first(lane)?.since, now: now)
            }
        }

        /// Removes and returns the requests of a lane that may be sent no longer.
        func removeStale(_ lane: Lane, now: UInt64) -> [Waiting] {
            let waiting = lane == .express ? self.express : self.bulk
            let stale = waiting.filter { now >= $0.validUntil } as [Waiting]
            guard !stale.isEmpty else { return [] }
            switch lane {
            case .express: self.express.removeAll { now >= $0.validUntil }
            case .bulk: self.bulk.removeAll { now >= $0.validUntil }
            }
            for _ in stale { self.state.left(lane) }
            return stale
        }

        func first(_ lane: Lane) -> Waiting? { lane == .express ? self.express.first : self.bulk.first }

        func removeFirst(_ lane: Lane) {
            switch lane {
            case .express: self.express.removeFirst()
            case .bulk: self.bulk.removeFirst()
            }
            self.state.left(lane)
        }
    }

    /// The gateway that the origins stand behind; it owns this value.
    private unowned let owner: ProviderGateway
    private let addressing: any RecipientAddressing
    private let threads: BackgroundThreads
    private let limits: OriginState.Limits
    private var entries: [Origin: Entry] = [:]
    /// The same entries by gateway: a gateway's configuration does not say which of the app's credentials it uses.
    private var entriesByGateway: [ObjectIdentifier: Entry] = [:]
    /// The gateways that are being closed.
    private var leaving: [Entry] = []
    /// The counts of gateways that have been closed.
    private var retired = ProviderGatewayCounts()
    private var waiting: [Lane: Int] = [:]
    /// The number of requests that are being made on other threads.
    private var inMaking = 0
    private var housekeeper: Scheduled<Void>?
    private var crowdTimer: Scheduled<Void>?
    private var isDraining = false

    init(
        _ addressing: any RecipientAddressing,
        threads: BackgroundThreads,
        limits: OriginState.Limits,
        owner: ProviderGateway,
    ) {
        self.addressing = addressing
        self.threads = threads
        self.limits = limits
        self.owner = owner
    }

    private var eventLoop: any EventLoop { self.owner.eventLoop }

    // MARK: Requests

    /// Returns true when a request of the lane would be accepted now, whatever its origin.
    func hasRoom(_ lane: Lane) -> Bool {
        guard !self.isDraining, !self.owner.isHeld, self.waiting[lane, default: 0] < Self.waitingMax else {
            return false
        }
        guard let crowded = self.crowded[lane], !crowded.isEmpty else { return true }
        let now = ProviderGateway.now()
        return !crowded.contains { self.entries[$0]?.decide(lane, now: now) == .holdBack }
    }

    /// The origins with as many waiting requests of a lane as they may have.
    private var crowded: [Lane: Set<Origin>] = [:]

    /// Accepts a request; it is answered later, sent or not. There must be room.
    ///
    /// - Parameter validUntil: the time from which it is given back rather than sent, because its recipient must be read
    ///   again.
    func submit(
        _ message: PreparedMessage,
        to recipient: Span<UInt8>,
        badge: UInt32,
        tag: UInt64,
        lane: Lane,
        now: UInt64,
        validUntil: UInt64,
    ) {
        guard let origin = self.addressing.origin(of: recipient) else {
            return self.owner.answerLocally(tag, now, .rejected(.other), "nothing may be sent to this address")
        }
        guard let entry = self.entry(for: origin, now: now) else {
            let deferral = Deferral(.connection, scope: .device)
            return self.owner.answerLocally(tag, now, .deferred(deferral), "too many push services at a time")
        }
        if case .putOff(let reason, let nanoseconds) = entry.decide(lane, now: now) {
            return self.putOff(tag, since: now, reason, nanoseconds)
        }
        entry.state.taken(lane, now: now)
        self.waiting[lane, default: 0] += 1
        if entry.state.isFull(lane) {
            self.crowded[lane, default: []].insert(origin)
            self.watchCrowds()
        }
        let times = (since: now, validUntil: validUntil)
        self.make(message, to: recipient, badge: badge, tag: tag, lane: lane, times, entry)
    }

    /// The interval at which full origins are watched: their requests may be put off from then on, and those of others go on.
    private static let crowdInterval = TimeAmount.milliseconds(50)

    /// Looks after the full origins until there are none: nothing else tells of one that does not answer.
    private func watchCrowds() {
        guard self.crowdTimer == nil, !self.isDraining, self.crowded.values.contains(where: { !$0.isEmpty }) else {
            return
        }
        self.crowdTimer = self.eventLoop.assumeIsolated().scheduleTask(in: Self.crowdInterval) {
            self.crowdTimer = nil
            let now = ProviderGateway.now()
            for origin in Set(self.crowded.values.joined()) {
                guard let entry = self.entries[origin] else { continue }
                if entry.isStuck(now: now, isScarce: false) { entry.state.stall() }
            }
            self.owner.roomMayHaveChanged()
            self.watchCrowds()
        }
    }

    private func putOff(_ tag: UInt64, since: UInt64, _ reason: Reason, _ nanoseconds: UInt64) {
        let wait = nanoseconds > 0 ? Int64(nanoseconds / 1_000_000) : nil
        let text =
            switch reason {
            case .credentials: "the push service refuses our key"
            case .rateLimited: "the push service rests"
            default: "the push service cannot be reached, or takes too long"
            }
        let deferral = Deferral(reason, scope: .device, retryAfterMilliseconds: wait)
        self.owner.answerLocally(tag, since, .deferred(deferral), text)
    }

    private func make(
        _ message: PreparedMessage,
        to recipient: Span<UInt8>,
        badge: UInt32,
        tag: UInt64,
        lane: Lane,
        _ times: (since: UInt64, validUntil: UInt64),
        _ entry: Entry,
    ) {
        guard let message = message.addressed else {
            preconditionFailure("a message without addresses of recipients' own")
        }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(recipient.count)
        for index in recipient.indices { bytes.append(recipient[index]) }
        self.inMaking += 1
        let (addressing, eventLoop, recipient) = (self.addressing, self.eventLoop, bytes)
        let bound = NIOLoopBound((self, entry), eventLoop: eventLoop)
        self.threads.run(for: eventLoop) { isActive -> AddressedRequest in
            guard isActive else {
                return .refused(.deferred(Deferral(.connection, scope: .device)), reason: "the process is ending")
            }
            return addressing.request(message, to: recipient, badge: badge)
        } then: { made in
            let (gateways, entry) = bound.value
            gateways.made(made, tag: tag, lane: lane, times, entry)
        }
    }

    private func made(
        _ made: AddressedRequest,
        tag: UInt64,
        lane: Lane,
        _ times: (since: UInt64, validUntil: UInt64),
        _ entry: Entry,
    ) {
        self.inMaking -= 1
        switch made {
        case .refused(let outcome, let reason):
            entry.state.left(lane)
            self.left(entry, lane)
            self.owner.counts.answeredLocally += 1
            self.owner.report(tag, outcome, ProviderAnswer(unsentSince: times.since, reason: reason))
            self.settled()
        case .request(let path, let headers, let body):
            let request = (path: path, headers: headers, body: body)
            entry.append(
                Waiting(request: request, tag: tag, since: times.since, validUntil: times.validUntil),
                lane,
            )
            if self.isDraining { return self.flush(entry, .returned, "the gateway is being replaced") }
            self.feed(entry)
        }
    }

    /// Records that a request of an origin waits no longer.
    private func left(_ entry: Entry, _ lane: Lane) {
        self.waiting[lane, default: 0] -= 1
        if !entry.state.isFull(lane) { self.crowded[lane]?.remove(entry.origin) }
    }

    /// Tells the owner that there may be room, or that its last request is answered.
    private func settled() {
        self.owner.roomMayHaveChanged()
        self.finishDrain()
    }

    private func feed(_ entry: Entry) {
        for lane in [Lane.express, .bulk] {
            while let next = entry.first(lane) {
                let now = ProviderGateway.now()
                guard now < next.validUntil else {
                    self.giveBackStale(entry, now: now)
                    continue
                }
                guard
                    entry.gateway.submit(
                        next.request,
                        tag: next.tag,
                        lane: lane,
                        now: now,
                        validUntil: next.validUntil,
                    )
                else { break }
                entry.removeFirst(lane)
                entry.state.gotRoom(now: now)
                self.left(entry, lane)
            }
        }
        self.owner.roomMayHaveChanged()
    }

    /// Gives back the requests of an origin that have waited for so long that their recipients must be read again. They
    /// come again at once, and no attempt is counted.
    private func giveBackStale(_ entry: Entry, now: UInt64) {
        var isAny = false
        for lane in [Lane.express, .bulk] {
            for waiting in entry.removeStale(lane, now: now) {
                isAny = true
                self.left(entry, lane)
                self.owner.counts.answeredLocally += 1
                let answer = ProviderAnswer(unsentSince: waiting.since, reason: "its recipient must be read again")
                self.owner.report(waiting.tag, .returned, answer)
            }
        }
        guard isAny else { return }
        self.owner.handedBack()
        self.settled()
    }

    /// Answers the waiting requests of an origin without sending them.
    private func flush(_ entry: Entry, _ outcome: DeliveryOutcome, _ reason: String, before limit: UInt64? = nil) {
        for lane in [Lane.express, .bulk] {
            while let next = entry.first(lane),
                limit.map({ entry.state.hasWaitedTooLong(since: next.since, now: $0) }) ?? true
            {
                entry.removeFirst(lane)
                self.left(entry, lane)
                self.owner.counts.answeredLocally += 1
                self.owner.report(next.tag, outcome, ProviderAnswer(unsentSince: next.since, reason: reason))
            }
        }
        if limit == nil { entry.state.emptied() }
        self.settled()
    }

    private static let unreachable = DeliveryOutcome.deferred(Deferral(.connection, scope: .device))

    // MARK: Origins

    private func entry(for origin: Origin, now: UInt64) -> Entry? {
        if let entry = self.entries[origin] { return entry }
        let trust = self.addressing.trust(in: origin.host)
        guard self.makeRoom(trust) else { return nil }
        var configuration = self.owner.configuration
        configuration.addressing = nil
        configuration.host = origin.host
        configuration.port = origin.port
        configuration.connectsTo = self.addressing.connectsTo
        configuration.names = self.addressing.connectsTo == nil ? configuration.namesOfOrigins(trust) : nil
        let gateway = ProviderGateway(
            configuration: configuration,
            credential: self.addressing.credential(for: origin),
            eventLoop: self.eventLoop,
            tls: self.owner.tls,
            clock: self.owner.clock,
            logger: self.owner.logger,
        )
        let exists = self.addressing.exists(origin.host)
        let entry = Entry(origin, trust, exists: exists, gateway, OriginState(self.limits, now: now))
        self.entries[origin] = entry
        self.entriesByGateway[ObjectIdentifier(gateway)] = entry
        gateway.delegate = self
        gateway.start()
        return entry
    }

    /// Makes room for one more origin; returns false when there is none.
    private func makeRoom(_ trust: HostTrust) -> Bool {
        let capacity = self.owner.configuration.originCapacity
        // No limit can be reached: nothing need be counted.
        guard self.entries.count >= min(capacity.originsMax, capacity.unknownMax) else { return true }
        let candidates = self.entries.values.map { entry in
            OriginCapacity.Candidate(
                origin: entry.origin,
                trust: entry.trust,
                isBusy: !entry.isEmpty,
                lastUse: entry.state.lastUse,
            )
        }
        switch capacity.decide(trust, among: candidates) {
        case .room: return true
        case .replace(let origin):
            if let entry = self.entries[origin] { self.close(entry) }
            return true
        case .full: return false
        }
    }

    private func close(_ entry: Entry) {
        guard self.entries[entry.origin] === entry else { return }
        self.entries[entry.origin] = nil
        for lane in Lane.allCases { self.crowded[lane]?.remove(entry.origin) }
        let gateway = entry.gateway
        self.entriesByGateway[ObjectIdentifier(gateway)] = nil
        self.noLongerFailing(entry.origin)
        self.leaving.append(entry)
        gateway.drain().assumeIsolated().whenComplete { _ in
            self.leaving.removeAll { $0 === entry }
            self.retired.add(entry.counts)
            self.finishDrain()
        }
    }

    private func entry(of gateway: ProviderGateway) -> Entry? { self.entriesByGateway[ObjectIdentifier(gateway)] }

    /// The origins that nothing can be sent to, for want of a connection or a credential.
    private var failing: Set<Origin> = []

    /// True while nothing can be sent to one of the origins.
    var isFailing: Bool { !self.failing.isEmpty }

    /// Records that an origin is in order or in use no more. The owner's delegate hears of the last one as of room.
    private func noLongerFailing(_ origin: Origin) {
        guard self.failing.remove(origin) != nil, self.failing.isEmpty else { return }
        self.owner.handedBack()
    }

    // MARK: Life cycle

    func start() { self.scheduleHousekeeping() }

    /// Answers what waits, and closes all gateways after their last answers.
    func drain() {
        self.isDraining = true
        self.housekeeper?.cancel()
        self.crowdTimer?.cancel()
        for entry in self.entries.values {
            self.flush(entry, .returned, "the gateway is being replaced")
            if entry.state.waiting == 0 { self.close(entry) }
        }
        self.finishDrain()
    }

    /// True when every request is answered and every gateway closed.
    var isDrained: Bool { self.isDraining && self.entries.isEmpty && self.leaving.isEmpty && self.inMaking == 0 }

    private func finishDrain() {
        guard self.isDraining else { return }
        for entry in self.entries.values where entry.state.waiting == 0 { self.close(entry) }
        self.owner.finishDrain()
    }

    /// Resumes all origins: the configuration may be correct again.
    func restored() {
        self.addressing.verdicts.restored(now: ProviderGateway.now())
        for entry in self.entries.values {
            entry.state.restored()
            entry.gateway.restored()
        }
    }

    /// Adds the origins, with their connections, requests and counts, to the owner's status.
    func add(to status: inout ProviderGatewayStatus) {
        let now = ProviderGateway.now()
        for entry in self.entries.values {
            let standing = entry.state.standing(now: now)
            // Anybody may name a host that refuses the key: that is no fault to look into.
            let isRest = standing == .refused && entry.trust == .unknown
            status.origins[isRest ? .resting : standing, default: 0] += 1
        }
        for entry in Array(self.entries.values) + self.leaving {
            let other = entry.gateway.status
            status.connections.add(other.connections)
            status.isBackingOff = status.isBackingOff || other.isBackingOff
            status.counts.add(entry.counts)
        }
        status.counts.add(self.retired)
        status.connections.inFlight += self.waiting.values.reduce(0, +)
    }

    /// The number of accepted requests without an answer.
    var inFlight: Int { self.entries.values.reduce(self.waiting.values.reduce(0, +)) { $0 + $1.gateway.inFlight } }

    private func scheduleHousekeeping() {
        let interval = self.owner.configuration.housekeeping
        self.housekeeper = self.eventLoop.assumeIsolated().scheduleTask(in: interval) {
            self.lookAfter()
            if !self.isDraining { self.scheduleHousekeeping() }
        }
    }

    private func lookAfter() {
        let now = ProviderGateway.now()
        let isScarce = self.waiting.values.contains { $0 >= Self.waitingMax }
        for entry in self.entries.values {
            let status = entry.gateway.status
            entry.state.connected(status.connections.open > 0, now: now)
            if status.isReady { self.noLongerFailing(entry.origin) }
            let isStuck = entry.isStuck(now: now, isScarce: isScarce)
            if isStuck { entry.state.stall() }
            if entry.state.isUnreachable(now: now) {
                self.flush(entry, Self.unreachable, "the push service cannot be reached")
            } else if isScarce, isStuck {
                // Its requests take the room of all other origins'.
                entry.state.rest(now: now)
                self.flush(entry, Self.unreachable, "the push service takes too long")
            } else if entry.state.isCramped(now: now) {
                self.flush(entry, Self.unreachable, "the push service takes too long")
            } else {
                self.flush(entry, Self.unreachable, "the push service takes too long", before: now)
                self.giveBackStale(entry, now: now)
            }
            if entry.state.refusedUntil > 0, now >= entry.state.refusedUntil, !self.owner.isHeld {
                entry.state.restored()
                entry.gateway.restored()
            }
            if entry.isEmpty, entry.state.isIdle(now: now) { self.close(entry) }
        }
    }

    // MARK: ProviderGatewayDelegate

    func gateway(
        _ gateway: ProviderGateway,
        answered tag: UInt64,
        _ outcome: DeliveryOutcome,
        _ answer: ProviderAnswer,
    ) {
        var (outcome, answer) = (outcome, answer)
        answer.isOfOneOrigin = true
        let now = answer.endedAt
        if let entry = self.entry(of: gateway) {
            entry.state.answered(outcome, now: now)
            if case .accepted = outcome, entry.trust != .unknown { self.addressing.verdicts.accepted(now: now) }
            if case .misconfigured(.credential) = outcome, !self.owner.isHeld {
                let wait = Int64(self.limits.refusalPause / 1_000_000)
                outcome = .deferred(Deferral(.credentials, scope: .device, retryAfterMilliseconds: wait))
            }
        }
        self.owner.report(tag, outcome, answer)
        if case .deferred(let deferral) = outcome, deferral.isFree { self.owner.handedBack() }
        self.settled()
    }

    func gatewayHasRoom(_ gateway: ProviderGateway) {
        if let entry = self.entry(of: gateway) { self.feed(entry) }
    }

    /// Pauses everything when the key is at fault, and otherwise one origin.
    func gateway(_ gateway: ProviderGateway, heldFor word: String) {
        guard let entry = self.entry(of: gateway) else { return }
        let now = ProviderGateway.now()
        entry.state.refused(now: now)
        if self.addressing.verdicts.refused(by: entry.origin.host, entry.trust, now: now) {
            self.owner.hold(for: word)
            for entry in self.entries.values { self.flush(entry, .misconfigured(.credential), word) }
        } else {
            let wait = Int64(self.limits.refusalPause / 1_000_000)
            let deferral = Deferral(.credentials, scope: .device, retryAfterMilliseconds: wait)
            self.flush(entry, .deferred(deferral), word)
        }
    }

    func gateway(_ gateway: ProviderGateway, cannotSend detail: String) {
        guard let entry = self.entry(of: gateway) else { return }
        // While another connection is open, the notifications go on.
        let status = gateway.status
        guard status.connections.open == 0 && entry.isReal || !status.hasCredential else { return }
        self.failing.insert(entry.origin)
        let host = entry.origin.host
        self.owner.delegate?.gateway(self.owner, cannotSend: detail.contains(host) ? detail : "\(host): \(detail)")
    }

    func gateway(_ gateway: ProviderGateway, connectedWithin nanoseconds: Int64, handshake: Int64) {
        if let entry = self.entry(of: gateway) {
            entry.state.connected(true, now: ProviderGateway.now())
            if gateway.status.hasCredential { self.noLongerFailing(entry.origin) }
        }
        self.owner.delegate?.gateway(self.owner, connectedWithin: nanoseconds, handshake: handshake)
    }

    func gateway(_ gateway: ProviderGateway, pingAnsweredWithin nanoseconds: Int64) {
        self.owner.delegate?.gateway(self.owner, pingAnsweredWithin: nanoseconds)
    }
}
