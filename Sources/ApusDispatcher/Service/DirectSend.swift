internal import ApusCore
internal import ApusMessages
internal import ApusProviders
internal import ApusRedis
internal import ApusStore
internal import ApusStreams
internal import NIOCore

/// A send to a few, straight from the mailbox to the providers: one look-up, one request each, one call that writes the outcomes and
/// ends the entry. The path that a person waits on.
///
/// Nothing of it is kept in Redis unless something is left to retry, or several routes have receipts to join; a crash leaves the entry
/// pending, and whoever takes it over sends again: at most `directRecipientsMax` repeats.
///
/// A class, because every asynchronous step would copy a value of this size.
final class DirectSend: Sendable {
    let handler: DispatchHandler
    let entry: StreamEntry
    /// The lane of the entry's mailbox.
    let lane: Lane
    let turn: EntryTurn
    let identity: SendIdentity
    /// The command as its publisher wrote it.
    let command: SendCommand
    /// The tag of the send's home shard.
    let home: HashTag

    init(
        handler: DispatchHandler,
        entry: StreamEntry,
        lane: Lane,
        turn: EntryTurn,
        identity: SendIdentity,
        command: consuming SendCommand,
        home: HashTag,
    ) {
        self.handler = handler
        self.entry = entry
        self.lane = lane
        self.turn = turn
        self.identity = identity
        self.command = command
        self.home = home
    }

    /// The result of an attempt.
    enum Result: Sendable {
        /// It is over: sent, refused or a duplicate.
        case ended
        /// It broke a rule, and has its receipt.
        case refused
        /// It has more recipients than fit this path.
        case needsPlan
    }

    func perform() async throws -> Result {
        var context: SendContext?
        let readAt = NIODeadline.now()
        let (found, admission): (Found, Mailboxes.Admission)
        let mustAsk = self.mustAskForAdmission
        if mustAsk {
            // A command that breaks a rule is refused before its idempotency key is taken.
            context = try await self.handler.context(of: self.command, self.identity, self.entry, home: self.home)
            guard context != nil else { return .refused }
            (found, admission) = try await self.foundAndAdmission()
        } else {
            (found, admission) = (try await self.found(), .new)
        }
        guard found.count <= Limits.directRecipientsMax else { return .needsPlan }
        guard try await self.mayGoOut(admission) else { return .ended }
        if context == nil {
            context = try await self.handler.context(
                of: self.command,
                self.identity,
                self.entry,
                home: self.home,
                reached: found.providers.map { ReachedProviders(providers: $0, byteCount: self.entry.message.count) },
            )
        }
        guard let context else { return .refused }
        // Nothing is asked, but what its publication wrote is kept for a replay. Of one that was refused it is not: its publisher would be told
        // that it is known, and find no receipt.
        if !mustAsk { _ = try await self.admission() }
        try await self.send(to: self.recipients(found, context, readAt: readAt), context)
        return .ended
    }

    private func send(to recipients: Recipients, _ context: SendContext) async throws {
        var isRefused = false
        defer { if !isRefused { self.handler.count(.accepted) } }
        let outcomes = try await self.send(try await self.counted(recipients.plans))
        do {
            try await OutcomeWriter(logger: self.handler.logger).write {
                try await self.handler.instruments.timing(.write) {
                    try await self.finish(outcomes, recipients, context)
                }
            }
        } catch let error as SendNotKeptError {
            isRefused = error.admission == .crowded
            try await self.remove(outcomes)
            // A send that was kept first goes on, and answers for both if they are the same.
            _ = try await self.mayGoOut(error.admission)
            return
        } catch {
            try await self.remove(outcomes)
            guard Disposition(of: error) != .stop else { throw error }
            // A message is not sent again only because its outcome cannot be written.
            let detail = "its recipients may have been sent to, but their outcomes cannot be written: \(error)"
            return try await self.handler.giveUp(self.entry, Problem(code: "poison", detail: detail))
        }
        try await self.remove(outcomes)
    }

    // MARK: Recipients

