internal import ApusCore
internal import ApusMessages
internal import ApusMetrics
internal import ApusRedis
internal import ApusService
internal import ApusStore
internal import ApusStreams
internal import Logging
internal import NIOCore

/// Takes each entry of a shard to its end: commands, plans and work units.
///
/// A class, because every asynchronous step would copy a value of this size.
final class DispatchHandler: Sendable {
    let keys: StreamKeys
    let streams: SendStreams
    /// Ends direct sends, those that are ready at the same time together.
    let finisher: Mailboxes.Finisher
    let store: DeviceStore
    let contexts: SendContextCache
    let routes: RouteTable
    /// The rules of the publishers that have mailboxes of their own.
    let publishers: PublisherTable
    let consumer: StreamConsumer
    /// Waits for replicas to have what is marked of sends that may go out once only.
    let confirmation: ReplicaConfirmation
    let worker: WorkerHandle
    /// The worker's client and executor, so that neither its answers nor those of Redis wake another thread.
    let site: ShardConsumer.Site
    let settings: DispatcherSettings
    let instruments: DispatcherInstruments
    let clock: any WallClock
    let logger: Logger

    init(
        keys: StreamKeys,
        streams: SendStreams,
        finisher: Mailboxes.Finisher,
        store: DeviceStore,
        contexts: SendContextCache,
        routes: RouteTable,
        publishers: PublisherTable,
        consumer: StreamConsumer,
        confirmation: ReplicaConfirmation,
        worker: WorkerHandle,
        site: ShardConsumer.Site,
        settings: DispatcherSettings,
        instruments: DispatcherInstruments,
        clock: any WallClock,
        logger: Logger,
    ) {
        self.keys = keys
        self.streams = streams
        self.finisher = finisher
        self.store = store
        self.contexts = contexts
        self.routes = routes
        self.publishers = publishers
        self.consumer = consumer
        self.confirmation = confirmation
        self.worker = worker
        self.site = site
        self.settings = settings
        self.instruments = instruments
        self.clock = clock
        self.logger = logger
    }

    /// The states of broadcast channels.
    var channels: ChannelGate { ChannelGate(streams: self.streams, routes: self.routes) }

    /// Handles one entry. Throwing leaves it pending.
    func handle(_ entry: StreamEntry, _ turn: EntryTurn) async throws {
        if let detail = entry.burial {
            guard self.isCommand(entry) else {
                return try await self.writeDeadLetter(entry, .poison, Problem(code: "poison", detail: detail))
            }
            let doubt = "\(detail): some of its recipients may have been sent to"
            return try await self.giveUp(entry, Problem(code: "poison", detail: doubt))
        }
        // Single sends are the most frequent entries.
        if let mailbox = self.keys.lane(ofMailbox: entry.stream) {
            try await self.command(entry, turn, mailbox)
        } else if let route = self.keys.route(ofPlan: entry.stream) {
            try await self.plan(entry, route, turn)
        } else {
            try await self.work(entry, turn)
        }
    }

    // MARK: Commands

    private func isCommand(_ entry: StreamEntry) -> Bool {
        self.keys.lane(ofMailbox: entry.stream) != nil
    }

    /// Returns the rules of the publisher whose own mailbox an entry stands in; nil for a shared mailbox.
    func publisher(of entry: StreamEntry) -> PublisherRules? {
        self.keys.lane(ofMailbox: entry.stream)?.publisher.flatMap { self.publishers[$0] }
    }

