internal import ApusCore
internal import ApusMessages
internal import ApusMetrics
internal import ApusRedis
internal import ApusService
internal import ApusStore
internal import ApusStreams
internal import Logging

/// Turns a batch of outcomes into effects, exactly once each.
///
/// Effects in other slots (pruning, receipts) come first and may be repeated without harm. A replica must have them
/// (``ReplicaBarrier``), where there is one. Then one function moves the ledger and
/// acknowledges the batch: both or neither. The batch that completes a send is acknowledged only when its receipt is out. A batch is
/// acknowledged by no other server than the one that had the shard before its effects: another may have taken over without them.
struct OutcomeHandler: Sendable {
    /// The acknowledgement of a batch.
    struct Acknowledgement: Sendable {
        /// The batch's entry.
        let entry: StreamEntry
        /// The server that had the shard before the batch had effects.
        let server: RedisServerIdentity
    }

    let keys: StreamKeys
    let streams: SendStreams
    let store: DeviceStore
    let massFailureGuard: MassFailureGuard
    let history: HistoryWriter
    let consumer: StreamConsumer
    /// Acknowledges batches that have no other effect in this shard, several at a time; answers whether a batch still was this consumer's.
    let acknowledgements: CallBatcher<Acknowledgement, Result<Bool, any Error>>
    let settings: FeedbackSettings
    let metrics: FeedbackMetrics
    let shared: SharedMetrics
    /// Takes the spans of recorded traces; nil: nobody wants them.
    var spans: SpanRecorder?
    let clock: any WallClock
    let logger: Logger

    /// Creates a batcher of acknowledgements of a shard's batches.
    ///
    /// - Parameter executor: where the shard's entries are handled, so that those of one read end in one call.
    static func acknowledgements(
        _ streams: SendStreams,
        _ keys: StreamKeys,
        _ consumer: StreamConsumer,
        on executor: LoopExecutor?,
    ) -> CallBatcher<Acknowledgement, Result<Bool, any Error>> {
        CallBatcher(countMax: StreamLimits.acknowledgedTogetherMax, on: executor) { requests in
            // All are for one server, unless it was replaced a moment ago.
            var answers: [RedisServerIdentity: Result<Set<String>, any Error>] = [:]
            for (server, requests) in Dictionary(grouping: requests, by: \.server) {
                do {
                    let ids = try await streams.entries.acknowledge(
                        requests.map(\.entry),
                        by: consumer,
                        tag: keys.tag,
                        server: server
                    )
                    answers[server] = .success(Set(ids))
                } catch {
                    answers[server] = .failure(error)
                }
            }
            return requests.map { request -> Result<Bool, any Error> in
                guard let acknowledged = answers[request.server] else {
                    preconditionFailure("the server of every request was asked")
                }
                return acknowledged.map { $0.contains(request.entry.id) }
            }
        }
    }

    /// Handles one entry. Throwing leaves it pending.
    func handle(_ entry: StreamEntry) async throws {
        let batch: OutcomeBatch
        do throws(MessageError) { batch = try OutcomeBatch.decode(entry.message) } catch {
            return try await self.writeDeadLetter(
                entry,
                problem: Problem(code: "malformed", field: error.field, detail: error.detail)
            )
        }
        if let detail = entry.burial {
            return try await self.writeDeadLetter(entry, problem: Problem(code: "poison", detail: detail))
        }
        let home = try await self.streams.client.serverIdentity(for: self.keys.tag)
        let isCounted = try await self.applyVerdicts(of: batch)
        if !batch.recipients.isEmpty, batch.receiptLevel == .recipients { try await self.writeRecipients(batch, home) }
        // Before it is acknowledged: what is told twice stands in a history once.
        await self.history.noteRecipients(of: batch)
        if batch.isFinal {
            try await self.finishDirect(batch, entry, home, isCounted)
        } else {
            try await self.applyToLedger(batch, entry, home, isCounted)
        }
    }

    // MARK: Tokens

