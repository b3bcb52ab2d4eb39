internal import ApusCore
internal import ApusMessages
internal import ApusMetrics
internal import ApusRedis
internal import ApusStore
internal import ApusStreams
internal import Logging

/// Takes each entry of a shard to its end: commands, plans and work units.
struct DispatchHandler: Sendable {
    let keys: StreamKeys
    let streams: SendStreams
    let store: DeviceStore
    let book: SendBook
    let routes: RouteBook
    let consumer: StreamConsumer
    let worker: WorkerHandle
    let settings: DispatcherSettings
    let instruments: DispatcherInstruments
    let clock: any WallClock
    let logger: Logger

    /// Handles one entry. Throwing leaves it pending.
    func handle(_ entry: StreamEntry, isStopping: @escaping @Sendable () -> Bool) async throws {
        guard entry.deliveries < StreamLimits.deliveriesMax else {
            let detail = "delivered \(entry.deliveries) times without progress"
            return try await self.bury(entry, .poison, Problem(code: "poison", detail: detail))
        }
        if entry.stream == self.keys.plan {
            try await self.plan(entry, isStopping)
        } else if self.keys.route(ofWork: entry.stream) != nil {
            try await self.work(entry, isStopping)
        } else {
            try await self.command(entry)
        }
    }

    // MARK: Commands

    private func command(_ entry: StreamEntry) async throws {
        let now = self.clock.now()
        switch IntakeDecision(message: entry.message, now: now) {
        case .refuse(let cause, let problem, let app, let send):
            try await self.refuse(entry, cause, problem, command: nil, app: app, send: send, now: now)
        case .direct(let command):
            self.observeWait(command)
            let identity = SendIdentity(of: command, origin: entry.origin)
            guard let context = try await self.context(of: command, identity, entry, now) else { return }
            let direct = DirectSend(handler: self, entry: entry, identity: identity, context: context)
            guard try await direct.perform() == .needsPlan else { return }
            try await self.accept(command, identity, entry, due: nil, now)
        case .plan(let command, let due):
            self.observeWait(command)
            let identity = SendIdentity(of: command, origin: entry.origin)
            guard try await self.context(of: command, identity, entry, now) != nil else { return }
            try await self.accept(command, identity, entry, due: due, now)
        }
    }

    /// The command written out for its routes; nil: it broke a rule and was refused.
    private func context(
        of command: SendCommand,
        _ identity: SendIdentity,
        _ entry: StreamEntry,
        _ now: UnixMilliseconds,
    ) async throws -> SendContext? {
        let tag = self.streams.home(app: command.app, identity.home).tag
        do {
            return try await self.book.context(of: command, send: identity.send, tag: tag)
        } catch let problem as Problem {
            try await self.refuse(
                entry,
                .invalid,
                problem,
                command: command,
                app: command.app,
                send: identity.send,
                now: now
            )
            return nil
        }
    }

    private func accept(
        _ command: SendCommand,
        _ identity: SendIdentity,
        _ entry: StreamEntry,
        due: UnixMilliseconds?,
        _ now: UnixMilliseconds,
    ) async throws {
        let result = try await self.streams.accept(
            command,
            identity: identity,
            from: entry,
            by: self.consumer,
            due: due
        )
        switch result.admission {
        case .new, .again:
            self.count(.accepted)
            guard !result.acknowledged else { return }
            _ = try await self.streams.done(
                stream: entry.stream,
                entries: [entry.id],
                by: self.consumer,
                tag: self.keys.tag
            )
        case .duplicate(let send): try await self.duplicate(entry, command, identity, of: send)
        case .conflict(let send): try await self.conflict(entry, command, identity, with: send, now)
        }
    }

