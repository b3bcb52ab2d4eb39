internal import ApusCore
internal import ApusMessages
internal import ApusMetrics
internal import ApusProviders
internal import ApusStore
internal import NIOCore

/// Everything that sends on one event loop: its gateways and the runs that feed them. Used on that loop only; no locks.
///
/// Runs of a route take turns, a bounded batch each, so that none of them waits for another to end; express runs come first and
/// have a connection of their own.
final class Worker {
    /// Submissions of one run per turn.
    static let batchMax = 128

    let eventLoop: any EventLoop
    private let clock: any WallClock
    private let flushInterval: TimeAmount
    private let heartbeat: TimeAmount
    private let metrics: DispatcherMetrics
    let shard: MetricShard
    private var gateways: [RouteNumber: ProviderGateway] = [:]
    private var runs: [ActiveRun?] = []
    private var freeSlots: [Int] = []
    private var waiting: [RouteNumber: WaitingRuns] = [:]
    private var flushTimer: RepeatedTask?
    private var activeCount = 0
    private var generator = SystemRandomNumberGenerator()

    init(
        eventLoop: any EventLoop,
        clock: any WallClock,
        flushInterval: TimeAmount,
        heartbeat: TimeAmount,
        metrics: DispatcherMetrics,
        shard: MetricShard,
    ) {
        precondition(heartbeat > flushInterval)
        self.eventLoop = eventLoop
        self.clock = clock
        self.flushInterval = flushInterval
        self.heartbeat = heartbeat
        self.metrics = metrics
        self.shard = shard
    }

    // MARK: Gateways

    func add(_ gateway: ProviderGateway, for route: RouteNumber) {
        gateway.delegate = self
        self.gateways[route] = gateway
        self.waiting[route] = WaitingRuns()
        gateway.start()
    }

    /// Closes all gateways when nothing of theirs is on the wire.
    func drain() -> EventLoopFuture<Void> {
        EventLoopFuture.andAllComplete(self.gateways.values.map { $0.drain() }, on: self.eventLoop)
    }

    // MARK: Runs

    /// Starts a run; its token is what the other calls name it by.
    func start(_ plan: RunPlan) -> RunToken {
        self.eventLoop.preconditionInEventLoop()
        let now = self.clock.now()
        let terms = RecipientRun.Terms(
            provider: plan.context.route.provider,
            attempt: plan.attempt,
            expiresAt: plan.send.expiresAt,
            firstAttemptAt: plan.firstAttemptAt,
            listsRecipients: plan.send.command.receiptLevel == .recipients,
        )
        let active = ActiveRun(
            run: RecipientRun(terms: terms, table: plan.table, journal: plan.journal, now: now),
            plan: plan,
        )
        let slot = self.freeSlots.popLast() ?? self.runs.count
        if slot == self.runs.count { self.runs.append(active) } else { self.runs[slot] = active }
        active.slot = slot
        self.activeCount += 1
        self.startFlushTimer()
        if let expiresAt = plan.send.expiresAt, now >= expiresAt {
            active.run.closeRest(.expired, .ttl, now: now)
        } else if self.gateways[plan.context.number] == nil {
            active.run.closeRest(.failed, .noRoute, now: now)
        }
        self.enqueue(active)
        self.feed(plan.context.number, lane: plan.lane)
        return RunToken(slot: slot, nonce: active.nonce)
    }

    /// Completes the promise when the run has something to write, has ended, or a heartbeat has passed.
    func awaitUpdate(_ token: RunToken, _ promise: EventLoopPromise<RunUpdate>) {
        guard let active = self.active(token) else { return promise.fail(WorkerError.noSuchRun) }
        precondition(active.waiter == nil, "one waiter per run")
        active.waiter = promise
        active.waitingSince = .now()
        self.update(active, isFlush: false)
    }

    /// Sends nothing more of that run; it ends when what is on the wire has its answer.
    func stop(_ token: RunToken) {
        guard let active = self.active(token) else { return }
        active.run.stop()
        self.update(active, isFlush: false)
    }

    /// Ends what is not on the wire with that outcome.
    func closeRest(_ token: RunToken, _ outcome: Outcome, _ reason: Reason) {
        guard let active = self.active(token) else { return }
        active.run.closeRest(outcome, reason, now: self.clock.now())
        self.update(active, isFlush: false)
    }

