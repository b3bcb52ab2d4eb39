internal import ApusCore
internal import ApusMessages
internal import ApusMetrics
internal import ApusRedis
internal import ApusService
internal import ApusStore
internal import ApusStreams
internal import Logging

/// Turns a route's part of an accepted send into work units, step by step: each step appends units and moves the cursor in one call, so
/// that a crash anywhere resumes exactly, and a planner that lost its entry is told to stop.
struct Planner: Sendable {
    let streams: SendStreams
    let store: DeviceStore
    let consumer: StreamConsumer
    let instruments: DispatcherInstruments
    let clock: any WallClock
    /// Told of every step that was taken.
    var progressed: @Sendable () -> Void = {}
    /// Told when the plan waits for its send's own rate, and when it no longer does.
    var waits: @Sendable (Bool) -> Void = { _ in }
    let logger: Logger

    /// Recipients of one unit.
    static let unitRecipientsMax = 500

    /// How long a planner waits when its route has enough waiting: doubled from the first to the last.
    private static let fullWaits = (first: Duration.milliseconds(20), last: Duration.milliseconds(200))

    /// One plan at work.
    private struct Work {
        let context: SendContext
        let route: RouteNumber
        let entry: StreamEntry
        let tag: HashTag
        let isStopping: @Sendable () -> Bool
        /// When this process began with it, in nanoseconds since 1970.
        let startedAt: Int64
    }

    /// Plans a route's part of a send to its end, or until another takes over, the send is held or the process stops.
    func plan(
        _ entry: StreamEntry,
        route: RouteNumber,
        tag: HashTag,
        book: SendContextCache,
        isStopping: @escaping @Sendable () -> Bool,
    ) async throws {
        let text = String(decoding: entry.message, as: UTF8.self)
        guard let send = SendKey(text),
            let state = try await self.streams.plans.state(send: send, route: route, tag: tag),
            let context = try await book.context(of: send, tag: tag, isNew: state.cursor.isEmpty)
        else {
            self.logger.warning("a plan for a send that has ended", metadata: ["send": "\(text)"])
            _ = try await self.streams.entries.acknowledge([entry.id], of: entry.stream, by: self.consumer, tag: tag)
            return
        }
        let share = PlanShare(route: route, routes: state.routes)
        var isList = true
        let source: any RecipientSource
        switch context.command.target {
        case .topic, .condition, .everyone, .expression:
            isList = false
            source = ScanSource(planner: self, context: context, share: share)
        // An audience that a provider holds is a list of one.
        default: source = ListSource(planner: self, context: context, share: share)
        }
        guard var cursor = PlanCursor(text: state.cursor, isList: isList) else {
            throw PlanningError.badCursor(state.cursor)
        }
        let work = Work(
            context: context,
            route: route,
            entry: entry,
            tag: tag,
            isStopping: isStopping,
            startedAt: self.clock.nanosecondsSince1970(),
        )
        let unitsMax =
            context.command.ratePerSecond > 0
            ? StreamLimits.pacedUnitsPerStepMax : StreamLimits.unitsPerStepMax
        while true {
            guard !isStopping() else { return try await self.handBack(work) }
            let find = try await self.find(source, after: cursor, unitsMax: unitsMax, context)
            switch try await self.take(find, from: cursor, work) {
            case .go(let next): cursor = next
            case .stop: return
            case .jump(let text):
                guard let there = PlanCursor(text: text, isList: isList) else { throw PlanningError.badCursor(text) }
                cursor = there
            }
        }
    }

    /// Who comes next: nobody, once the message is worth nothing any more.
    private func find(
        _ source: any RecipientSource,
        after cursor: PlanCursor,
        unitsMax: Int,
        _ context: SendContext,
    ) async throws -> RecipientFind {
        guard context.expiresAt.map({ self.clock.now() < $0 }) ?? true else {
            return RecipientFind(next: cursor, isLast: true, isExpired: true)
        }
        return try await source.next(after: cursor, unitsMax: unitsMax)
    }

    private enum Turn {
        case go(PlanCursor)
        case jump(String)
        case stop
    }

    private func take(_ find: RecipientFind, from cursor: PlanCursor, _ work: Work) async throws -> Turn {
        let expected =
            cursor == .list(index: 0) || cursor == .scan(route: 0, partition: 0, chunk: 0, ordinal: 0)
            ? "" : cursor.text
        let outcomes = self.outcomes(find, work.context, work.route)
        var step = Plans.Step(from: expected, to: find.next.text, outcomes: outcomes)
        step.units = find.units
        step.isLast = find.isLast
        step.isExpired = find.isExpired
        step.plannedBesides = find.closed.reduce(0) { $0 + $1.count }
        var wait = Self.fullWaits.first
        while true {
            let result = try await self.streams.plans.advance(
                step,
                send: work.context.key,
                entry: work.entry,
                by: self.consumer,
                tag: work.tag
            )
            switch result {
            case .ok:
                self.waits(false)
                self.progressed()
                guard !find.isLast else {
                    try await self.observe(work)
                    return .stop
                }
                return .go(find.next)
            // The same cursor as this step's: it was written, only the answer was lost.
            case .moved(let there): return there == find.next.text && find.isLast ? .stop : .jump(there)
            case .lost, .paused, .cancelled: return .stop
            case .full, .paced:
                self.waits(result == .paced)
                guard !work.isStopping() else {
                    try await self.handBack(work)
                    return .stop
                }
                try await Task.sleep(for: wait)
                wait = min(wait * 2, Self.fullWaits.last)
            }
        }
    }

    private func handBack(_ work: Work) async throws {
        try await self.streams.entries.handBack(
            stream: work.entry.stream,
            entries: [work.entry.id],
            by: self.consumer,
            tag: work.tag,
        )
    }

    /// The batch that goes with a step: recipients that ended without being sent to, and word that planning is over.
    private func outcomes(_ find: RecipientFind, _ context: SendContext, _ route: RouteNumber) -> OutcomeBatch {
        let provider = find.closed.first?.provider ?? context.routes[route]?.route.provider ?? context.anyProvider
        var batch = OutcomeBatch(send: context.send, app: context.command.app, route: route, provider: provider)
        batch.counts = find.closed
        batch.unit = "plan:\(route)"
        batch.replyTo = context.command.replyTo
        batch.receiptLevel = context.command.receiptLevel
        batch.traceparent = context.trace?.traceparent ?? ""
        batch.tracestate = context.tracestate
        batch.publishedAtNanoseconds = context.command.publishedAtNanoseconds
        return batch
    }

    private func observe(_ work: Work) async throws {
        self.instruments.recordSpan(
            "plan apus:send",
            step: "plan/\(work.route)",
            of: work.context,
            from: work.startedAt,
            to: self.clock.nanosecondsSince1970()
        )
        let key = StreamKeys(tag: work.tag).send(work.context.key)
        guard let ledger = try await self.streams.outcomes.ledger(key, tag: work.tag), !ledger.isPlanning else {
            return
        }
        self.instruments.shared.observe(Int64(clamping: ledger.planned), in: self.instruments.metrics.fanOut)
        self.logger.traced(work.context.trace).info(
            "planned",
            metadata: [
                "send": "\(work.context.send)", "app": "\(work.context.command.app)",
                "recipients": "\(ledger.planned)",
            ],
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
    /// Whether nobody was looked for: the message has lost its worth.
    var isExpired = false
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
        var unit = WorkUnit(send: context.key, route: route, recipients: recipients)
        unit.lane = .bulk
        unit.expiresAt = context.expiresAt
        unit.publishedAtNanoseconds = context.command.publishedAtNanoseconds
        return unit
    }
}