    private func command(
        _ entry: StreamEntry,
        _ turn: EntryTurn,
        _ mailbox: (lane: Lane, publisher: PublisherName?),
    ) async throws {
        let now = self.clock.now()
        let start = self.clock.nanosecondsSince1970()
        let decision = IntakeDecision(
            message: entry.message,
            writtenAt: entry.writtenAt,
            now: now,
            providers: self.routes.providers,
            publisher: mailbox.publisher.flatMap { self.publishers[$0] },
        )
        // The command has many fields: it is handed on, not copied.
        switch consume decision {
        case .refuse(let cause, let problem, let head):
            try await self.refuse(entry, cause, problem, head, command: nil, now: now)
        case .expired(let command):
            try await self.expire(entry, command)
        case .dryRun(let command):
            try await self.tryOut(entry, command, now)
        case .direct(let command):
            self.observeWait(command)
            let identity = SendIdentity(of: command, source: entry.source, digest: entry.admittedDigest)
            let home = self.streams.home(of: identity).tag
            let direct = DirectSend(
                handler: self,
                entry: entry,
                lane: mailbox.lane,
                turn: turn,
                identity: identity,
                command: consume command,
                home: home,
            )
            switch try await direct.perform() {
            case .ended: break
            case .refused: return
            case .needsPlan:
                guard let context = try await self.context(of: direct.command, identity, entry, home: home) else {
                    return
                }
                try await self.accept(context, identity, entry, due: nil, now)
            }
            self.processed(direct.command, identity, since: start)
        case .plan(let command, let due):
            self.observeWait(command)
            let identity = SendIdentity(of: command, source: entry.source, digest: entry.admittedDigest)
            let home = self.streams.home(of: identity).tag
            guard let context = try await self.context(of: command, identity, entry, home: home) else { return }
            try await self.accept(context, identity, entry, due: due, now)
            self.processed(command, identity, since: start)
        }
    }

    private func processed(_ command: SendCommand, _ identity: SendIdentity, since start: Int64) {
        guard !command.traceparent.isEmpty else { return }
        let end = self.clock.nanosecondsSince1970()
        self.instruments.recordSpan("process apus:send", of: command, send: identity.send, from: start, to: end)
    }

    /// Returns the command rendered for its routes; nil when it broke a rule and was refused.
    ///
    /// - Parameters:
    ///   - home: the tag of the send's home shard.
    ///   - reached: the providers of its recipients; nil: of any provider.
    func context(
        of command: SendCommand,
        _ identity: SendIdentity,
        _ entry: StreamEntry,
        home: HashTag,
        reached: ReachedProviders? = nil,
    ) async throws -> SendContext? {
        do {
            let context = try await self.instruments.timing(.render) {
                try await self.contexts.context(of: command, send: identity.send, tag: home, reached: reached)
            }
            try await self.channels.check(command, now: self.clock.now())
            return context
        } catch let problem as Problem {
            let now = self.clock.now()
            try await self.refuse(entry, .invalid, problem, CommandHead(command), command: command, now: now)
            return nil
        }
    }

    private func accept(
        _ context: SendContext,
        _ identity: SendIdentity,
        _ entry: StreamEntry,
        due: UnixMilliseconds?,
        _ now: UnixMilliseconds,
    ) async throws {
        let command = context.command
        let result = try await self.streams.mailboxes.accept(
            command,
            identity: identity,
            routes: self.routes.planned(context),
            from: entry,
            by: self.consumer,
            due: due,
            limits: self.settings.openLimits,
        )
        switch result.admission {
        case .new, .known:
            self.count(.accepted)
            guard !result.acknowledged else { return }
            try await self.streams.entries.acknowledge([entry], by: self.consumer, tag: self.keys.tag)
        case .duplicate(let send): try await self.duplicate(entry, command, identity, of: send)
        case .conflict(let send): try await self.conflict(entry, command, identity, with: send, now)
        case .crowded: try await self.refuseForRoom(entry, command)
        }
    }

