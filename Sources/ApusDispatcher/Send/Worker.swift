internal import ApusCore
internal import ApusMessages
internal import ApusMetrics
internal import ApusProviders
internal import ApusRedis
internal import ApusService
internal import ApusStore
internal import ApusStreams
internal import NIOCore

/// Sends on one event loop: holds its routes and the runs that feed them. Used on that loop only; no locks.
///
/// Runs of a route take turns, so that none of them waits for another to end. A turn is made of batches, and is over with the first one that
/// goes out whole after some milliseconds. Express runs come first and have a connection of their own. A batch goes out only as far as the
/// route's rate, the send's rate, the circuit, the window and the gateway allow: each is asked once per batch, none per notification.
final class Worker {
    /// The maximum of submissions of a batch.
    static let batchMax = 128
    /// A direct send that could not go out for so long becomes units of its route.
    static let directPatience: TimeAmount = .seconds(1)
    /// The time for which the timer of flushes goes on after the last run has begun.
    private static let flushLinger: TimeAmount = .seconds(1)

    let eventLoop: any EventLoop
    let clock: any WallClock
    let settings: WorkerSettings
    private let rateLimitSource: any RateLimitSource
    let metrics: DispatcherMetrics
    let shard: MetricShard
    private let spans: SpanRecorder?
    private(set) var routes: [RouteNumber: RouteSender] = [:]
    var sendRateLimits: [RateLimit: SendRateLimit] = [:]
    var trials: [SharedTrial.Key: SharedTrial] = [:]
    private var reports: [RedisEndpoint: ServerReports] = [:]
    private var runs: [ActiveRun?] = []
    private var freeSlots: [Int] = []
    private var nextNonce: UInt64 = 0
    private var flushTimer: RepeatedTask?
    /// The time at which the last run began.
    private var startedAt = NIODeadline.uptimeNanoseconds(0)
    private var activeCount = 0
    private var generator = SeededGenerator(seed: .random(in: .min ... .max))
    /// A moment of the monotonic clock, and the time of day then.
    private var lastMoment: UInt64 = 0
    private var lastTime: Int64 = 0

    init(
        eventLoop: any EventLoop,
        clock: any WallClock,
        settings: WorkerSettings,
        rateLimitSource: any RateLimitSource,
        metrics: DispatcherMetrics,
        shard: MetricShard,
        spans: SpanRecorder? = nil,
    ) {
        self.eventLoop = eventLoop
        self.clock = clock
        self.settings = settings
        self.rateLimitSource = rateLimitSource
        self.metrics = metrics
        self.shard = shard
        self.spans = spans
    }

    // MARK: Gateways

    func add(_ gateways: RouteGateways, for route: RouteNumber, rateLimit limit: RouteRateLimit) {
        let rateLimit = self.rateLimit(of: limit.limiter, ratePerSecond: limit.ratePerSecond)
        let sender = RouteSender(number: route, gateways: gateways, rateLimit: rateLimit, window: self.settings.window)
        rateLimit.configurationFingerprint = gateways.configurationFingerprint
        self.routes[route] = sender
        sender.start(delegate: self)
    }

    func rateLimit(of limiter: RateLimit, ratePerSecond: Double?) -> RateLimitClient {
        RateLimitClient(
            limiter,
            ratePerSecond: ratePerSecond,
            source: self.rateLimitSource,
            eventLoop: self.eventLoop,
            user: self
        )
    }

    /// Sends over other gateways as soon as they can; those before end when they owe no answer any more.
    func exchange(_ gateways: RouteGateways, for route: RouteNumber) {
        guard let route = self.routes[route] else { preconditionFailure("a gateway for an unknown route") }
        gateways.notifications.delegate = self
        gateways.broadcasts?.delegate = self
        route.rateLimit.configurationFingerprint = gateways.configurationFingerprint
        route.rateLimit.subroutes.configurationChanged()
        route.exchange(for: gateways)
    }

    /// Closes all gateways when nothing of theirs is on the wire.
    func drain() -> EventLoopFuture<Void> {
        for route in self.routes.values { route.rateLimit.stop() }
        return EventLoopFuture.andAllComplete(self.routes.values.map { $0.drain() }, on: self.eventLoop)
    }

    // MARK: Runs

