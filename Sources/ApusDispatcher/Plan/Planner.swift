internal import ApusCore
internal import ApusMessages
internal import ApusMetrics
internal import ApusRedis
internal import ApusService
internal import ApusStore
internal import ApusStreams
internal import ApusTLS
internal import Logging

/// Turns a route's part of an accepted send into work units, step by step.
///
/// Each step appends units and moves the cursor in one call. Planning therefore resumes exactly where it was after a
/// crash, and a planner that lost its entry is told to stop.
struct Planner: Sendable {
    let streams: SendStreams
    let store: DeviceStore
    let consumer: StreamConsumer
    let instruments: DispatcherInstruments
    let clock: any WallClock
    /// The maximum number of records read in one step, plus one chunk. A plan thus makes progress within its lease even
    /// if few records match.
    var recordsPerStepMax = 65_536
    /// Called after every step.
    var progressed: @Sendable () -> Void = {}
    /// Called with true when the plan waits for its send's own rate, and with false when it no longer does.
    var waits: @Sendable (Bool) -> Void = { _ in }
    let logger: Logger

    /// The maximum number of recipients of a unit.
    static let unitRecipientsMax = 500

    /// The wait while the route has enough units waiting. It doubles from `first` to `last`.
    private static let fullWaits = (first: Duration.milliseconds(20), last: Duration.milliseconds(200))

    /// One plan in progress.
    private struct Work {
        let context: SendContext
        let route: RouteNumber
        let entry: StreamEntry
        let tag: HashTag
        let isStopping: @Sendable () -> Bool
        /// The time when this process began with the plan, in nanoseconds since 1970.
        let startedAt: Int64
    }

    /// Plans a route's part of a send until its end, or until another consumer takes over, the send is paused or
    /// cancelled, or the process stops.
    func plan(
        _ entry: StreamEntry,
        route: RouteNumber,
        tag: HashTag,
        contexts: SendContextCache,
        isStopping: @escaping @Sendable () -> Bool,
    ) async throws {
        let text = String(decoding: entry.message, as: UTF8.self)
        guard let send = SendKey(text),
            let state = try await self.streams.plans.state(send: send, route: route, tag: tag),
            let context = try await contexts.context(of: send, tag: tag, isNew: state.cursor.isEmpty)
        else {
            self.logger.warning("a plan for a send that has ended", metadata: ["send": "\(text)"])
            try await self.streams.entries.acknowledge([entry], by: self.consumer, tag: tag)
            return
        }
        let share = PlanShare(route: route, routes: state.routes)
        var isList = true
        let source: any RecipientSource
        switch context.command.target {
        case .topic, .condition, .everyone, .expression:
            isList = false
            source = ScanSource(planner: self, context: context, share: share)
        // An audience that a provider holds is a list with one entry.
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

    /// Finds the next recipients; none once the message has expired.
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
        let expected = cursor.isBeginning ? "" : cursor.text
        let outcomes = self.outcomes(find, from: expected, work.context, work.route)
        var step = Plans.Step(from: expected, to: find.next.text, outcomes: outcomes)
        step.units = find.units
        step.isLast = find.isLast
        step.isExpired = find.isExpired
        step.plannedBesides = find.closed?.count ?? 0
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
            // The cursor is the one that this step writes: the step was written, and only its answer was lost.
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

    /// Returns the outcomes that are written with a step: those of recipients that ended without being sent to. The
    /// last step's also report that planning has ended.
    private func outcomes(
        _ find: RecipientFind,
        from cursor: String,
        _ context: SendContext,
        _ route: RouteNumber,
    ) -> OutcomeBatch {
        let provider =
            find.closed?.counts.first?.provider ?? context.routes[route]?.route.provider ?? context.anyProvider
        var batch = context.makeBatch(on: route, of: provider)
        if let closed = find.closed { batch.add(closed) }
        // Each step's receipt has a name of its own, and the same one when the step is repeated. The position of a scan may be long.
        let step = cursor.isEmpty ? "" : Hexadecimal.encode(Array(SHA256.hash(utf8: cursor).prefix(8)))
        batch.unit = "plan:\(route):\(step)"
        return batch
    }

    private func observe(_ work: Work) async throws {
        self.instruments.recordSpan(
            "plan apus:send",
            step: "plan/\(work.route)",
            of: work.context.command,
            send: work.context.send,
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

/// The result of one step through an audience.
struct RecipientFind: Sendable {
    /// The units to append, at most as many as asked for.
    var units: [WorkUnit] = []
    /// The recipients that were found but are not sent to; nil: none can be.
    var closed: ClosedRecipients?
    /// The cursor of the next step.
    var next: PlanCursor
    /// True when no recipients are left.
    var isLast: Bool
    /// True when the message had expired, so that no recipients were searched.
    var isExpired = false
}

/// Finds recipients from a cursor on.
protocol RecipientSource: Sendable {
    func next(after cursor: PlanCursor, unitsMax: Int) async throws -> RecipientFind
}

/// The errors of planning.
enum PlanningError: Error, CustomStringConvertible {
    /// The plan's stored cursor does not fit the target.
    case badCursor(String)

    var description: String {
        switch self {
        case .badCursor(let text): "the plan's cursor \"\(text)\" does not fit its target"
        }
    }
}

extension Planner {
    /// Creates a work unit of a send on a route.
    func unit(_ context: SendContext, _ route: RouteNumber, _ recipients: WorkUnit.Recipients) -> WorkUnit {
        var unit = WorkUnit(send: context.key, route: route, recipients: recipients)
        unit.lane = .bulk
        unit.expiresAt = context.expiresAt
        unit.publishedAtNanoseconds = context.command.publishedAtNanoseconds
        return unit
    }
}