    /// Tells the publisher which send the key named before, and drops the command.
    func duplicate(_ entry: StreamEntry, _ command: SendCommand, _ identity: SendIdentity, of send: String) async throws
    {
        self.count(.duplicate)
        var receipt = SendReceipt(
            id: "duplicate:\(entry.source)",
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
        receipt.publishedAtNanoseconds = command.publishedAtNanoseconds
        receipt.carry(command, send: identity.send)
        let home = self.receiptsTag(of: CommandHead(command), send: identity.send)
        try await self.write(receipt, replyTo: command.replyTo, tag: home)
        try await self.streams.entries.acknowledge(
            [entry],
            by: self.consumer,
            tag: self.keys.tag,
            isRepeated: false
        )
    }

    /// Ends a command whose key names another body, by a dead letter and a receipt.
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
            detail: "names another command, that of the send \(send): a new send needs a new one",
        )
        try await self.refuse(entry, .conflict, problem, CommandHead(command), command: command, now: now)
    }

    /// Answers what a command would do: whom it reaches, how large it is, what is to be said of it.
    private func tryOut(_ entry: StreamEntry, _ command: SendCommand, _ now: UnixMilliseconds) async throws {
        let send = SendIdentity(of: command, source: entry.source).send
        let dryRun = DryRun(routes: self.routes, contexts: self.contexts, planner: self.planner(), clock: self.clock)
        do {
            let report = try await dryRun.run(command, asksProviders: false)
            self.count(.dryRun)
            let receipt = SendReceipt(report, id: "dry-run:\(entry.source)", send: send, app: command.app)
            try await self.end(entry, letter: nil, receipt: receipt, CommandHead(command), command: command)
        } catch let problem as Problem {
            self.count(.invalid)
            try await self.end(entry, letter: nil, problem: problem, CommandHead(command), command: command)
        }
    }

    // MARK: Plans and work

    private func plan(
        _ entry: StreamEntry,
        _ route: RouteNumber,
        _ turn: EntryTurn,
    ) async throws {
        do {
            try await self.planner(progressed: turn.progressed, waits: turn.waits).plan(
                entry,
                route: route,
                tag: self.keys.tag,
                contexts: self.contexts,
                isStopping: turn.isStopping
            )
        } catch {
            guard Disposition(of: error).isOutage, try await self.endUnplanned(entry, route) else { throw error }
        }
    }

    private func planner(
        progressed: @escaping @Sendable () -> Void = {},
        waits: @escaping @Sendable (Bool) -> Void = { _ in },
    ) -> Planner {
        Planner(
            streams: self.streams,
            store: self.store,
            consumer: self.consumer,
            instruments: self.instruments,
            clock: self.clock,
            progressed: progressed,
            waits: waits,
            logger: self.logger,
        )
    }

    private func work(_ entry: StreamEntry, _ turn: EntryTurn) async throws {
        let unit: WorkUnit
        do throws(MessageError) { unit = try WorkUnit.decode(entry.message) } catch {
            let problem = Problem(code: "malformed", field: error.field, detail: error.detail)
            return try await self.writeDeadLetter(entry, .malformed, problem)
        }
        let found: SendContext?
        do {
            found = try await self.instruments.timing(.render) {
                try await self.contexts.context(of: unit.send, tag: self.keys.tag)
            }
        } catch {
            guard try await self.endUnread(unit, entry) else { throw error }
            return
        }
        guard let send = found else {
            // Its send has ended: whatever it carried has its outcome.
            self.logger.notice(
                "a unit of a send that has ended",
                metadata: [
                    "send": "\(unit.send.id)", "app": "\(unit.send.app)", "entry": "\(entry.origin)",
                ]
            )
            return try await self.drop(entry)
        }
        let storedRoute = unit.homeEnvironment.flatMap { send.storedRoute(of: unit.route, in: $0) }
        guard let context = send.routes[unit.route], (storedRoute == nil) == (unit.homeEnvironment == nil) else {
            let verdict = try await self.begin(unit, entry)
            guard verdict.state != .paused, verdict.state != .lost else { return }
            return try await self.close(unit, entry, verdict.journal, .failed, .noRoute)
        }
        let loader = RecipientLoader(store: self.store)
        let readAt = NIODeadline.now()
        let table: RecipientTable
        do {
            table = try await self.instruments.timing(.resolve) {
                try await loader.table(unit, send, context, storedRoute: storedRoute)
            }
        } catch {
            guard try await self.endUnread(unit, entry) else { throw error }
            return
        }
        var plan = RunPlan(send: send, context: context, lane: unit.lane, table: table)
        plan.storedRoute = storedRoute
        plan.readAt = readAt
        plan.attempt = unit.attempt
        plan.firstAttemptAt = unit.firstAttemptAt
        plan.waitsForThirdPartyAuth = unit.waitsForThirdPartyAuth
        plan.publishedAtNanoseconds = unit.publishedAtNanoseconds
        plan.server = self.streams.client.topology.endpoint(forSlot: self.keys.tag.slot)
        // A dispatcher that takes over after the death of the primary must see which recipients may have been sent to.
        let isAtMostOnce = send.command.delivery == .atMostOnce
        let driver = UnitDriver(
            streams: isAtMostOnce ? self.streams.confirmed(by: self.confirmation) : self.streams,
            consumer: self.consumer,
            tag: self.keys.tag,
            worker: self.worker,
            executor: self.site.executor,
            loader: loader,
            channels: self.channels,
            contexts: self.contexts,
            clock: self.clock,
            turn: turn,
            instruments: self.instruments,
            writer: OutcomeWriter(logger: self.logger),
        )
        let end = try await driver.drive(entry, unit: unit, plan: plan)
        switch end {
        case .finished, .left: return
        case .lost:
            self.logger.notice("another dispatcher owns the unit now", metadata: ["entry": "\(entry.origin)"])
        case .unwritten(let unwritten): try await self.giveUp(entry, unit, unwritten)
        }
    }

    /// Writes a dead letter for an entry that cannot be decoded, or that was delivered again and again without progress. It keeps the bytes;
    /// recipients that the entry left open are closed as failed.
    private func writeDeadLetter(_ entry: StreamEntry, _ cause: DeadLetter.Cause, _ problem: Problem) async throws {
        var letter = self.letter(entry, cause, problem, at: self.clock.now())
        var batch: OutcomeBatch?
        var keepsLetter = true
        if self.keys.route(ofWork: entry.stream) != nil, let unit = try? WorkUnit.decode(entry.message) {
            batch = await self.closing(unit, entry, entry.journal, .failed, .other)
            (letter.app, letter.send) = (unit.send.app, unit.send.id)
            // The letter has only those that were not sent to: nobody else may be sent to when it is brought back.
            var open = unit
            open.recipients = UnitRemainder(unit, journal: entry.journal).untouched
            // A journal tells that the badges of all are counted.
            open.badgesCounted = unit.badgesCounted || entry.journal != nil
            if open != unit {
                keepsLetter = open.recipients.count > 0
                if keepsLetter { letter.payload = try open.encode() }
            }
        } else if let route = self.keys.route(ofPlan: entry.stream) {
            if let send = SendKey(String(decoding: entry.message, as: UTF8.self)) {
                (letter.app, letter.send) = (send.app, send.id)
                batch = await self.batch(of: send, route)
            }
        }
        self.logger.error(
            "an entry became a dead letter",
            metadata: ["entry": "\(entry.origin)", "problem": "\(problem)", "deliveries": "\(entry.deliveries)"]
        )
        _ = try await self.streams.deadLetters.write(
            entry,
            by: self.consumer,
            tag: self.keys.tag,
            letter: keepsLetter ? letter : nil,
            receipt: nil,
            outcomes: batch
        )
    }

    /// Returns the outcome of everything that a unit has left open.
    func closing(
        _ unit: WorkUnit,
        _ entry: StreamEntry,
        _ journal: UnitJournal?,
        _ outcome: Outcome,
        _ reason: Reason,
    ) async -> OutcomeBatch {
        var batch = await self.batch(of: unit.send, unit.route)
        batch.counts = UnitRemainder(unit, journal: journal).counts(batch.provider, outcome, reason)
        batch.unit = entry.origin
        return batch
    }

    /// Returns an empty batch of a send on a route; without a trace and what receipts need if the send's command cannot be read.
    func batch(of send: SendKey, _ route: RouteNumber) async -> OutcomeBatch {
        let provider = self.routes.route(route)?.provider ?? self.routes.anyProvider
        guard let command = try? await self.streams.mailboxes.command(of: send, tag: self.keys.tag) else {
            return OutcomeBatch(send: send.id, app: send.app, route: route, provider: provider)
        }
        return command.makeBatch(
            of: send.id,
            use: SendIdentity.idUse(of: command),
            SendContext.trace(of: command, send: send.id),
            on: route,
            of: provider,
        )
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