    /// - Returns: whether the guard has counted the batch's answers.
    private func applyVerdicts(of batch: OutcomeBatch) async throws -> Bool {
        guard !batch.unregistered.isEmpty || !batch.suspects.isEmpty || !batch.refusals.isEmpty else { return false }
        let ticket = self.streams.barrier?.ticket()
        let (client, slots) = (self.streams.client, self.slots(of: batch))
        let servers = try await client.serverIdentities(for: slots)
        let app = try AppID(batch.app)
        let route = Route(app: app, provider: batch.provider, environment: batch.environment)
        let isCounted = try await self.massFailureGuard.applyVerdicts(of: batch, on: route)
        if let at = batch.lastAt {
            let delay = self.clock.now().milliseconds(since: at)
            self.shared.observe(max(0, delay) * 1_000_000, in: self.metrics.applyDelay)
        }
        if let ticket {
            try await self.streams.barrier?.wait(for: slots, acknowledgedAt: self.keys.tag, since: ticket)
        }
        // One that was restarted or replaced since may have forgotten them, and the entry is there still.
        guard try await client.serverIdentities(for: slots) == servers else {
            throw RedisError(.serverChanged, "Redis was replaced while verdicts were applied")
        }
        return isCounted
    }

    /// Returns the slots in which a batch's verdicts have effects: those of the devices, and that of the route's quarantine.
    private func slots(of batch: OutcomeBatch) -> [HashTag] {
        let partitions = (batch.unregistered + batch.suspects + batch.refusals).compactMap { verdict in
            QuarantinedToken(verdict)?.reference.partition
        }
        let tags = Set(partitions).map { self.store.keys.tag(Int($0)) }
        return tags + [self.streams.keys(ofRoute: batch.route).tag]
    }

    // MARK: Ledger and receipts

    private func applyToLedger(
        _ batch: OutcomeBatch,
        _ entry: StreamEntry,
        _ home: RedisServerIdentity,
        _ isCounted: Bool,
    ) async throws {
        let application = try await self.streams.outcomes.apply(
            batch,
            entry: entry,
            by: self.consumer,
            tag: self.keys.tag,
            keepMilliseconds: self.settings.ledgerMilliseconds,
            progress: batch.receiptLevel == .none ? nil : self.settings.progress,
            server: home,
        )
        switch application {
        case .ok: self.count(batch, isCounted)
        case .progress(let ledger):
            self.count(batch, isCounted)
            await self.reportProgress(ledger, batch, home)
        case .lost: return
        case .gone: self.logger.notice("outcomes of a send that is gone", metadata: ["send": "\(batch.send)"])
        case .final(let ledger):
            // Another one when there was one before: whoever drops repeats must not drop this.
            let id = "final:\(batch.receiptName)" + (ledger.reopened > 0 ? ":\(ledger.reopened)" : "")
            var receipt = SendReceipt(id: id, send: batch.send, app: batch.app, kind: .final)
            receipt.planned = ledger.planned
            receipt.counts = ledger.counts
            receipt.firstAt = ledger.firstAt
            receipt.lastAt = ledger.lastAt
            receipt.problem = ledger.problem ?? (ledger.isCancelled ? Self.cancelled : nil)
            try await self.write(receipt, batch, home)
            let trace = TraceContext(traceparent: batch.traceparent)?.child("feedback", of: batch.send)
            self.record(batch, ledger, trace)
            self.logger.traced(trace).info(
                "send complete",
                metadata: ["send": "\(batch.send)", "recipients": "\(ledger.planned)"],
            )
            // The process that acknowledges a batch counts it: until then the batch comes again, and is final again.
            guard try await self.acknowledge(entry, home) else { return }
            self.count(batch, isCounted)
        }
    }

    /// The problem of a send that was cancelled: without it a scheduled one would look as if nobody had matched.
    private static let cancelled = Problem(code: "cancelled", field: "", detail: "it was cancelled")

    /// Writes a receipt of progress at most once: the next one says more, and the final one comes for sure.
    private func reportProgress(_ ledger: SendLedger, _ batch: OutcomeBatch, _ home: RedisServerIdentity) async {
        let closed = ledger.counts.reduce(0) { $0 + $1.count }
        var receipt = SendReceipt(
            id: "progress:\(batch.receiptName):\(closed)",
            send: batch.send,
            app: batch.app,
            kind: .progress,
        )
        receipt.planned = ledger.planned
        receipt.counts = ledger.counts
        receipt.firstAt = ledger.firstAt
        receipt.lastAt = ledger.lastAt
        do {
            try await self.write(receipt, batch, home)
        } catch {
            self.logger.notice("progress not reported", metadata: ["send": "\(batch.send)", "error": "\(error)"])
        }
    }