    /// Tells the publisher which send the key named before, and drops the command.
    func duplicate(_ entry: StreamEntry, _ command: SendCommand, _ identity: SendIdentity, of send: String) async throws
    {
        self.count(.duplicate)
        var receipt = SendReceipt(
            id: "duplicate:\(identity.send)",
            send: identity.send,
            app: command.app,
            kind: .refused
        )
        receipt.problem = Problem(
            code: "duplicate",
            field: "idempotency_key",
            detail: "the same command was taken before as \(send)"
        )
        receipt.duplicateOf = send
        try await self.reply(receipt, command)
        _ = try await self.streams.done(
            stream: entry.stream,
            entries: [entry.id],
            by: self.consumer,
            tag: self.keys.tag
        )
    }

    /// A key that names another body: dead letter and receipt.
    func conflict(
        _ entry: StreamEntry,
        _ command: SendCommand,
        _ identity: SendIdentity,
        with send: String,
        _ now: UnixMilliseconds,
    ) async throws {
        let problem = Problem(
            code: "conflict",
            field: command.idempotencyKey.isEmpty ? "id" : "idempotency_key",
            detail: "names another command within the last 24 hours: \(send)",
        )
        try await self.refuse(
            entry,
            .conflict,
            problem,
            command: command,
            app: command.app,
            send: identity.send,
            now: now
        )
    }

    func refuse(
        _ entry: StreamEntry,
        _ cause: DeadLetter.Cause,
        _ problem: Problem,
        command: SendCommand?,
        app: String,
        send: String,
        now: UnixMilliseconds,
    ) async throws {
        self.count(cause == .conflict ? .conflict : .invalid)
        self.logger.warning(
            "refused a command",
            metadata: ["entry": "\(entry.origin)", "code": "\(problem.code)", "problem": "\(problem)", "app": "\(app)"],
        )
        var letter = DeadLetter(
            stream: entry.stream,
            entry: entry.id,
            cause: cause,
            problem: problem,
            payload: Array(entry.message.prefix(Limits.deadLetterPayloadBytesMax)),
            at: now,
        )
        letter.deliveries = entry.deliveries
        letter.service = "dispatcher"
        letter.app = app
        letter.send = send
        var receipt = SendReceipt(id: "refused:\(entry.origin)", send: send, app: app, kind: .refused)
        receipt.problem = problem
        receipt.traceparent = command?.traceparent ?? ""
        receipt.idempotencyKey = command?.idempotencyKey ?? ""
        receipt.publishedAtNanoseconds = command?.publishedAtNanoseconds ?? 0
        var ownReceipt: SendReceipt? = receipt
        if let command, !command.replyTo.isEmpty {
            try await self.streams.write(receipt, replyTo: command.replyTo, tag: self.keys.tag)
            ownReceipt = nil
        }
        _ = try await self.streams.refuse(
            entry,
            by: self.consumer,
            tag: self.keys.tag,
            letter: letter,
            receipt: ownReceipt
        )
    }

    private func reply(_ receipt: SendReceipt, _ command: SendCommand) async throws {
        try await self.streams.write(receipt, replyTo: command.replyTo, tag: self.keys.tag)
    }

    // MARK: Plans and work

    private func plan(_ entry: StreamEntry, _ isStopping: @escaping @Sendable () -> Bool) async throws {
        let planner = Planner(
            streams: self.streams,
            store: self.store,
            consumer: self.consumer,
            settings: self.settings,
            instruments: self.instruments,
            logger: self.logger,
        )
        try await planner.plan(entry, tag: self.keys.tag, book: self.book, isStopping: isStopping)
    }

