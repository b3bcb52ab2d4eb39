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
/// Nothing of it is kept in Redis unless something is left to retry or several routes are involved; a crash leaves the entry
/// pending, and whoever takes it over sends again: at most `directRecipientsMax` repeats.
struct DirectSend: Sendable {
    let handler: DispatchHandler
    let entry: StreamEntry
    let turn: EntryTurn
    let identity: SendIdentity
    let context: SendContext

    /// The result of an attempt.
    enum Result: Sendable {
        /// It is over: sent, refused or a duplicate.
        case ended
        /// It has more recipients than fit this path.
        case needsPlan
    }

    func perform() async throws -> Result {
        let (recipients, admission) = try await self.recipientsAndAdmission()
        guard recipients.count <= Limits.directRecipientsMax else { return .needsPlan }
        guard try await self.mayGoOut(admission) else { return .ended }
        self.handler.count(.accepted)
        let outcomes = try await self.send(try await self.counted(recipients.plans))
        do {
            try await OutcomeWriter(logger: self.handler.logger).write {
                try await self.handler.instruments.timing(.write) { try await self.finish(outcomes, recipients) }
            }
        } catch {
            try await self.remove(outcomes)
            guard Disposition(of: error) != .stop else { throw error }
            // Another send has its id by now: its publisher is told which.
            if error is StreamError, try await !self.mayGoOut(try await self.requestAdmission()) { return .ended }
            // A message is not sent again only because its outcome cannot be written.
            let detail = "its recipients may have been sent to, but their outcomes cannot be written: \(error)"
            try await self.handler.giveUp(self.entry, Problem(code: "poison", detail: detail))
            return .ended
        }
        try await self.remove(outcomes)
        return .ended
    }

    /// Asks for both together, because a person waits. Where Redis need not be asked for one, no task is made for it.
    private func recipientsAndAdmission() async throws -> (Recipients, Mailboxes.Admission) {
        guard !self.entry.isAdmitted else { return (try await self.resolved(), try await self.admission()) }
        async let recipients = self.resolved()
        let admission = try await self.admission()
        return (try await recipients, admission)
    }

    // MARK: Recipients

    private func resolved() async throws -> Recipients {
        try await self.handler.instruments.timing(.resolve) { try await self.recipients() }
    }

    private struct Recipients: Sendable {
        var plans: [RunPlan] = []
        /// The recipients that no route leads to, or that are not there.
        var closed: ClosedRecipients
        var count = 0
    }

    private func recipients() async throws -> Recipients {
        let readAt = NIODeadline.now()
        var recipients = Recipients(
            closed: ClosedRecipients(listed: self.context.listsRecipients, at: self.handler.clock.now())
        )
        var tables: [RouteNumber: RecipientTable] = [:]
        let app = try AppID(self.context.command.app)
        switch self.context.command.target {
        case .addresses(let addresses):
            var indices: [RouteNumber: [UInt32]] = [:]
            for (index, address) in addresses.enumerated() {
                if let route = self.context.route(of: address) {
                    indices[route.number, default: []].append(UInt32(index))
                } else {
                    recipients.closed.addUnrendered(address, at: index, of: self.context)
                }
            }
            recipients.count = addresses.count
            for (number, indices) in indices {
                guard let route = self.context.routes[number] else { continue }
                tables[number] = RecipientLoader.table(addresses: indices, self.context, route)
            }
        case .devices(let ids):
            let devices = try await self.handler.store.find(
                app,
                devices: try ids.map { id throws(IdentifierError) in try DeviceID(id) }
            )
            self.gather(devices, into: &tables, &recipients)
        case .users(let ids):
            let users = try ids.map { id throws(IdentifierError) in try UserID(id) }
            self.gather(
                try await self.handler.store.find(app, users: users).joined().map(\.self),
                into: &tables,
                &recipients
            )
        case .topic, .condition, .expression, .everyone:
            preconditionFailure("an audience is planned, not sent directly")
        // An audience that the provider holds.
        default:
            recipients.count = 1
            if let number = self.context.routes.keys.first {
                tables[number] = RecipientLoader.heldAudience
            } else {
                recipients.closed.add(self.context.anyProvider, .failed, .noRoute)
            }
        }
        let isExpress = self.entry.stream == self.handler.keys.mailbox(.express)
        for (number, table) in tables {
            guard let route = self.context.routes[number] else { continue }
            var plan = RunPlan(send: self.context, context: route, lane: isExpress ? .express : .bulk, table: table)
            plan.publishedAtNanoseconds = self.context.command.publishedAtNanoseconds
            plan.reportsAtEnd = true
            plan.readAt = readAt
            plan.ownedAt = .now() - .nanoseconds(Int64((.now - self.turn.ownedAt()) / .nanoseconds(1)))
            recipients.plans.append(plan)
        }
        return recipients
    }

