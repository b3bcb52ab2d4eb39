internal import ApusCore
internal import ApusMessages
internal import ApusMetrics
internal import ApusRedis
internal import ApusStreams
internal import Logging
internal import NIOCore

/// Carries one work unit from its stream entry to its end: asks whether it may go out, starts the run, writes its progress, obeys the
/// verdict.
///
/// A bit is set in the journal only together with its outcome or its retry. After `kill -9` whoever takes the unit over sends
/// the zero bits only.
struct UnitDriver: Sendable {
    let streams: SendStreams
    let consumer: StreamConsumer
    let tag: HashTag
    let worker: WorkerHandle
    /// The worker's executor, for what goes on beside the reports.
    let executor: LoopExecutor
    let loader: RecipientLoader
    let channels: ChannelGate
    let contexts: SendContextCache
    let clock: any WallClock
    /// Records every report that was written, and while the run waits for its send's rate.
    let turn: EntryTurn
    let instruments: DispatcherInstruments
    let writer: OutcomeWriter

    /// The end of a unit for this process.
    enum End: Sendable {
        /// The unit is finished and acknowledged.
        case finished
        /// Another consumer owns the unit.
        case lost
        /// The unit waits for its send to be resumed, or for any other dispatcher.
        case left
        /// Recipients may have been sent to whose outcomes cannot be written.
        case unwritten(UnwrittenOutcomes)
    }

    /// Tells what is known of a unit whose outcomes cannot be written: it must not be sent again only for that.
    struct UnwrittenOutcomes: Sendable {
        /// The error that refuses the outcomes.
        let cause: String
        /// The journal as it was last written; empty when it never was.
        let written: [UInt8]
        /// The done bits of all recipients that may have been sent to; nil when they are not known.
        let sent: [UInt8]?
    }

    func drive(_ entry: StreamEntry, unit: WorkUnit, plan: RunPlan) async throws -> End {
        var plan = plan
        plan.ownedAt = .now()
        let verdict = try await self.report(entry, unit, journal: nil, next: .begin)
        plan.journal = verdict.journal?.bitmap ?? []
        plan.ratePerSecond = Double(verdict.ratePerSecond)
        switch verdict.state {
        case .running:
            // The consumer that left a journal, or filed a retry, had counted everybody before.
            try await self.loader.countBadges(
                in: &plan.table,
                of: plan.send,
                plan.context,
                storedRoute: plan.storedRoute,
                journal: plan.journal,
                triesElsewhere: plan.triesElsewhere,
                isRepeated: unit.attempt > 1 || unit.badgesCounted || verdict.journal != nil,
            )
        case .cancelled: plan.ending = (.cancelled, .cancelled)
        case .refused: plan.ending = (.rejected, .payload)
        case .paused: return .left
        case .lost: return .lost
        case .done:
            return try await self.report(entry, unit, journal: nil, next: .finish).state == .lost ? .lost : .finished
        }
        let token = try await self.worker.start(plan)
        var written = UnitJournal(sequence: verdict.journal?.sequence ?? 0, bitmap: plan.journal)
        do {
            return try await self.follow(token, entry, unit, plan, &written)
        } catch {
            let sent = await self.abandon(token)
            guard Disposition(of: error) != .stop else { throw error }
            return .unwritten(UnwrittenOutcomes(cause: "\(error)", written: written.bitmap, sent: sent))
        }
    }

    /// Stops a run whose outcomes can't be written any more: it sends nothing more, and leaves its slot when the wire is empty.
    ///
    /// - Returns: the done bits at its end, of all recipients that may have been sent to; nil when they are not known.
    private func abandon(_ token: RunToken) async -> [UInt8]? {
        var sent: [UInt8]?
        try? await self.worker.abandon(token)
        while let update = try? await self.worker.update(token) {
            guard update.isFinished else { continue }
            sent = update.bitmap
            try? await self.worker.remove(token)
        }
        return sent
    }