    /// Forgets a run that has ended. Traps while something of it is on the wire: its answer would find another's slot.
    func remove(_ token: RunToken) {
        guard let active = self.active(token) else { return }
        precondition(active.run.inFlight == 0)
        self.runs[token.slot] = nil
        self.freeSlots.append(token.slot)
        self.activeCount -= 1
        active.waiter?.fail(WorkerError.noSuchRun)
        if self.activeCount == 0 {
            self.flushTimer?.cancel()
            self.flushTimer = nil
        }
    }

    private func active(_ token: RunToken) -> ActiveRun? {
        self.eventLoop.preconditionInEventLoop()
        guard token.slot < self.runs.count, let active = self.runs[token.slot], active.nonce == token.nonce else {
            return nil
        }
        return active
    }

    private func enqueue(_ active: ActiveRun) {
        guard active.run.hasNext, !active.isQueued else { return }
        active.isQueued = true
        self.waiting[active.plan.context.number]?.append(active)
    }

    // MARK: Sending

    private func feed(_ route: RouteNumber, lane: Lane) {
        guard let gateway = self.gateways[route], var queue = self.waiting[route] else { return }
        self.waiting[route] = nil
        defer { self.waiting[route] = queue }
        while let active = queue.takeFirst(lane) {
            active.isQueued = false
            let hasRoom = self.submitBatch(of: active, to: gateway)
            if active.run.hasNext {
                active.isQueued = true
                queue.append(active)
            }
            guard hasRoom else { return }
        }
    }

    /// Submits up to a batch; false when the gateway has no room left.
    private func submitBatch(of active: ActiveRun, to gateway: ProviderGateway) -> Bool {
        let plan = active.plan
        for _ in 0..<Self.batchMax {
            guard gateway.hasRoom(plan.lane) else { return false }
            guard let index = active.run.takeNext() else { return true }
            let row = plan.table.rows[index]
            let start = Int(row.tokenOffset)
            let id = APNsID(sendDigest: plan.send.digest, row)
            let accepted = gateway.submit(
                plan.context.messages.variants[Int(row.variant)],
                token: plan.table.tokens.span.extracting(start..<start + Int(row.tokenLength)),
                id: (id.high, id.low),
                tag: UInt64(active.slot) << 32 | UInt64(index),
                lane: plan.lane,
            )
            guard accepted else {
                active.run.putBack(index)
                return false
            }
        }
        return true
    }

    // MARK: Reporting

    private func startFlushTimer() {
        guard self.flushTimer == nil else { return }
        let bound = NIOLoopBound(self, eventLoop: self.eventLoop)
        self.flushTimer = self.eventLoop.scheduleRepeatedTask(
            initialDelay: self.flushInterval,
            delay: self.flushInterval,
        ) { _ in bound.value.flush() }
    }

    private func flush() {
        for active in self.runs {
            if let active { self.update(active, isFlush: true) }
        }
    }