    /// The recipients that a target names, as the store has them.
    private enum Found: Sendable {
        /// The addresses that the command names, and the indices of those that repeat no earlier one.
        case addresses([Address], indices: [Int])
        case devices([FoundDevice?])
        /// An audience that the provider holds.
        case heldAudience

        var count: Int {
            switch self {
            case .addresses(_, let indices): indices.count
            case .devices(let devices): devices.count
            case .heldAudience: 1
            }
        }

        /// The providers of devices; nil where the target itself tells them.
        var providers: Set<Provider>? {
            guard case .devices(let devices) = self else { return nil }
            return Set(devices.compactMap { $0?.realm.provider })
        }
    }

    /// Asks for both together, because a person waits.
    private func foundAndAdmission() async throws -> (Found, Mailboxes.Admission) {
        async let found = self.found()
        let admission = try await self.admission()
        return (try await found, admission)
    }

    private func found() async throws -> Found {
        switch self.command.target.withoutRepeats {
        case .addresses(let addresses): return .addresses(addresses, indices: addresses.indicesWithoutRepeats)
        case .devices(let ids):
            let app = try AppID(self.command.app)
            let devices = try ids.map { id throws(IdentifierError) in try DeviceID(id) }
            return .devices(
                try await self.handler.instruments.timing(.resolve) {
                    try await self.handler.store.find(app, devices: devices)
                }
            )
        case .users(let ids):
            let app = try AppID(self.command.app)
            let users = try ids.map { id throws(IdentifierError) in try UserID(id) }
            return .devices(
                try await self.handler.instruments.timing(.resolve) {
                    try await self.handler.store.find(app, users: users).joined().map(\.self)
                }
            )
        case .topic, .condition, .expression, .everyone:
            preconditionFailure("an audience is planned, not sent directly")
        default: return .heldAudience
        }
    }

    private struct Recipients: Sendable {
        var plans: [RunPlan] = []
        /// The recipients that no route leads to, or that are not there.
        var closed: ClosedRecipients
        var count = 0
    }

    private func recipients(_ found: Found, _ context: SendContext, readAt: NIODeadline) -> Recipients {
        var recipients = Recipients(
            closed: ClosedRecipients(listed: context.listsRecipients, at: self.handler.clock.now()),
            count: found.count,
        )
        var tables: [RouteNumber: RecipientTable] = [:]
        switch found {
        case .addresses(let addresses, let indices):
            var indicesByRoute: [RouteNumber: [UInt32]] = [:]
            for index in indices {
                if let route = context.route(of: addresses[index]) {
                    indicesByRoute[route.number, default: []].append(UInt32(index))
                } else {
                    recipients.closed.addUnrendered(addresses[index], at: index, of: context)
                }
            }
            for (number, indices) in indicesByRoute {
                guard let route = context.routes[number] else { continue }
                tables[number] = RecipientLoader.table(addresses: indices, context, route)
            }
        case .devices(let devices): self.gather(devices, context, into: &tables, &recipients)
        case .heldAudience:
            if let number = context.routes.keys.first {
                tables[number] = RecipientLoader.heldAudience
            } else {
                recipients.closed.add(context.anyProvider, .failed, .noRoute)
            }
        }
        for (number, table) in tables {
            guard let route = context.routes[number] else { continue }
            var plan = RunPlan(send: context, context: route, lane: self.lane, table: table)
            plan.publishedAtNanoseconds = context.command.publishedAtNanoseconds
            plan.reportsAtEnd = true
            plan.readAt = readAt
            plan.ownedAt = .now() - .nanoseconds(Int64((.now - self.turn.ownedAt()) / .nanoseconds(1)))
            recipients.plans.append(plan)
        }
        return recipients
    }