    private func follow(
        _ token: RunToken,
        _ entry: StreamEntry,
        _ unit: WorkUnit,
        _ plan: RunPlan,
        _ written: inout UnitJournal,
    ) async throws -> End {
        var sequence = written.sequence
        // A journal tells whoever takes the unit over that its badges are counted: a device remembers only the last sends.
        let tellsOfBadges = plan.context.needsBadges
        var isWaiting = false
        var rate = plan.ratePerSecond
        var hasStopped = false
        while true {
            let update = try await self.worker.update(token)
            guard update.recheck.isEmpty else {
                Task(executorPreference: self.executor) { await self.recheck(update.recheck, token, unit, plan) }
                continue
            }
            if update.waitsForSendRate != isWaiting {
                isWaiting = update.waitsForSendRate
                self.turn.waits(isWaiting)
            }
            let isWritten = update.isDirty || tellsOfBadges && sequence == 0
            // Only what is written has a number, so that a gap tells of a report that is missing.
            if isWritten { sequence += 1 }
            let journal = isWritten ? UnitJournal(sequence: sequence, bitmap: update.bitmap) : nil
            let verdict = try await self.write(update, entry, unit, plan, journal: journal)
            if let journal { written = journal }
            if update.isDirty, verdict.state != .lost { self.turn.progressed() }
            if update.isFinished {
                try await self.worker.remove(token)
                guard verdict.state != .lost else { return .lost }
                return update.isComplete ? .finished : .left
            }
            switch verdict.state {
            case .running:
                if Double(verdict.ratePerSecond) != rate {
                    rate = Double(verdict.ratePerSecond)
                    try await self.worker.setRate(token, perSecond: rate)
                }
                guard self.turn.isStopping(), !hasStopped else { continue }
                hasStopped = true
                try await self.worker.stop(token)
            case .paused, .lost, .done:
                try await self.worker.stop(token)
            case .cancelled:
                try await self.worker.closeRest(token, .cancelled, .cancelled)
            case .refused:
                try await self.worker.closeRest(token, .rejected, .payload)
            }
        }
    }

    /// The pause before recipients are read again that could not be read.
    private static let recheckPause = Duration.milliseconds(100)

    /// Reads recipients again that have waited, and renders their message again. Meanwhile the run's reports are written, and their verdicts obeyed.
    ///
    /// The run stops if a server is away for longer than a few tries: its unit leaves its place to others, and begins again when its recipients
    /// can be read.
    private func recheck(_ indices: [Int], _ token: RunToken, _ unit: WorkUnit, _ plan: RunPlan) async {
        var tries = 0
        while true {
            tries += 1
            do {
                let found = try await self.found(indices, plan)
                let readAt = found?.readAt ?? .now()
                let rendered = try await self.rendered(unit, plan)
                return try await self.worker.recheck(
                    token,
                    found?.rows,
                    of: indices,
                    readAt: readAt,
                    rendered: rendered
                )
            } catch {
                guard tries <= StreamLimits.outagesPerDeliveryMax, !self.turn.isStopping() else {
                    self.writer.logger.warning(
                        "recipients that have waited cannot be read again: their unit leaves its place",
                        metadata: [
                            "send": "\(unit.send.id)", "app": "\(unit.send.app)", "tries": "\(tries)",
                            "error": "\(error)",
                        ]
                    )
                    break
                }
            }
            try? await Task.sleep(for: Self.recheckPause)
        }
        try? await self.worker.stop(token)
    }

    /// Returns the rows of devices as the store has them now; nil for addresses, which are the command's.
    private func found(
        _ indices: [Int],
        _ plan: RunPlan,
    ) async throws -> (rows: RecipientTable, readAt: NIODeadline)? {
        guard plan.table.isOfDevices else { return nil }
        let readAt = NIODeadline.now()
        let rows = try await self.instruments.timing(.resolve) {
            try await self.loader.table(
                plan.table.references(indices),
                plan.send,
                plan.context,
                storedRoute: plan.storedRoute,
            )
        }
        return (rows: rows, readAt: readAt)
    }