    private func gather(
        _ devices: [FoundDevice?],
        into tables: inout [RouteNumber: RecipientTable],
        _ recipients: inout Recipients,
    ) {
        recipients.count = devices.count
        for found in devices {
            let device: StoredDevice
            switch found {
            case nil:
                recipients.closed.add(self.context.anyProvider, .skipped, .deviceGone)
                continue
            case .corrupt(let record):
                recipients.closed.addCorrupt(record, app: self.context.command.app, logger: self.handler.logger)
                continue
            case .device(let stored): device = stored
            }
            guard let route = self.context.context(of: device.realm.route(of: device.app)) else {
                recipients.closed.addUnrendered(.device(device), of: self.context)
                continue
            }
            if self.context.listsRecipients {
                let next = tables[route.number]?.rows.count ?? 0
                tables[route.number, default: RecipientTable(of: route)].setDevice(device.id, of: next)
            }
            tables[route.number, default: RecipientTable(of: route)].append(
                device,
                route,
                of: self.context,
                now: self.handler.clock.now(),
            )
        }
    }

    // MARK: Admission

    /// Asks what the key names by now: this send, if nobody used it before. A plan that asks again for the same entry gets the same answer. Without
    /// a key only an earlier delivery of this entry can have gone out.
    private func admission() async throws -> Mailboxes.Admission {
        guard !self.identity.key.isEmpty || self.entry.deliveries > 1 else { return .new }
        return try await self.requestAdmission()
    }

    private func requestAdmission() async throws -> Mailboxes.Admission {
        try await self.handler.streams.mailboxes.admit(
            self.entry,
            app: self.context.command.app,
            identity: self.identity,
            home: self.context.tag,
        )
    }

    private func mayGoOut(_ admission: Mailboxes.Admission) async throws -> Bool {
        let command = self.context.command
        switch admission {
        case .new: return true
        case .known:
            // Whoever had it before has kept the send, and ended there: what is left of it waits for its time.
            try await self.handler.streams.entries.acknowledge(
                [self.entry.id],
                of: self.entry.stream,
                by: self.handler.consumer,
                tag: self.handler.keys.tag
            )
            return false
        case .duplicate(let send):
            try await self.handler.duplicate(self.entry, command, self.identity, of: send)
            return false
        case .conflict(let send):
            try await self.handler.conflict(self.entry, command, self.identity, with: send, self.handler.clock.now())
            return false
        }
    }

    // MARK: Sending

    private struct RouteOutcome: Sendable {
        var token: RunToken
        var plan: RunPlan
        var update: RunUpdate
    }