    private func gather(
        _ devices: [FoundDevice?],
        _ context: SendContext,
        into tables: inout [RouteNumber: RecipientTable],
        _ recipients: inout Recipients,
    ) {
        for found in devices {
            let device: StoredDevice
            switch found {
            case nil:
                recipients.closed.add(context.anyProvider, .skipped, .deviceGone)
                continue
            case .corrupt(let record):
                recipients.closed.addCorrupt(record, app: context.command.app, logger: self.handler.logger)
                continue
            case .device(let stored): device = stored
            }
            guard let route = context.context(of: device.realm.route(of: device.app)) else {
                recipients.closed.addUnrendered(.device(device), of: context)
                continue
            }
            if context.listsRecipients {
                let next = tables[route.number]?.rows.count ?? 0
                tables[route.number, default: RecipientTable(of: route)].setDevice(device.id, of: next)
            }
            var row = RecipientTable.Row(
                partition: device.reference.partition,
                ordinal: device.reference.ordinal,
                generation: device.reference.generation,
            )
            let locale = Array(device.record.attributes.locale.utf8)
            row.variant = UInt16(route.messages.variantIndex(forLocale: locale.span))
            tables[route.number, default: RecipientTable(of: route)].append(
                row,
                device.record,
                activity: context.activity,
                tokenKinds: route.tokenKinds,
                now: self.handler.clock.now(),
            )
        }
    }

    // MARK: Admission

    /// True when somebody may have used the command's key or id. Without them only an earlier delivery of this entry can have gone out.
    private var mayBeKnown: Bool { !self.identity.key.isEmpty || self.entry.deliveries > 1 }

    /// True when only Redis can tell whether the send may go out.
    private var mustAskForAdmission: Bool { self.mayBeKnown && !self.entry.isAdmitted }

    /// Asks what the key names by now: this send, if nobody used it before. A plan that asks again for the same entry gets the same answer.
    private func admission() async throws -> Mailboxes.Admission {
        self.mayBeKnown ? try await self.requestAdmission() : .new
    }

    private func requestAdmission() async throws -> Mailboxes.Admission {
        try await self.handler.streams.mailboxes.admit(
            self.entry,
            app: self.command.app,
            identity: self.identity,
            home: self.home,
        )
    }

    private func mayGoOut(_ admission: Mailboxes.Admission) async throws -> Bool {
        switch admission {
        case .new: return true
        case .known:
            // The consumer that had it before kept the send and ended there: the rest of it waits for its time.
            try await self.handler.streams.entries.acknowledge(
                [self.entry],
                by: self.handler.consumer,
                tag: self.handler.keys.tag
            )
            return false
        case .duplicate(let send):
            try await self.handler.duplicate(self.entry, self.command, self.identity, of: send)
            return false
        case .conflict(let send):
            try await self.handler.conflict(
                self.entry,
                self.command,
                self.identity,
                with: send,
                self.handler.clock.now()
            )
            return false
        case .crowded:
            self.handler.streams.mailboxes.forgetAdmission(of: self.entry, home: self.home)
            try await self.handler.refuseForRoom(self.entry, self.command)
            return false
        }
    }

    // MARK: Sending

    /// A class, because lists of values of this size are copied.
    private final class RouteOutcome: Sendable {
        let token: RunToken
        let plan: RunPlan
        let update: RunUpdate

        init(token: RunToken, plan: RunPlan, update: RunUpdate) {
            self.token = token
            self.plan = plan
            self.update = update
        }
    }

    /// Returns the plans with their badges. All are counted before anything goes out: what fails here leaves nothing behind.
    private func counted(_ plans: [RunPlan]) async throws -> [RunPlan] {
        guard plans.contains(where: { $0.context.needsBadges }) else { return plans }
        var plans = plans
        for index in plans.indices {
            let plan = plans[index]
            try await RecipientLoader(store: self.handler.store).countBadges(
                in: &plans[index].table,
                of: plan.send,
                plan.context,
                storedRoute: plan.storedRoute,
                journal: plan.journal,
                triesElsewhere: plan.triesElsewhere,
                isRepeated: false,
            )
        }
        return plans
    }

    private func send(_ plans: [RunPlan]) async throws -> [RouteOutcome] {
        // Nearly always there is one, which needs no task of its own.
        guard plans.count != 1 else { return [try await self.send(plans[0])] }
        return try await withThrowingTaskGroup(of: RouteOutcome.self) { group in
            for plan in plans {
                group.addTask { try await self.send(plan) }
            }
            var outcomes: [RouteOutcome] = []
            for try await outcome in group { outcomes.append(outcome) }
            return outcomes
        }
    }