    /// Returns the rendering of this minute, which may contain what is left of the time to live; nil for a send without an
    /// expiry, or one that has ended.
    private func rendered(_ unit: WorkUnit, _ plan: RunPlan) async throws -> RouteContext? {
        guard plan.send.expiresAt != nil else { return nil }
        return try await self.contexts.context(of: unit.send, tag: self.tag)?.routes[plan.context.number]
    }

    private func write(
        _ update: RunUpdate,
        _ entry: StreamEntry,
        _ unit: WorkUnit,
        _ plan: RunPlan,
        journal: UnitJournal?,
    ) async throws -> Work.Verdict {
        let sequence = journal?.sequence ?? 0
        let next: Work.NextStep =
            update.isFinished ? (update.isComplete ? .finish : .leave) : .continue
        var batch: OutcomeBatch?
        if update.report.count > 0 {
            let written = Self.batch(update.report, plan)
            try await self.writer.write { try await self.channels.learn(written.counts, of: plan.send.command) }
            batch = written
            batch?.unit = "\(entry.stream)/\(entry.id)"
            batch?.sequence = UInt64(sequence)
        }
        return try await self.report(
            entry,
            unit,
            journal: journal,
            outcomes: batch,
            retries: Self.retries(update, unit, plan, entry: entry, sequence: sequence),
            rejection: update.rejection.map {
                Work.MessageRejection(field: $0.field, provider: plan.context.route.provider, isByAll: $0.isByAll)
            },
            next: next,
        )
    }

    private func report(
        _ entry: StreamEntry,
        _ unit: WorkUnit,
        journal: UnitJournal?,
        outcomes: OutcomeBatch? = nil,
        retries: [UnitRetry] = [],
        rejection: Work.MessageRejection? = nil,
        next: Work.NextStep,
    ) async throws -> Work.Verdict {
        try await self.writer.write {
            try await self.instruments.timing(.write) {
                try await self.streams.work.record(
                    entry,
                    of: unit.send,
                    by: self.consumer,
                    tag: self.tag,
                    journal: journal,
                    outcomes: outcomes,
                    retries: retries,
                    now: self.clock.now(),
                    rejection: rejection,
                    next: next,
                )
            }
        }
    }

    static func batch(_ report: RunReport, _ plan: RunPlan) -> OutcomeBatch {
        // Verdicts about tokens belong to the environment in which the store has them.
        let stored = plan.storedRoute ?? plan.context
        let route = stored.route
        var batch = plan.send.makeBatch(on: stored.number, of: route.provider)
        batch.environment = route.environment
        batch.counts = report.counts(provider: route.provider)
        batch.unregistered = report.unregistered
        batch.suspects = report.suspects
        batch.refusals = report.refusals
        batch.recipients = report.recipients
        batch.firstAt = report.firstAt
        batch.lastAt = report.lastAt
        batch.publishedAtNanoseconds = plan.publishedAtNanoseconds
        batch.leaveOutTextsBeyondLimit()
        return batch
    }