    /// Starts a run; its token is what the other calls name it by.
    func start(_ plan: RunPlan) -> RunToken {
        self.eventLoop.preconditionInEventLoop()
        let now = self.clock.now()
        let terms = RecipientRun.Terms(
            provider: plan.context.route.provider,
            retryRules: plan.context.retryRules,
            attempt: plan.attempt,
            expiresAt: plan.send.expiresAt,
            firstAttemptAt: plan.firstAttemptAt,
            listsRecipients: plan.send.listsRecipients,
            isAtMostOnce: plan.send.command.delivery == .atMostOnce,
            hasOtherEnvironment: plan.other != nil,
            isOtherEnvironment: plan.storedRoute != nil,
            canProbe: plan.context.tokenProbe != nil,
            variants: plan.context.messages.variants.count,
            waitsForThirdPartyAuth: plan.waitsForThirdPartyAuth,
        )
        let active = ActiveRun(
            run: RecipientRun(
                terms: terms,
                table: plan.table,
                journal: plan.journal,
                freshness: RecipientFreshness(
                    validFor: UInt64(self.settings.validity(of: plan.send).nanoseconds),
                    readAt: plan.readAt.uptimeNanoseconds,
                    count: plan.table.rows.count,
                ),
                now: now,
            ),
            plan: plan,
            nonce: self.nextNonce,
            draw: Double.random(in: 0..<1, using: &self.generator),
        )
        self.nextNonce += 1
        let slot = self.freeSlots.popLast() ?? self.runs.count
        if slot == self.runs.count { self.runs.append(active) } else { self.runs[slot] = active }
        active.slot = slot
        self.activeCount += 1
        self.startFlushTimer()
        self.setRate(plan.ratePerSecond, of: active)
        if let ending = plan.ending { active.run.closeRest(ending.outcome, ending.reason, now: now) }
        if let server = plan.server {
            let reports = self.reports[server] ?? ServerReports()
            self.reports[server] = reports
            reports.runs += 1
            // Redis has just said that the run may begin.
            reports.answered(at: plan.ownedAt)
            active.reports = reports
            self.goOn(reports)
        }
        active.route = self.routes[plan.context.number]
        active.gatewaySlot = active.route?.gatewaySlot(of: plan.context)
        self.joinTrial(active)
        if let route = active.route {
            self.join(active, route)
        } else {
            active.run.closeRest(.failed, .noRoute, now: now)
        }
        return RunToken(slot: slot, nonce: active.nonce)
    }

    private func join(_ active: ActiveRun, _ route: RouteSender) {
        route.runs += 1
        self.expire(active, now: self.clock.now())
        if active.plan.reportsAtEnd {
            let now = NIODeadline.now()
            if route.isClosed(now: now.uptimeNanoseconds) || !route.directRuns.hasRoom(now: now) {
                self.setAside(active)
            } else {
                route.directRuns.begin()
                active.isAmongDirectRuns = true
            }
        }
        // A run that marks its recipients first has some to send to as soon as the marks are written.
        guard active.run.hasNext || active.run.terms.isAtMostOnce else { return }
        self.enqueue(active)
        self.feed(route, active.plan.lane)
        // A run that waits for its turn, or for room, gains nothing by more permits.
        let now = NIODeadline.now().uptimeNanoseconds
        let lacksPermits = route.rateLimit.bucket.available(active.plan.lane, now: now) == 0
        route.rateLimit.need(hurry: active.isQueued && lacksPermits)
    }

    /// Resumes the waiter when the run has something to write, has ended, or a heartbeat has passed. Whatever was taken before
    /// is written by now.
    func awaitUpdate(_ token: RunToken, _ waiter: CheckedContinuation<RunUpdate, any Error>) {
        guard let active = self.active(token) else { return waiter.resume(throwing: WorkerError.noSuchRun) }
        precondition(active.waiter == nil, "one waiter per run")
        active.waiter = waiter
        let now = NIODeadline.now()
        active.waitingSince = now
        active.reportWritten(now: now)
        self.finishTrial(of: active)
        self.expire(active, now: self.clock.now())
        if let route = active.route {
            route.window.settled(active.beingWritten)
            active.beingWritten = 0
            self.enqueue(active)
            for lane in Lane.allCases { self.feed(route, lane) }
        }
        self.update(active, isFlush: false)
        self.handOverRecheck(of: active)
        if let reports = active.reports { self.goOn(reports) }
    }

    /// Lets runs that have missed their turns have them, because reports are written again.
    private func goOn(_ reports: ServerReports) {
        guard !reports.isSilent(now: .now(), for: self.settings.unwrittenTimeMax) else { return }
        for active in reports.takeParked() {
            guard let route = active.route else { continue }
            self.enqueue(active)
            self.feed(route, active.plan.lane)
        }
    }

