internal import ApusCore
internal import ApusMessages
internal import ApusRedis
internal import ApusStore

/// Finds a route's recipients of an audience: partition after partition, chunk after chunk, from the postings, and from the records
/// where topics do not say it all. The first route's plan then counts those that no route leads to.
///
/// The order of partitions starts elsewhere for each send, so that sends at the same time do not crowd on one partition.
struct ScanSource: RecipientSource {
    let planner: Planner
    let context: SendContext
    let share: PlanShare

    /// Partitions looked at together.
    private static let partitionsAtOnce = 32
    /// Records read in one step, so that a plan shows progress within its lease however few match; a chunk more at most.
    private static let recordsPerStepMax = 65_536

    /// What this plan looks through: its own route, then what no plan's route leads to, if it is the first.
    private var routes: [Route] {
        guard let app = try? AppID(self.context.command.app) else { return [] }
        var wanted = Provider.allCases
        if case .everyone(let providers) = self.context.command.target, !providers.isEmpty {
            wanted = providers.sorted()
        }
        let all = Realm.allCases.map { $0.route(of: app) }.filter { wanted.contains($0.provider) }
        func part(_ part: PlanShare.Part) -> [Route] {
            all.filter { self.share.part(of: self.context.number(of: $0)) == part }
        }
        return part(.mine) + part(.nobodys)
    }

    /// What the postings are asked for.
    private func expression(on route: Route) -> TopicExpression {
        switch self.context.predicate {
        case .topics(let expression): expression
        case .audience(let audience): audience[Realm(route)].postings
        case .exists, .users: .everyone
        }
    }

    /// What records must be read for; nil: postings say it all.
    private func filter(on route: Route) -> RealmAudience? {
        guard case .audience(let audience) = self.context.predicate else { return nil }
        let form = audience[Realm(route)]
        return form.isExact ? nil : form
    }

    func next(after cursor: PlanCursor, unitsMax: Int) async throws -> RecipientFind {
        guard case .scan(var routeIndex, var partition, var chunk, var ordinal) = cursor else {
            preconditionFailure("a scan needs a scan's cursor")
        }
        let routes = self.routes
        let partitions = self.planner.store.keys.keyspace.devicePartitions
        while routeIndex < routes.count {
            let route = routes[routeIndex]
            // Of a route that the configuration has lost, they are counted only.
            let isMine = self.context.context(of: route)?.number == self.share.route
            var gathering = Gathering(recipientsMax: Planner.unitRecipientsMax)
            var unroutable: UInt64 = 0
            let filter = self.filter(on: route)
            var recordsRead = 0
            /// What was found so far, to go on from there.
            func found(_ next: PlanCursor) -> RecipientFind {
                var find = self.find(gathering, next)
                if unroutable > 0 {
                    find.closed = [
                        OutcomeCount(provider: route.provider, outcome: .failed, reason: .noRoute, count: unroutable)
                    ]
                }
                return find
            }
            while partition < partitions, gathering.fullUnits < unitsMax {
                let slice = partition..<min(partition + Self.partitionsAtOnce, partitions)
                let sets = try await self.look(route, slice, fromChunk: chunk)
                for (index, sets) in zip(slice, sets) {
                    let isResumed = index == partition
                    let physical = self.physical(index, of: partitions)
                    for (offset, candidates) in sets.enumerated() {
                        let here = (isResumed ? chunk : 0) + offset
                        let first = isResumed && offset == 0 ? ordinal : 0
                        var set = candidates
                        if let filter {
                            guard recordsRead < Self.recordsPerStepMax else {
                                return found(.scan(route: routeIndex, partition: index, chunk: here, ordinal: first))
                            }
                            recordsRead += candidates.count
                            set = try await self.planner.store.matching(
                                candidates,
                                filter,
                                route.app,
                                physical,
                                chunk: here,
                            )
                        }
                        guard isMine else {
                            unroutable += UInt64(set.ordinals.count { $0 >= first })
                            continue
                        }
                        let stopped = gathering.add(
                            set,
                            partition: UInt32(physical),
                            chunk: UInt32(here),
                            from: first,
                            unitsMax: unitsMax,
                        )
                        if let stopped {
                            return found(.scan(route: routeIndex, partition: index, chunk: here, ordinal: stopped))
                        }
                    }
                    if isResumed { (chunk, ordinal) = (0, 0) }
                }
                partition = slice.upperBound
            }
            if partition >= partitions {
                (routeIndex, partition, chunk, ordinal) = (routeIndex + 1, 0, 0, 0)
            }
            var result = found(.scan(route: routeIndex, partition: partition, chunk: chunk, ordinal: ordinal))
            result.isLast = routeIndex >= routes.count
            if result.isLast || !result.units.isEmpty || !result.closed.isEmpty { return result }
        }
        return RecipientFind(next: cursor, isLast: true)
    }

    /// The partition visited at a position of the plan.
    private func physical(_ position: Int, of partitions: Int) -> Int {
        (position + Int(self.context.digest % UInt64(partitions))) % partitions
    }

    /// The sets of the partitions at those positions; the first one from a chunk on.
    private func look(_ route: Route, _ positions: Range<Int>, fromChunk: Int) async throws -> [[ChunkSet]] {
        let (store, expression) = (self.planner.store, self.expression(on: route))
        let partitions = store.keys.keyspace.devicePartitions
        return try await withThrowingTaskGroup(of: (Int, [ChunkSet]).self) { group in
            for position in positions {
                let partition = self.physical(position, of: partitions)
                let first = position == positions.lowerBound ? fromChunk : 0
                group.addTask {
                    let count = try await store.chunkCount(route, partition)
                    guard first < count else { return (position, []) }
                    return (position, try await store.audience(route, partition, chunks: first..<count, expression))
                }
            }
            var found: [[ChunkSet]] = Array(repeating: [], count: positions.count)
            for try await (position, sets) in group { found[position - positions.lowerBound] = sets }
            return found
        }
    }

    private func find(_ gathering: Gathering, _ next: PlanCursor) -> RecipientFind {
        let units = gathering.units.map { self.planner.unit(self.context, self.share.route, .segments($0)) }
        return RecipientFind(units: units, next: next, isLast: false)
    }
}

/// Fills units with segments across partitions.
struct Gathering {
    private let recipientsMax: Int
    private var done: [[Segment]] = []
    private var open: [Segment] = []
    private var openCount = 0

    init(recipientsMax: Int) { self.recipientsMax = recipientsMax }

    /// Units that are full.
    var fullUnits: Int { self.done.count }

    /// All units, the last one maybe not full.
    var units: [[Segment]] { self.open.isEmpty ? self.done : self.done + [self.open] }

    /// Adds the ordinals of a set from one on. When as many units are full as may be, stops and says at which ordinal.
    mutating func add(_ set: ChunkSet, partition: UInt32, chunk: UInt32, from first: Int, unitsMax: Int) -> Int? {
        var segment = Segment(partition: partition, chunk: chunk, ordinals: [])
        for ordinal in set.ordinals where ordinal >= first {
            if self.fullUnits >= unitsMax { return ordinal }
            segment.ordinals.append(UInt16(ordinal))
            self.openCount += 1
            guard self.openCount >= self.recipientsMax else { continue }
            self.open.append(segment)
            self.done.append(self.open)
            self.open = []
            self.openCount = 0
            segment.ordinals = []
        }
        if !segment.ordinals.isEmpty { self.open.append(segment) }
        return nil
    }
}