    private func send(_ plan: RunPlan) async throws -> RouteOutcome {
        let token = try await self.handler.worker.start(plan)
        return RouteOutcome(token: token, plan: plan, update: try await self.handler.worker.update(token))
    }

    /// Removes the runs of outcomes that are written: until then they count in the window.
    private func remove(_ outcomes: [RouteOutcome]) async throws {
        for outcome in outcomes { try await self.handler.worker.remove(outcome.token) }
    }

    // MARK: Outcomes

    private func finish(
        _ outcomes: [RouteOutcome],
        _ recipients: Recipients,
        _ context: SendContext,
    ) async throws {
        var batches = outcomes.map { UnitDriver.batch($0.update.report, $0.plan) }
        if self.command.target.channel != nil {
            for batch in batches { try await self.handler.channels.learn(batch.counts, of: self.command) }
        }
        if batches.isEmpty { batches = [Self.emptyBatch(of: context)] }
        batches[0].add(recipients.closed)
        let retries = outcomes.flatMap { outcome in
            UnitDriver.retries(
                outcome.update,
                self.unit(outcome.plan),
                outcome.plan,
                entry: self.entry,
                sequence: 1,
            ) + self.unsent(outcome)
        }
        let (streams, consumer, tag) = (self.handler.streams, self.handler.consumer, self.handler.keys.tag)
        guard retries.isEmpty else {
            // Frozen for longer than a lease, and another has ended the send: what is kept now would be a second one, unless its home is elsewhere,
            // where every end is kept, and known.
            let holding = Entries.Owned(stream: self.entry.stream, id: self.entry.id)
            let isOurs = try await streams.entries.renew([holding], by: consumer, tag: tag) == 1
            guard isOurs || self.home != tag || streams.mailboxes.isLost(self.entry, tag: tag) else { return }
            // One of which something may have gone out goes on, however much is open, also by another process that had the entry before. So
            // does one whose entry is forgotten: nobody could end it with a receipt.
            let mayBeRefused = isOurs && self.entry.deliveries == 1 && outcomes.allSatisfy(\.update.isUnsent)
            _ = try await streams.mailboxes.persist(
                context.command,
                identity: self.identity,
                origin: self.entry.origin,
                recipients: recipients.count,
                batches: batches,
                retries: retries,
                now: self.handler.clock.now(),
                limits: mayBeRefused ? self.handler.settings.openLimits : .none,
            )
            try await streams.entries.acknowledge([self.entry], by: consumer, tag: tag)
            return
        }
        _ = try await streams.mailboxes.finish(
            self.entry,
            of: context.command,
            identity: self.identity,
            by: consumer,
            tag: tag,
            home: self.home,
            recipients: recipients.count,
            batches: batches,
            finisher: self.handler.finisher,
        )
    }

    /// Returns units of the route for the recipients that could not be sent to. That is no attempt, but their badges were counted.
    private func unsent(_ outcome: RouteOutcome) -> [UnitRetry] {
        guard !outcome.update.unsent.isEmpty else { return [] }
        var unit = self.unit(outcome.plan)
        unit.recipients = outcome.plan.table.recipients(outcome.update.unsent)
        unit.badgesCounted = true
        let id = "\(unit.send)/\(self.entry.id)/unsent/\(unit.route)"
        return [UnitRetry(due: self.handler.clock.now(), id: id, unit: unit)]
    }

    private func unit(_ plan: RunPlan) -> WorkUnit {
        var unit = WorkUnit(send: plan.send.key, route: plan.context.number, recipients: .references([]))
        unit.lane = plan.lane
        unit.expiresAt = plan.send.expiresAt
        unit.publishedAtNanoseconds = plan.publishedAtNanoseconds
        return unit
    }

    private static func emptyBatch(of context: SendContext) -> OutcomeBatch {
        let route = context.routes.keys.min() ?? context.anyRoute ?? RouteNumber(0)
        return context.makeBatch(on: route, of: context.anyProvider)
    }
}