    /// Sends nothing more of that run; it ends when what is on the wire has its answer.
    func stop(_ token: RunToken) {
        guard let active = self.active(token) else { return }
        active.run.stop()
        self.update(active, isFlush: false)
    }

    /// Stops a run whose reports are not written any more.
    func abandon(_ token: RunToken) {
        self.active(token)?.isAbandoned = true
        self.stop(token)
    }

    /// Ends what is not on the wire with that outcome.
    func closeRest(_ token: RunToken, _ outcome: Outcome, _ reason: Reason) {
        guard let active = self.active(token) else { return }
        active.run.closeRest(outcome, reason, now: self.clock.now())
        if outcome == .rejected { active.trial?.trial.recordRefused() }
        self.update(active, isFlush: false)
    }

    /// Forgets a run that has ended. Traps while something of it is on the wire: its answer would find another's slot.
    func remove(_ token: RunToken) {
        guard let active = self.active(token) else { return }
        precondition(active.run.inFlight == 0)
        self.runs[token.slot] = nil
        self.freeSlots.append(token.slot)
        self.activeCount -= 1
        active.waiter?.resume(throwing: WorkerError.noSuchRun)
        self.leaveSendRateLimit(active)
        self.leaveTrial(active)
        self.leaveReports(active)
        if let route = active.route {
            if active.isQueued { active.gatewaySlot?.waiting.remove(active) }
            route.window.settled(active.answered + active.beingWritten)
            route.runs -= 1
            if active.isAmongDirectRuns { route.directRuns.end(begunAt: active.startedAt, now: .now()) }
            for lane in Lane.allCases { self.feed(route, lane) }
        }
    }

    private func leaveReports(_ active: ActiveRun) {
        guard let server = active.plan.server, let reports = active.reports else { return }
        active.endReport(now: .now())
        reports.remove(active)
        reports.runs -= 1
        if reports.runs == 0 { self.reports[server] = nil } else { self.goOn(reports) }
    }

    func active(_ token: RunToken) -> ActiveRun? {
        self.eventLoop.preconditionInEventLoop()
        guard token.slot < self.runs.count, let active = self.runs[token.slot], active.nonce == token.nonce else {
            return nil
        }
        return active
    }

    /// Lets a run wait for its turn, unless its recipients are being read again: then it has one after that.
    func enqueue(_ active: ActiveRun) {
        guard active.run.hasNext, !active.isQueued, !active.run.isBeingRechecked else { return }
        active.isQueued = true
        active.turnBeganAt = nil
        active.gatewaySlot?.waiting.append(active)
    }

    private func expire(_ active: ActiveRun, now: UnixMilliseconds) {
        guard active.run.hasNext, let expiresAt = active.plan.send.expiresAt, now >= expiresAt else { return }
        active.run.closeRest(.expired, .ttl, now: now)
    }

    /// Takes whoever was not sent to out of a direct send.
    func setAside(_ active: ActiveRun) {
        active.run.abandonProbes(now: self.clock.now())
        active.unsent += active.run.takeUnsent()
    }

    // MARK: Reporting

    private func startFlushTimer() {
        self.startedAt = .now()
        guard self.flushTimer == nil else { return }
        let bound = NIOLoopBound(self, eventLoop: self.eventLoop)
        self.flushTimer = self.eventLoop.scheduleRepeatedTask(
            initialDelay: self.settings.flushInterval,
            delay: self.settings.flushInterval,
        ) { _ in bound.value.flush() }
    }

    private func flush() {
        let now = self.clock.now()
        let time = NIODeadline.now()
        // Kept for a while, since single sends come one after the other.
        if self.activeCount == 0, time - self.startedAt > Self.flushLinger {
            self.flushTimer?.cancel()
            self.flushTimer = nil
        }
        for active in self.runs {
            guard let active else { continue }
            self.expire(active, now: now)
            let isTired = active.plan.reportsAtEnd && active.isHeldBack(now: time, by: self.settings)
            if isTired, active.run.hasNext { self.setAside(active) }
            self.update(active, isFlush: true)
        }
    }

    /// Asks the waiter of a run to read recipients again; without a waiter, its next call is answered so.
    func handOverRecheck(of active: ActiveRun) {
        guard let indices = active.recheck, let waiter = active.waiter else { return }
        active.waiter = nil
        active.recheck = nil
        var update = RunUpdate(report: RunReport(), retries: [], bitmap: [], isFinished: false, isComplete: false)
        update.recheck = indices
        waiter.resume(returning: update)
    }