    /// Hands what a run has to whoever waits for it: at its end at once, else at a flush.
    private func update(_ active: ActiveRun, isFlush: Bool) {
        guard let waiter = active.waiter else { return }
        let isFinished = active.run.isFinished
        let now = self.clock.now()
        let isOverdue = NIODeadline.now() - active.waitingSince >= self.heartbeat
        guard isFinished || (isFlush && !active.plan.reportsAtEnd && (active.run.isDue(now: now) || isOverdue)) else {
            return
        }
        active.waiter = nil
        let taken = active.run.takeReport(now: now)
        self.count(taken, active)
        waiter.succeed(
            RunUpdate(
                report: taken.report,
                retries: taken.retries,
                bitmap: taken.bitmap,
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
        let now = self.clock.now()
        let provider = active.run.terms.provider
        self.shard[self.metrics.requests[provider, AnswerCode(status: answer.status)]] += 1
        if answer.status != 0 {
            let elapsed = NIODeadline.now() - NIODeadline.uptimeNanoseconds(answer.startedAt)
            self.shard.observe(elapsed.nanoseconds, in: self.metrics.requestDuration[provider])
        }
        if case .accepted = outcome, !active.run.terms.listsRecipients {
            active.run.accepted(index, now: now)
            self.countAccepted(active)
        } else {
            self.settle(active, index, outcome, answer, now: now)
        }
        if active.run.isFinished { self.update(active, isFlush: false) }
    }

    func gatewayHasRoom(_ gateway: ProviderGateway) {
        guard let number = self.gateways.first(where: { $0.value === gateway })?.key else { return }
        for lane in Lane.allCases { self.feed(number, lane: lane) }
    }

    private func settle(
        _ active: ActiveRun,
        _ index: Int,
        _ outcome: DeliveryOutcome,
        _ answer: ProviderAnswer,
        now: UnixMilliseconds,
    ) {
        if case .accepted = outcome { self.countAccepted(active) }
        let elapsed = NIODeadline.now() - NIODeadline.uptimeNanoseconds(answer.startedAt)
        let table = active.plan.table
        let consequence = active.run.answered(
            index,
            outcome,
            detail: RecipientRun.Detail(
                reason: answer.reason(),
                id: answer.id(),
                tokenDigest: DeviceToken.digest(Array(table.token(index))),
                startedAt: now.advanced(byMilliseconds: -elapsed.nanoseconds / 1_000_000),
            ),
            now: now,
            draw: Double.random(in: 0..<1, using: &self.generator),
        )
        if consequence == .sendAgain { self.enqueue(active) }
    }

    /// What was learnt since the last report, in bulk: per notification nothing is counted here but what needs its own time.
    private func count(_ taken: RecipientRun.Taken, _ active: ActiveRun) {
        for count in taken.report.counts(provider: active.run.terms.provider) {
            let amount = Int64(clamping: count.count)
            self.shard[self.metrics.deliveries[count.provider, count.outcome]] += amount
            if count.outcome != .accepted { self.shard[self.metrics.reasons[count.provider, count.reason]] += amount }
        }
        for reason in taken.retryReasons { self.shard[self.metrics.retries[active.run.terms.provider, reason]] += 1 }
    }

    /// Takes over what the gateways know of the moment and of their past. Before each scrape.
    func collect() {
        for provider in Provider.allCases {
            let statuses = self.gateways.values.filter { $0.configuration.provider == provider }.map(\.status)
            self.shard[self.metrics.connections[provider]] = statuses.reduce(0) { $0 + Int64($1.connections.open) }
            self.shard[self.metrics.inFlight[provider]] = statuses.reduce(0) { $0 + Int64($1.connections.inFlight) }
            self.shard[self.metrics.streamsLimit[provider]] = statuses.reduce(0) {
                $0 + Int64($1.connections.streamsLimit)
            }
            self.shard[self.metrics.goAways[provider]] = statuses.reduce(0) { $0 + Int64(clamping: $1.counts.goAways) }
            self.shard[self.metrics.connectionAttempts[provider, .ok]] = statuses.reduce(0) {
                $0 + Int64(clamping: $1.counts.handshakes)
            }
            self.shard[self.metrics.connectionAttempts[provider, .failed]] = statuses.reduce(0) {
                $0 + Int64(clamping: $1.counts.attemptsFailed)
            }
        }
    }

    private func countAccepted(_ active: ActiveRun) {
        guard active.plan.publishedAtNanoseconds > 0 else { return }
        let elapsed = self.clock.nanosecondsSince1970() - active.plan.publishedAtNanoseconds
        if elapsed < 0 { self.shard[self.metrics.clockSkew] += 1 }
        self.shard.observe(elapsed, in: self.metrics.deliveryLatency[active.run.terms.provider])
    }
}

/// What is wrong with a call to a worker.
enum WorkerError: Error {
    /// The run has ended and was removed.
    case noSuchRun
}

extension APNsID {
    /// The id of a send to a row.
    fileprivate init(sendDigest: UInt64, _ row: RecipientTable.Row) {
        if row.partition == RecipientTable.addressPartition {
            self.init(sendDigest: sendDigest, place: .address(row.ordinal))
        } else {
            self.init(
                sendDigest: sendDigest,
                partition: row.partition,
                ordinal: row.ordinal,
                generation: row.generation,
            )
        }
    }
}