    private func work(_ entry: StreamEntry, _ isStopping: @escaping @Sendable () -> Bool) async throws {
        let unit: WorkUnit
        do throws(MessageError) { unit = try WorkUnit.decode(entry.message) } catch {
            let problem = Problem(code: "malformed", field: error.field, detail: error.detail)
            return try await self.bury(entry, .malformed, problem)
        }
        guard let send = try await self.book.context(of: unit.send, tag: self.keys.tag) else {
            // Its send has ended: whatever it carried has its outcome.
            self.logger.notice(
                "a unit of a send that has ended",
                metadata: ["send": "\(unit.send)", "entry": "\(entry.origin)"]
            )
            _ = try await self.streams.refuse(entry, by: self.consumer, tag: self.keys.tag, letter: nil, receipt: nil)
            return
        }
        guard let context = send.routes[unit.route] else {
            let batch = self.closing(unit, entry, .failed, .noRoute)
            _ = try await self.streams.refuse(
                entry,
                by: self.consumer,
                tag: self.keys.tag,
                letter: nil,
                receipt: nil,
                outcomes: batch
            )
            return
        }
        let table = try await RecipientLoader(store: self.store).table(unit, send, context)
        var plan = RunPlan(send: send, context: context, lane: unit.lane, table: table)
        plan.journal = entry.journal?.bitmap ?? []
        plan.attempt = unit.attempt
        plan.firstAttemptAt = unit.firstAttemptAt
        plan.publishedAtNanoseconds = unit.publishedAtNanoseconds
        let driver = UnitDriver(
            streams: self.streams,
            consumer: self.consumer,
            tag: self.keys.tag,
            worker: self.worker,
            logger: self.logger,
        )
        let end = try await driver.drive(entry, unit: unit, plan: plan, isStopping: isStopping)
        guard end == .lost else { return }
        self.logger.notice("another dispatcher owns the unit now", metadata: ["entry": "\(entry.origin)"])
    }

    /// Not to be decoded, or delivered again and again without progress: put aside with its bytes; what it left open is closed as failed.
    private func bury(_ entry: StreamEntry, _ cause: DeadLetter.Cause, _ problem: Problem) async throws {
        var letter = DeadLetter(
            stream: entry.stream,
            entry: entry.id,
            cause: cause,
            problem: problem,
            payload: Array(entry.message.prefix(Limits.deadLetterPayloadBytesMax)),
            at: self.clock.now(),
        )
        letter.deliveries = entry.deliveries
        letter.service = "dispatcher"
        var batch: OutcomeBatch?
        if self.keys.route(ofWork: entry.stream) != nil, let unit = try? WorkUnit.decode(entry.message) {
            batch = self.closing(unit, entry, .failed, .other)
            letter.send = unit.send
        }
        self.logger.error(
            "buried an entry",
            metadata: ["entry": "\(entry.origin)", "problem": "\(problem)", "deliveries": "\(entry.deliveries)"]
        )
        _ = try await self.streams.refuse(
            entry,
            by: self.consumer,
            tag: self.keys.tag,
            letter: letter,
            receipt: nil,
            outcomes: batch
        )
    }

    /// The outcome of everything that a unit has left open.
    private func closing(_ unit: WorkUnit, _ entry: StreamEntry, _ outcome: Outcome, _ reason: Reason) -> OutcomeBatch {
        let known = self.routes.apps.values.joined().first { $0.number == unit.route }?.route
        let done = DoneBitmap(count: unit.recipients.count, journal: entry.journal?.bitmap ?? [])
        let provider = known?.provider ?? .apns
        var batch = OutcomeBatch(send: unit.send, app: known?.app.text ?? "", route: unit.route, provider: provider)
        let open = UInt64(done.count - done.setCount)
        if open > 0 { batch.counts = [OutcomeCount(provider: provider, outcome: outcome, reason: reason, count: open)] }
        batch.unit = entry.origin
        return batch
    }

    // MARK: Counting

    func count(_ result: CommandResult) {
        self.instruments.shared.add(to: self.instruments.metrics.commands[result])
    }

    private func observeWait(_ command: SendCommand) {
        guard command.publishedAtNanoseconds > 0 else { return }
        let waited = self.clock.nanosecondsSince1970() - command.publishedAtNanoseconds
        self.instruments.shared.observe(waited, in: self.instruments.metrics.queueWait)
    }
}