    /// Hands what a run has to whoever waits for it: at its end at once, else at a flush.
    private func update(_ active: ActiveRun, isFlush: Bool) {
        let isFinished = active.run.isFinished
        if isFinished { self.noteLastAnswer(of: active, now: .now()) }
        guard let waiter = active.waiter else { return }
        let now = self.clock.now()
        let time = NIODeadline.now()
        let isOverdue =
            time - active.waitingSince >= self.settings.heartbeat
            || active.isHeldBack(now: time, by: self.settings)
        guard isFinished || (isFlush && !active.plan.reportsAtEnd && (active.run.isDue(now: now) || isOverdue)) else {
            return
        }
        active.waiter = nil
        let taken = active.run.takeReport(now: now)
        active.reportTaken(now: time)
        if taken.rejection?.isByAll == true { active.hasReportedRejection = true }
        self.count(taken, active)
        waiter.resume(
            returning: RunUpdate(
                report: taken.report,
                retries: taken.retries,
                putOff: taken.unsent,
                thirdPartyAuth: taken.thirdPartyAuth,
                subroute: taken.subroute,
                elsewhere: taken.elsewhere,
                unsent: active.unsent,
                bitmap: taken.bitmap,
                changesMarks: taken.changesMarks,
                rejection: taken.rejection,
                waitsForSendRate: active.isParked && active.run.hasNext,
                isFinished: isFinished,
                isComplete: active.run.done.isComplete,
            )
        )
    }
}

extension Worker: ProviderGatewayDelegate {
    func gateway(
        _ gateway: ProviderGateway,
        answered tag: UInt64,
        _ outcome: DeliveryOutcome,
        _ answer: ProviderAnswer,
    ) {
        let index = Int(tag & 0xffff_ffff)
        guard let active = self.runs[Int(tag >> 32)] else { preconditionFailure("an answer for a run that is gone") }
        let time = self.time(at: answer.endedAt)
        let now = UnixMilliseconds(time / 1_000_000)
        let provider = active.plan.context.route.provider
        if answer.wasSent { self.shard[self.metrics.requests[provider, AnswerCode(status: answer.status)]] += 1 }
        if answer.status != 0 {
            let elapsed = Int64(answer.endedAt) - Int64(answer.startedAt)
            self.observe(elapsed, active, in: self.metrics.requestDuration[provider], now: now)
        }
        if let spans, active.plan.reportsAtEnd { spans.record(active, index, outcome, answer, endedAt: time) }
        guard let route = active.route else { preconditionFailure("an answer of a route that is not there") }
        let wasAsking = active.plan.waitsForThirdPartyAuth || active.run.isAskingSubroute
        if !route.rateLimit.subroutes.isQuiet { self.noteSubroute(of: active, route, outcome) }
        if case .accepted = outcome, active.run.isOrdinary(index) {
            route.circuit.recordAccepted()
            route.faults.recordAccepted()
            active.run.accepted(index, now: now)
            active.answered += 1
            self.noteTrial(of: active, outcome)
            self.countAccepted(active, provider, at: time)
        } else {
            let meaning = self.learn(outcome, answer, active.plan.context.subroute, route, gateway)
            let isProbe = active.run.probes.isProbe(index)
            self.settle(active, index, meaning, answer, route, gateway, now: now)
            let variant = Int(active.run.table.rows[index].variant)
            self.noteTrial(
                of: active,
                isProbe ? nil : meaning,
                rejectedField: answer.isOfOnePlatform ? "" : answer.rejectedField,
                variant: variant
            )
        }
        if wasAsking { self.goOn(active, route, outcome) }
        if active.run.isFinished { self.update(active, isFlush: false) }
    }