    /// Records the span of a planned send as a whole, from the first outcome to the last.
    private func record(_ batch: OutcomeBatch, _ ledger: SendLedger, _ trace: TraceContext?) {
        guard let spans, let trace, let first = ledger.firstAt, let last = ledger.lastAt else { return }
        var attributes: [String: TraceSpan.Value] = [
            "apus.send": .text(batch.send), "apus.app": .text(batch.app),
            "apus.recipients": .integer(Int64(clamping: ledger.planned)),
        ]
        for outcome in Outcome.final {
            let count = ledger.total(outcome)
            if count > 0 { attributes["apus.\(outcome.name)"] = .integer(Int64(clamping: count)) }
        }
        spans.record(
            TraceSpan(
                "send apus:send",
                .internal,
                trace,
                parent: TraceContext(traceparent: batch.traceparent)?.span,
                tracestate: batch.tracestate,
                from: Self.nanoseconds(first),
                to: Self.nanoseconds(last),
                attributes: attributes,
            )
        )
    }

    /// Returns the nanoseconds since 1970; of a time beyond their range (2262), the last there is.
    private static func nanoseconds(_ time: UnixMilliseconds) -> Int64 {
        let (nanoseconds, overflows) = time.value.multipliedReportingOverflow(by: 1_000_000)
        return overflows ? .max : nanoseconds
    }

    /// Ends a batch of a direct send, which has no ledger. Its receipt, unless it was written with the batch, is written first.
    private func finishDirect(
        _ batch: OutcomeBatch,
        _ entry: StreamEntry,
        _ home: RedisServerIdentity,
        _ isCounted: Bool,
    ) async throws {
        if !batch.receiptIsWritten { try await self.write(SendReceipt(final: batch), batch, home) }
        guard try await self.acknowledge(entry, home) else { return }
        // Of a send's batches, the first has the number of its recipients.
        let isFirst = batch.planned > 0 || batch.counts.isEmpty
        if batch.receiptIsWritten, isFirst { self.shared.add(to: self.metrics.receipts[.final]) }
        self.count(batch, isCounted)
    }

    /// Acknowledges a batch where its effects are.
    ///
    /// - Returns: false when it is not this consumer's any more.
    private func acknowledge(_ entry: StreamEntry, _ home: RedisServerIdentity) async throws -> Bool {
        try await self.acknowledgements.answer(to: Acknowledgement(entry: entry, server: home)).get()
    }

    private func writeRecipients(_ batch: OutcomeBatch, _ home: RedisServerIdentity) async throws {
        let id = "recipients:\(batch.receiptName):\(batch.unit):\(batch.sequence):\(batch.route)"
        var receipt = SendReceipt(id: id, send: batch.send, app: batch.app, kind: .recipients)
        receipt.recipients = batch.recipients
        receipt.carry(batch)
        try await self.put(receipt, batch, home)
        self.shared.add(to: self.metrics.receipts[.recipients])
    }

    private func write(_ receipt: SendReceipt, _ batch: OutcomeBatch, _ home: RedisServerIdentity) async throws {
        guard batch.receiptLevel != .none else { return }
        var receipt = receipt
        receipt.carry(batch)
        try await self.put(receipt, batch, home)
        self.shared.add(to: self.metrics.receipts[receipt.kind == .progress ? .progress : .final])
    }

    private func put(_ receipt: SendReceipt, _ batch: OutcomeBatch, _ home: RedisServerIdentity) async throws {
        let refusal = try await self.streams.outcomes.write(
            receipt,
            replyTo: batch.replyTo,
            tag: self.keys.tag,
            home: home,
        )
        guard let refusal else { return }
        self.logger.warning(
            "reply_to takes no receipt; it goes to the shard's own stream",
            metadata: ["send": "\(batch.send)", "app": "\(batch.app)", "error": "\(refusal)"]
        )
    }

    /// Counts a batch. Called once for each.
    ///
    /// - Parameter isCounted: true when the guard has counted its answers.
    private func count(_ batch: OutcomeBatch, _ isCounted: Bool) {
        if !isCounted { self.massFailureGuard.countAnswers(of: batch) }
        self.shared.add(to: self.metrics.batches)
        for count in batch.counts {
            let amount = Int64(clamping: count.count)
            self.shared.add(amount, to: self.metrics.outcomes[count.provider, count.outcome])
            guard count.outcome != .accepted else { continue }
            self.shared.add(amount, to: self.metrics.reasons[count.provider, count.reason])
        }
    }

    private func writeDeadLetter(_ entry: StreamEntry, problem: Problem) async throws {
        try await self.streams.deadLetters.write(
            unusable: entry,
            "a batch of outcomes",
            problem,
            by: self.consumer,
            tag: self.keys.tag,
            at: self.clock.now(),
            self.logger,
        )
    }
}