    static func retries(
        _ update: RunUpdate,
        _ unit: WorkUnit,
        _ plan: RunPlan,
        entry: StreamEntry,
        sequence: UInt32,
    ) -> [UnitRetry] {
        let thirdPartyAuth = update.thirdPartyAuth.map { due, indices in
            var waiting = unit
            waiting.recipients = plan.table.recipients(indices)
            waiting.attempt = min(unit.attempt + 1, RecipientRun.thirdPartyAuthAttemptsMax)
            waiting.waitsForThirdPartyAuth = true
            // The time after which the provider is given up begins when the third party takes our credential.
            waiting.firstAttemptAt = nil
            let id = "\(unit.send)/\(entry.origin)/\(unit.route)/\(sequence)/\(due)/third-party-auth"
            return UnitRetry(due: due, id: id, unit: waiting)
        }
        let subroute = update.subroute.map { due, indices in
            var waiting = unit
            waiting.recipients = plan.table.recipients(indices)
            // As above; a number above 0 also says that badges were counted.
            waiting.attempt = min(unit.attempt + 1, RecipientRun.thirdPartyAuthAttemptsMax)
            waiting.firstAttemptAt = nil
            return UnitRetry(
                due: due,
                id: "\(unit.send)/\(entry.origin)/\(unit.route)/\(sequence)/\(due)/subroute",
                unit: waiting
            )
        }
        let putOff = update.putOff.map { due, indices in
            var waiting = unit
            waiting.recipients = plan.table.recipients(indices)
            waiting.attempt = max(unit.attempt, min(unit.attempt + 1, RecipientRun.unsentAttemptsMax))
            waiting.waitsForThirdPartyAuth = false
            return UnitRetry(
                due: due,
                id: "\(unit.send)/\(entry.origin)/\(unit.route)/\(sequence)/\(due)/unsent",
                unit: waiting
            )
        }
        let retries =
            thirdPartyAuth + subroute + putOff
            + update.retries.map { due, indices in
                var again = unit
                again.recipients = plan.table.recipients(indices)
                again.attempt = unit.attempt + 1
                again.waitsForThirdPartyAuth = false
                again.firstAttemptAt = unit.firstAttemptAt ?? update.report.firstAt ?? due
                return UnitRetry(
                    due: due,
                    // Entries of different streams may have the same id, and one command may go out on several routes.
                    id: "\(unit.send)/\(entry.origin)/\(unit.route)/\(sequence)/\(due)",
                    unit: again,
                )
            }
        guard let other = plan.other, !update.elsewhere.isEmpty else { return retries }
        var elsewhere = unit
        elsewhere.route = other.number
        elsewhere.homeEnvironment = plan.context.route.environment
        elsewhere.recipients = plan.table.recipients(update.elsewhere)
        elsewhere.attempt = unit.attempt + 1
        elsewhere.firstAttemptAt = unit.firstAttemptAt ?? update.report.firstAt
        let id = "\(unit.send)/\(entry.origin)/\(unit.route)/\(sequence)/elsewhere"
        return retries + [UnitRetry(due: UnixMilliseconds(0), id: id, unit: elsewhere)]
    }
}

/// Divides the recipients of a unit by what its journal says of them. Pure.
///
/// In a send that may go out once only, a recipient that is marked and has no outcome may have been sent to: it ends as unknown, and must
/// never be sent to again.
struct UnitRemainder: Hashable {
    /// The number of recipients without an outcome that may have been sent to.
    let markedCount: UInt64
    /// The recipients that were certainly not sent to.
    let untouched: WorkUnit.Recipients

    /// Reads a journal: the done bits and, of a send that may go out once only, as many marked ones.
    init(_ unit: WorkUnit, journal: UnitJournal?) {
        let count = unit.recipients.count
        let bits = journal?.bitmap ?? []
        let done = DoneBitmap(count: count, journal: bits)
        let marked = DoneBitmap(count: count, journal: Array(bits.dropFirst(DoneBitmap.byteCount(of: count))))
        self.markedCount = UInt64((0..<count).count { marked[$0] && !done[$0] })
        self.untouched = unit.recipients.keeping { !done[$0] && !marked[$0] }
    }

    /// Counts the recipients that are closed: those that may have been sent to as unknown, the others as the caller says.
    func counts(_ provider: Provider, _ outcome: Outcome, _ reason: Reason) -> [OutcomeCount] {
        [
            OutcomeCount(provider: provider, outcome: .failed, reason: .unknown, count: self.markedCount),
            OutcomeCount(
                provider: provider,
                outcome: outcome,
                reason: reason,
                count: UInt64(self.untouched.count),
            ),
        ].filter { $0.count > 0 }
    }
}