    /// Records what an answer says of the route as a whole, or of a subroute; returns its meaning after all answers before it.
    private func learn(
        _ outcome: DeliveryOutcome,
        _ answer: ProviderAnswer,
        _ subroute: String,
        _ route: RouteSender,
        _ gateway: ProviderGateway,
    ) -> DeliveryOutcome {
        let now = NIODeadline.now().uptimeNanoseconds
        // The gateway is draining: an answer about the configuration concerns the one before. The request may have been the circuit's probe.
        if case .misconfigured = outcome, !route.isSentWith(gateway) {
            route.circuit.record(.neutral, now: now, draw: 0)
            return outcome
        }
        let draw = Double.random(in: 0..<1, using: &self.generator)
        var meaning = route.faults.record(outcome, now: now)
        // Nothing of such a route can wait by itself.
        if meaning == .misconfigured(.subroute), subroute.isEmpty { meaning = .misconfigured(.route) }
        switch meaning {
        case .misconfigured(.route), .misconfigured(.forbidden):
            route.rateLimit.bucket.record(RouteFault(.configuration, answer.reason()))
        case .misconfigured(.subroute):
            route.rateLimit.subroutes.recordRefusal(of: subroute, answer.reason(), now: now, draw: draw)
        case .misconfigured(.thirdPartyAuth): route.rateLimit.bucket.record(thirdPartyFault: answer.reason())
        default: break
        }
        let circuitAnswer = CircuitBreaker.Answer(meaning, isOfOneOrigin: answer.isOfOneOrigin)
        if case .failure = circuitAnswer { route.lastFailure = answer.reason() }
        route.circuit.record(circuitAnswer, now: now, draw: draw)
        route.rateLimit.bucket.record(meaning, now: now, draw: draw)
        if route.rateLimit.hasNews { route.rateLimit.need(hurry: false) }
        return meaning
    }

    func gatewayHasRoom(_ gateway: ProviderGateway) {
        guard let route = self.routes.values.first(where: { $0.tookOver(gateway) }) else { return }
        if !gateway.hasFailingOrigin { route.rateLimit.bucket.recordConnectionFaultOver() }
        for lane in Lane.allCases { self.feed(route, lane) }
    }

    private func settle(
        _ active: ActiveRun,
        _ index: Int,
        _ outcome: DeliveryOutcome,
        _ answer: ProviderAnswer,
        _ route: RouteSender,
        _ gateway: ProviderGateway,
        now: UnixMilliseconds,
    ) {
        if case .accepted = outcome, !active.run.probes.isProbe(index) {
            self.countAccepted(active, active.run.terms.provider, at: self.time(at: answer.endedAt))
        }
        let elapsed = Int64(answer.endedAt) - Int64(answer.startedAt)
        let consequence = active.run.answered(
            index,
            outcome,
            detail: RecipientRun.Detail(
                reason: answer.reason(),
                id: answer.id(),
                status: answer.status,
                wasSent: answer.wasSent,
                startedAt: now.advanced(byMilliseconds: -elapsed / 1_000_000),
                wantsTokenProbe: answer.wantsTokenProbe,
                rejectedField: answer.rejectedField,
                isOfOnePlatform: answer.isOfOnePlatform,
            ),
            now: now,
            draw: active.draw,
        )
        switch consequence {
        case .settled: active.answered += 1
        case .sendAgain:
            route.window.settled(1)
            if outcome == .misconfigured(.subroute) { self.holdSubroute(of: active, route) }
            self.enqueue(active)
            // The room of a draining gateway does not matter: the other one is asked.
            if gateway !== active.gatewaySlot?.gateway {
                self.eventLoop.assumeIsolated().execute {
                    for lane in Lane.allCases { self.feed(route, lane) }
                }
            }
        }
    }

    private func countAccepted(_ active: ActiveRun, _ provider: Provider, at time: Int64) {
        guard active.plan.publishedAtNanoseconds > 0 else { return }
        let elapsed = time - active.plan.publishedAtNanoseconds
        if elapsed < 0 { self.shard[self.metrics.clockSkew] += 1 }
        self.observe(
            elapsed,
            active,
            in: self.metrics.deliveryLatency[ProviderLane(provider, active.plan.lane)],
            now: UnixMilliseconds(time / 1_000_000),
        )
    }

    /// Returns the time of day at a moment of the monotonic clock that has just been: looked at once for all answers that came together.
    private func time(at moment: UInt64) -> Int64 {
        if moment != self.lastMoment { (self.lastMoment, self.lastTime) = (moment, self.clock.nanosecondsSince1970()) }
        return self.lastTime
    }

    /// Records a time of a run, beside its trace if somebody records that.
    private func observe(_ elapsed: Int64, _ active: ActiveRun, in histogram: Histogram, now: UnixMilliseconds) {
        guard let trace = active.recordedTrace else { return self.shard.observe(elapsed, in: histogram) }
        let exemplar = MetricExemplar(trace: trace, value: max(0, elapsed), milliseconds: now.value)
        self.shard.observe(exemplar, in: histogram)
    }
}

/// Reports a wrong call to a worker.
enum WorkerError: Error, CustomStringConvertible {
    /// The run has ended and was removed.
    case noSuchRun

    /// The sentence.
    var description: String { "the run has ended and was removed" }
}