    /// Returns the plans with their badges. All are counted before anything goes out: what fails here leaves nothing behind.
    private func counted(_ plans: [RunPlan]) async throws -> [RunPlan] {
        var plans = plans
        for index in plans.indices {
            let plan = plans[index]
            try await RecipientLoader(store: self.handler.store).countBadges(
                in: &plans[index].table,
                of: plan.send,
                plan.context,
                home: plan.home,
                journal: plan.journal,
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

    private func finish(_ outcomes: [RouteOutcome], _ recipients: Recipients) async throws {
        var batches = outcomes.map { UnitDriver.batch($0.update.report, $0.plan) }
        for batch in batches { try await self.handler.channels.learn(batch.counts, of: self.context.command) }
        if batches.isEmpty { batches = [self.emptyBatch()] }
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
        guard retries.isEmpty, batches.count == 1 else {
            // Frozen for longer than a lease, and another has ended the send: what is kept now would be a second one.
            let holding = Entries.Owned(stream: self.entry.stream, id: self.entry.id)
            guard try await streams.entries.renew([holding], by: consumer, tag: tag) == 1 else { return }
            _ = try await streams.mailboxes.persist(
                self.context.command,
                identity: self.identity,
                origin: self.entry.origin,
                recipients: recipients.count,
                batches: batches,
                retries: retries,
                now: self.handler.clock.now(),
            )
            try await streams.entries.acknowledge([self.entry.id], of: self.entry.stream, by: consumer, tag: tag)
            return
        }
        _ = try await streams.mailboxes.finish(
            self.entry,
            of: self.context.command,
            identity: self.identity,
            by: consumer,
            tag: tag,
            home: self.context.tag,
            recipients: recipients.count,
            batch: batches[0],
        )
    }

    /// Returns units of the route for the recipients that could not be sent to. That is no attempt.
    private func unsent(_ outcome: RouteOutcome) -> [UnitRetry] {
        guard !outcome.update.unsent.isEmpty else { return [] }
        var unit = self.unit(outcome.plan)
        unit.recipients = outcome.plan.table.recipients(outcome.update.unsent)
        let id = "\(unit.send)/\(self.entry.id)/unsent/\(unit.route)"
        return [UnitRetry(due: self.handler.clock.now(), id: id, unit: unit)]
    }

    private func unit(_ plan: RunPlan) -> WorkUnit {
        var unit = WorkUnit(send: self.context.key, route: plan.context.number, recipients: .references([]))
        unit.lane = plan.lane
        unit.expiresAt = self.context.expiresAt
        unit.publishedAtNanoseconds = plan.publishedAtNanoseconds
        return unit
    }

    private func emptyBatch() -> OutcomeBatch {
        let route = self.context.routes.keys.min() ?? self.context.anyRoute ?? RouteNumber(0)
        return self.context.makeBatch(on: route, of: self.context.anyProvider)
    }
}

extension RecipientTable {
    /// Adds a device as the store has it.
    ///
    /// - Parameter send: says which of its tokens it is sent to.
    fileprivate mutating func append(
        _ device: StoredDevice,
        _ context: RouteContext,
        of send: SendContext,
        now: UnixMilliseconds,
    ) {
        var row = Row(
            partition: device.reference.partition,
            ordinal: device.reference.ordinal,
            generation: device.reference.generation,
        )
        if let suspicion = device.record.suspicion {
            let reason: Reason = suspicion.reason == .wrongEnvironment ? .wrongEnvironment : .badToken
            return self.append(row, outcome: .skipped, reason: reason)
        }
        row.variant = UInt16(context.messages.variantIndex(forLocale: Array(device.record.attributes.locale.utf8).span))
        row.isInstallation = device.record.tokenKind == .installation
        guard let activity = send.activity else {
            guard context.tokenKinds.contains(device.record.tokenKind) else {
                return self.append(row, outcome: .skipped, reason: .notMatching)
            }
            return self.append(row, device.record, now: now)
        }
        guard let address = activity.address(of: device.record, now: now) else {
            return self.append(row, outcome: .skipped, reason: .notMatching)
        }
        guard !address.isSuspect else { return self.append(row, outcome: .skipped, reason: .badToken) }
        guard !address.isOfOtherEnvironment else {
            return self.append(row, outcome: .skipped, reason: .wrongEnvironment)
        }
        self.append(row, token: address.token)
    }
}
