internal import ApusCore
internal import ApusMessages
internal import ApusRedis
internal import ApusStore

/// Finds a route's recipients of an audience, partition by partition and chunk by chunk.
///
/// It reads the postings, and the records where the postings do not decide. The first route's plan then counts the
/// recipients that no route leads to. The first partition differs by send, so that simultaneous sends do not crowd on
/// one partition.
struct ScanSource: RecipientSource {
    let planner: Planner
    let context: SendContext
    let share: PlanShare

    /// The number of partitions scanned concurrently.
    private static let partitionsAtOnce = 32
    /// The maximum number of records read in one step, plus one chunk. A plan thus makes progress within its lease even
    /// if few records match.
    private static let recordsPerStepMax = 65_536

    /// The routes that this plan scans: its own, then, if the plan is the first, those without a plan.
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

    /// Returns the expression that the postings answer.
    private func expression(on route: Route) -> TopicExpression {
        switch self.context.predicate {
        case .topics(let expression): expression
        case .audience(let audience): audience[Realm(route)].postings
        case .exists, .devices, .users: .everyone
        }
    }

    /// Returns the filter for which records must be read; nil if the postings decide alone.
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
            /// Returns the recipients found so far.
            ///
            /// - Parameter next: the cursor of the next step.
            func found(_ next: PlanCursor) -> RecipientFind {
                var find = self.find(gathering, next)
                if unroutable > 0 {
                    let ending = self.context.ending(unrenderedFor: route.provider)
                    var closed = ClosedRecipients(listed: false, at: self.planner.clock.now())
                    closed.add(route.provider, ending.outcome, ending.reason, count: unroutable)
                    find.closed = closed
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
            if result.isLast || !result.units.isEmpty || result.closed != nil { return result }
        }
        return RecipientFind(next: cursor, isLast: true)
    }

    /// Returns the partition at a position of the scan.
    private func physical(_ position: Int, of partitions: Int) -> Int {
        (position + Int(self.context.digest % UInt64(partitions))) % partitions
    }

    /// Returns the sets of the partitions at the given positions. The first partition starts at a chunk.
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

/// Distributes segments of several partitions over units.
struct Gathering {
    private let recipientsMax: Int
    private var done: [[Segment]] = []
    private var open: [Segment] = []
    private var openCount = 0

    init(recipientsMax: Int) { self.recipientsMax = recipientsMax }

    /// The number of full units.
    var fullUnits: Int { self.done.count }

    /// All units. The last one may not be full.
    var units: [[Segment]] { self.open.isEmpty ? self.done : self.done + [self.open] }

    /// Adds the ordinals of a set, beginning with `first`. Stops when `unitsMax` units are full, and returns the first
    /// ordinal that was not added.
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
