internal import ApusCore
internal import ApusMessages
internal import ApusRedis
internal import ApusStore
internal import Synchronization

/// Finds a route's recipients of an audience, partition by partition and chunk by chunk.
///
/// It reads the postings, and the records where the postings do not decide. The first route's plan then counts the
/// recipients that no route leads to. The first partition differs by send, so that simultaneous sends do not crowd on
/// one partition. Partitions of a server that does not answer come last, so that it keeps no other recipients waiting.
struct ScanSource: RecipientSource {
    let planner: Planner
    let context: SendContext
    let share: PlanShare
    /// The servers that did not answer this plan just now.
    private let silentServers = SilentServers()

    init(planner: Planner, context: SendContext, share: PlanShare) {
        (self.planner, self.context, self.share) = (planner, context, share)
    }

    /// The number of partitions scanned concurrently.
    private static let partitionsAtOnce = 32
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
        guard case .scan(var position) = cursor else { preconditionFailure("a scan needs a scan's cursor") }
        let routes = self.routes
        let partitions = self.planner.store.keys.keyspace.devicePartitions
        while position.route < routes.count {
            var step = Step(self, routes[position.route], position)
            let failure = try await step.run(unitsMax: unitsMax)
            position = step.position
            if position.isComplete(of: partitions) { position.beginNextRoute() }
            var find = self.find(step.gathering, .scan(position))
            find.closed = step.closed
            find.isLast = position.route >= routes.count
            if find.isLast || step.isFull || !find.units.isEmpty || find.closed != nil { return find }
            // Nobody could be found: all that is left lies on servers that do not answer.
            if let failure { throw failure }
        }
        return RecipientFind(next: cursor, isLast: true)
    }

    /// Returns the partition at a position of the scan.
    private func physical(_ position: Int, of partitions: Int) -> Int {
        (position + Int(self.context.digest % UInt64(partitions))) % partitions
    }

    /// One step of a scan through one route.
    private struct Step {
        let source: ScanSource
        let route: Route
        /// False for a route that the configuration has lost, whose recipients are counted only.
        let isMine: Bool
        let filter: RealmAudience?
        let partitions: Int
        var position: ScanPosition
        var gathering = Gathering(recipientsMax: Planner.unitRecipientsMax)
        /// True when the step has found or read as much as it may.
        private(set) var isFull = false
        private var unroutable: UInt64 = 0
        private var recordsRead = 0

        init(_ source: ScanSource, _ route: Route, _ position: ScanPosition) {
            (self.source, self.route, self.position) = (source, route, position)
            self.isMine = source.context.context(of: route)?.number == source.share.route
            self.filter = source.filter(on: route)
            self.partitions = source.planner.store.keys.keyspace.devicePartitions
        }

        /// The recipients on a route without a plan; nil for none.
        var closed: ClosedRecipients? {
            guard self.unroutable > 0 else { return nil }
            let ending = self.source.context.ending(unrenderedFor: self.route.provider)
            var closed = ClosedRecipients(listed: false, at: self.source.planner.clock.now())
            closed.add(self.route.provider, ending.outcome, ending.reason, count: self.unroutable)
            return closed
        }

        /// Visits partitions until that many units are full, or no partition is left whose server answers.
        ///
        /// - Returns: the last failure of a server that does not answer; nil when every server did.
        mutating func run(unitsMax: Int) async throws -> (any Error)? {
            var failure: (any Error)?
            var silent: Set<Int> = []
            while self.gathering.fullUnits < unitsMax {
                let places = self.position.places(atMost: ScanSource.partitionsAtOnce, of: self.partitions) {
                    silent.contains($0)
                }
                guard !places.isEmpty else { break }
                for (place, sets) in zip(places, try await self.look(places)) {
                    var reached = place
                    do {
                        guard try await self.visit(sets.get(), from: &reached, unitsMax: unitsMax) else {
                            self.position.reach(reached)
                            self.isFull = true
                            return failure
                        }
                        self.position.finish(place.partition)
                    } catch let error as any DisposedError where error.disposition == .retryLater {
                        failure = error
                        silent.insert(place.partition)
                        self.position.skip(reached)
                    }
                }
            }
            return failure
        }

        /// Gathers the recipients of a partition from a place on.
        ///
        /// - Parameters:
        ///   - sets: of the chunks from the place's on.
        ///   - place: moved as far as recipients were gathered.
        /// - Returns: false when it ended before the partition did.
        private mutating func visit(
            _ sets: [ChunkSet],
            from place: inout ScanPosition.Place,
            unitsMax: Int,
        ) async throws -> Bool {
            let physical = self.source.physical(place.partition, of: self.partitions)
            for candidates in sets {
                var set = candidates
                if let filter {
                    guard self.recordsRead < self.source.planner.recordsPerStepMax else { return false }
                    self.recordsRead += candidates.count
                    set = try await self.source.planner.store.matching(
                        candidates,
                        filter,
                        self.route.app,
                        physical,
                        chunk: place.chunk,
                    )
                }
                if self.isMine {
                    let stopped = self.gathering.add(
                        set,
                        partition: UInt32(physical),
                        chunk: UInt32(place.chunk),
                        from: place.ordinal,
                        unitsMax: unitsMax,
                    )
                    if let stopped {
                        place.ordinal = stopped
                        return false
                    }
                } else {
                    self.unroutable += UInt64(set.ordinals.count { $0 >= place.ordinal })
                }
                (place.chunk, place.ordinal) = (place.chunk + 1, 0)
            }
            return true
        }

        /// Reads the sets of the partitions at those places, each from the place's chunk on.
        private func look(_ places: [ScanPosition.Place]) async throws -> [Result<[ChunkSet], any Error>] {
            let (source, route, partitions) = (self.source, self.route, self.partitions)
            let (store, expression) = (source.planner.store, source.expression(on: route))
            return try await forEachConcurrently(places) { place in
                let partition = source.physical(place.partition, of: partitions)
                let server = store.server(ofPartition: partition)
                if let error = source.silentServers.error(of: server) { return .failure(error) }
                do throws(StoreError) {
                    let count = try await store.chunkCount(route, partition)
                    guard place.chunk < count else { return .success([]) }
                    return .success(
                        try await store.audience(route, partition, chunks: place.chunk..<count, expression)
                    )
                } catch {
                    source.silentServers.note(error, of: server)
                    return .failure(error)
                }
            }
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

/// Remembers which servers of Redis did not answer, so that each of their partitions does not wait for one in turn.
private final class SilentServers: Sendable {
    /// The time for which such a server is not asked again.
    private static let pause = Duration.seconds(5)

    private let servers = Mutex<[RedisEndpoint: (until: ContinuousClock.Instant, error: StoreError)]>([:])

    /// Returns the error of a server that did not answer within the last seconds.
    func error(of server: RedisEndpoint?) -> StoreError? {
        guard let server, let found = self.servers.withLock({ $0[server] }), found.until > .now else { return nil }
        return found.error
    }

    /// Notes the error of a call.
    func note(_ error: StoreError, of server: RedisEndpoint?) {
        guard let server, let code = error.redis?.code, Self.codes.contains(code) else { return }
        self.servers.withLock { $0[server] = (.now + Self.pause, error) }
    }

    /// The errors of a server that is away, or does nothing for now.
    private static let codes: Set<RedisError.Code> = [
        .timedOut, .notConnected, .disconnected, .loading, .masterDown, .busy,
    ]
}
