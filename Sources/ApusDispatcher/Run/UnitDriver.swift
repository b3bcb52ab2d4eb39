internal import ApusCore
internal import ApusMessages
internal import ApusMetrics
internal import ApusRedis
internal import ApusStreams
internal import Logging

/// Carries one work unit from its stream entry to its end: starts the run, writes its progress, obeys the verdict.
///
/// A bit is set in the journal only together with its outcome or its retry. After `kill -9` whoever takes the unit over sends
/// the zero bits only.
struct UnitDriver {
    let streams: SendStreams
    let consumer: StreamConsumer
    let tag: HashTag
    let worker: WorkerHandle
    let logger: Logger

    /// How the unit ended for this process.
    enum End: Sendable {
        /// It is finished and acknowledged.
        case finished
        /// Another owns it.
        case lost
        /// It was handed back: held, or this process is stopping.
        case handedBack
    }

    func drive(
        _ entry: StreamEntry,
        unit: WorkUnit,
        plan: RunPlan,
        isStopping: @Sendable () -> Bool,
    ) async throws -> End {
        let token = try await self.worker.start(plan)
        do {
            return try await self.follow(token, entry, unit, plan, isStopping)
        } catch {
            await self.abandon(token)
            throw error
        }
    }

    /// Nobody writes down what this run does any more: it must send nothing more, and leave its slot when the wire is empty.
    private func abandon(_ token: RunToken) async {
        try? await self.worker.stop(token)
        while let update = try? await self.worker.update(token) {
            if update.isFinished { try? await self.worker.remove(token) }
        }
    }

    private func follow(
        _ token: RunToken,
        _ entry: StreamEntry,
        _ unit: WorkUnit,
        _ plan: RunPlan,
        _ isStopping: @Sendable () -> Bool,
    ) async throws -> End {
        var sequence = entry.journal?.sequence ?? 0
        var hasStopped = false
        while true {
            let update = try await self.worker.update(token)
            sequence += 1
            let verdict = try await self.write(update, entry, unit, plan, sequence: sequence)
            if update.isFinished {
                try await self.worker.remove(token)
                guard verdict != .lost else { return .lost }
                guard !update.isComplete else { return .finished }
                try await self.streams.handBack(
                    stream: entry.stream,
                    entries: [entry.id],
                    by: self.consumer,
                    tag: self.tag
                )
                return .handedBack
            }
            switch verdict {
            case .running:
                guard isStopping(), !hasStopped else { continue }
                hasStopped = true
                try await self.worker.stop(token)
            case .paused, .lost:
                try await self.worker.stop(token)
            case .cancelled:
                try await self.worker.closeRest(token, .cancelled, .cancelled)
            }
        }
    }

    private func write(
        _ update: RunUpdate,
        _ entry: StreamEntry,
        _ unit: WorkUnit,
        _ plan: RunPlan,
        sequence: UInt32,
    ) async throws -> SendStreams.Verdict {
        let finishes = update.isFinished && update.isComplete
        let writes = update.isDirty || finishes
        var batch: OutcomeBatch?
        if update.report.count > 0 {
            batch = Self.batch(update.report, plan)
            batch?.unit = "\(entry.stream)/\(entry.id)"
            batch?.sequence = UInt64(sequence)
        }
        let outcomes = batch
        return try await self.persistently {
            try await self.streams.progress(
                entry,
                of: unit.send,
                by: self.consumer,
                tag: self.tag,
                journal: writes ? UnitJournal(sequence: sequence, bitmap: update.bitmap) : nil,
                outcomes: outcomes,
                retries: Self.retries(update, unit, plan, entry: entry, sequence: sequence),
                finish: finishes,
            )
        }
    }

    /// Redis away is no reason to forget what was sent: the report waits and is written when Redis is back.
    private func persistently<Result>(_ body: () async throws -> Result) async throws -> Result {
        var failures = 0
        while true {
            do {
                return try await body()
            } catch let error as RedisError where error.isRetryable {
                failures += 1
                self.logger.warning(
                    "progress not written, will repeat",
                    metadata: ["error": "\(error)", "failures": "\(failures)"]
                )
                try await Task.sleep(for: .milliseconds(min(2_000, 50 << min(failures, 6))))
            }
        }
    }

    static func batch(_ report: RunReport, _ plan: RunPlan) -> OutcomeBatch {
        let route = plan.context.route
        var batch = OutcomeBatch(
            send: plan.send.send,
            app: plan.send.command.app,
            route: plan.context.number,
            provider: route.provider,
        )
        batch.environment = route.environment
        batch.counts = report.counts(provider: route.provider)
        batch.unregistered = report.unregistered
        batch.suspects = report.suspects
        batch.recipients = report.recipients
        batch.firstAt = report.firstAt
        batch.lastAt = report.lastAt
        batch.replyTo = plan.send.command.replyTo
        batch.receiptLevel = plan.send.command.receiptLevel
        batch.traceparent = plan.send.command.traceparent
        batch.publishedAtNanoseconds = plan.publishedAtNanoseconds
        return batch
    }

    static func retries(
        _ update: RunUpdate,
        _ unit: WorkUnit,
        _ plan: RunPlan,
        entry: StreamEntry,
        sequence: UInt32,
    ) -> [SendStreams.Retry] {
        update.retries.map { due, indices in
            var again = unit
            again.recipients = plan.table.recipients(indices)
            again.attempt = unit.attempt + 1
            again.firstAttemptAt = unit.firstAttemptAt ?? update.report.firstAt ?? due
            return SendStreams.Retry(
                due: due,
                id: "\(unit.send)/\(entry.id)/\(sequence)/\(due)",
                unit: again,
            )
        }
    }
}
