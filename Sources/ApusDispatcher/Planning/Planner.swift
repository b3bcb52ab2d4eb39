internal import ApusCore
internal import ApusMessages
internal import ApusMetrics
internal import ApusRedis
internal import ApusStore
internal import ApusStreams
internal import Logging

/// Turns an accepted send into work units, step by step: each step appends units and moves the cursor in one call, so that a crash
/// anywhere resumes exactly, and a planner that lost its entry is told to stop.
struct Planner: Sendable {
    let streams: SendStreams
    let store: DeviceStore
    let consumer: StreamConsumer
    let settings: DispatcherSettings
    let instruments: DispatcherInstruments
    let logger: Logger

    /// How long a planner waits when a stream has enough waiting.
    private static let fullWait = Duration.milliseconds(20)
    /// Plans a send to its end, or until another takes over or the process stops.
    func plan(_ entry: StreamEntry, tag: HashTag, book: SendBook, isStopping: @Sendable () -> Bool) async throws {
        let send = String(decoding: entry.message, as: UTF8.self)
        guard let state = try await self.streams.planState(send: send, tag: tag),
            let context = try await book.context(of: send, tag: tag)
        else {
            self.logger.warning("a plan for a send that has ended", metadata: ["send": "\(send)"])
            _ = try await self.streams.done(stream: entry.stream, entries: [entry.id], by: self.consumer, tag: tag)
            return
        }
        var isList = true
        let source: any RecipientSource
        switch context.command.target {
        case .addresses, .devices, .users:
            source = ListSource(planner: self, context: context)
        case .topic, .condition, .everyone, .expression, .fcmTopic, .fcmCondition, .apnsChannel:
            isList = false
            source = ScanSource(planner: self, context: context)
        }
        guard var cursor = PlanCursor(text: state.cursor, isList: isList) else {
            throw PlanningError.badCursor(state.cursor)
        }
        while true {
            guard !isStopping() else {
                return try await self.streams.handBack(
                    stream: entry.stream,
                    entries: [entry.id],
                    by: self.consumer,
                    tag: tag
                )
            }
            let find = try await source.next(after: cursor, unitsMax: StreamLimits.unitsPerStepMax)
            switch try await self.take(find, from: cursor, context, entry, tag, isStopping) {
            case .go(let next): cursor = next
            case .stop: return
            case .jump(let text):
                guard let there = PlanCursor(text: text, isList: isList) else { throw PlanningError.badCursor(text) }
                cursor = there
            }
        }
    }

    private enum Turn {
        case go(PlanCursor)
        case jump(String)
        case stop
    }

    private func take(
        _ find: RecipientFind,
        from cursor: PlanCursor,
        _ context: SendContext,
        _ entry: StreamEntry,
        _ tag: HashTag,
        _ isStopping: @Sendable () -> Bool,
    ) async throws -> Turn {
        let expected =
            cursor == .list(index: 0) || cursor == .scan(route: 0, partition: 0, chunk: 0, ordinal: 0)
            ? "" : cursor.text
        var step = SendStreams.PlanStep(from: expected, to: find.next.text)
        step.units = find.units.map { SendStreams.PlannedUnit($0) }
        step.isLast = find.isLast
        step.plannedBesides = find.closed.reduce(0) { $0 + $1.count }
        if find.isLast || !find.closed.isEmpty { step.outcomes = self.outcomes(find, context) }
        while true {
            let result = try await self.streams.fanstep(
                step,
                send: context.send,
                entry: entry,
                by: self.consumer,
                tag: tag
            )
            switch result {
            case .ok:
                guard !find.isLast else {
                    try await self.observe(context, tag)
                    return .stop
                }
                return .go(find.next)
            // The same cursor as this step's: it was written, only the answer was lost.
            case .moved(let there): return there == find.next.text && find.isLast ? .stop : .jump(there)
            case .lost: return .stop
            case .full, .paused:
                guard !isStopping() else {
                    try await self.streams.handBack(
                        stream: entry.stream,
                        entries: [entry.id],
                        by: self.consumer,
                        tag: tag
                    )
                    return .stop
                }
                try await Task.sleep(for: Self.fullWait)
            case .cancelled:
                _ = try await self.streams.done(stream: entry.stream, entries: [entry.id], by: self.consumer, tag: tag)
                return .stop
            }
        }
    }

    /// The batch that goes with a step: recipients that ended without being sent to, and word that planning is over.
    private func outcomes(_ find: RecipientFind, _ context: SendContext) -> OutcomeBatch {
        let provider = find.closed.first?.provider ?? context.routes.values.first?.route.provider ?? .apns
        var batch = OutcomeBatch(
            send: context.send,
            app: context.command.app,
            route: context.routes.keys.min() ?? RouteNumber(0),
            provider: provider,
        )
        batch.counts = find.closed
        batch.unit = "plan"
        batch.replyTo = context.command.replyTo
        batch.receiptLevel = context.command.receiptLevel
        batch.traceparent = context.command.traceparent
        batch.publishedAtNanoseconds = context.command.publishedAtNanoseconds
        return batch
    }

    private func observe(_ context: SendContext, _ tag: HashTag) async throws {
        let key = StreamKeys(tag: tag).send(context.send)
        guard let ledger = try await self.streams.ledger(key, tag: tag) else { return }
        self.instruments.shared.observe(Int64(clamping: ledger.planned), in: self.instruments.metrics.fanOut)
        self.logger.info(
            "planned",
            metadata: ["send": "\(context.send)", "app": "\(context.command.app)", "recipients": "\(ledger.planned)"],
        )
    }
}

/// What a look at an audience found.
struct RecipientFind: Sendable {
    /// To be appended, at most as many as asked for.
    var units: [WorkUnit] = []
    /// Found, but not to be sent to.
    var closed: [OutcomeCount] = []
    /// Where the next look begins.
    var next: PlanCursor
    /// Whether nobody is left.
    var isLast: Bool
}

/// Finds recipients from a cursor on.
protocol RecipientSource: Sendable {
    func next(after cursor: PlanCursor, unitsMax: Int) async throws -> RecipientFind
}

/// What goes wrong while planning.
enum PlanningError: Error, CustomStringConvertible {
    /// The state holds a cursor that does not fit the target.
    case badCursor(String)

    var description: String {
        switch self {
        case .badCursor(let text): "the plan's cursor \"\(text)\" does not fit its target"
        }
    }
}

extension Planner {
    /// A unit of a send on a route.
    func unit(_ context: SendContext, _ route: RouteNumber, _ recipients: WorkUnit.Recipients) -> WorkUnit {
        var unit = WorkUnit(send: context.send, route: route, recipients: recipients)
        unit.lane = .bulk
        unit.expiresAt = context.expiresAt
        unit.publishedAtNanoseconds = context.command.publishedAtNanoseconds
        return unit
    }
}
