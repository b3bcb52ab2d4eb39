package import ApusCore
internal import ApusMetrics
internal import ApusRedis
package import ApusStreams
package import Logging
internal import Synchronization

/// Measures how much waits for dispatchers, in all shards: the numbers by which an autoscaler chooses how many there are.
///
/// The entries of a route that is paused, or that no dispatcher has in its configuration, do not count: more dispatchers would not send
/// them.
package final class DispatchDemand: Sendable {
    /// The maximum number of streams that are queried; with more, some of the shards stand for all.
    package static let streamsMax = StreamStatistics.streamsMax
    /// The longest time that an answer may take.
    package static let durationMax = Duration.milliseconds(2_500)
    /// The longest time that the numbers of routes may take in a cluster, whose copies answer otherwise.
    private static let routesDurationMax = Duration.milliseconds(400)
    /// The longest time that the state of a route may take.
    private static let stateDurationMax = Duration.milliseconds(500)
    /// The time for which an answer is given again without asking Redis.
    package static let freshness = Duration.seconds(1)

    /// The measured numbers.
    package struct Report: Sendable, Hashable {
        /// The seconds since the oldest entry that nobody has read was written; 0 when there is none.
        package var oldestWaitingSeconds = 0.0
        /// The number of entries that nobody has read: commands, plans, and units of work.
        package var backlog: Int64 = 0
        /// The plans and units among them, by provider.
        package var backlogByProvider: [Provider: Int64] = [:]

        /// Creates an empty report.
        package init() {}

        /// The report as JSON.
        package var json: JSONObject {
            var byProvider = JSONObject()
            for (provider, count) in self.backlogByProvider.sorted(by: { $0.key.name < $1.key.name }) {
                byProvider[provider.name] = .integer(count)
            }
            let seconds = JSONNumber((self.oldestWaitingSeconds * 1_000).rounded() / 1_000)
            return [
                "oldest_waiting_seconds": seconds.map { .number($0) } ?? .null,
                "backlog": .integer(self.backlog), "backlog_by_provider": .object(byProvider),
            ]
        }

        /// Multiplies the numbers of entries, for those of shards that were not asked.
        package mutating func scale(shards: Int, asked: Int) {
            func scaled(_ count: Int64) -> Int64 { Int64((Double(count) * Double(shards) / Double(asked)).rounded()) }
            self.backlog = scaled(self.backlog)
            self.backlogByProvider = self.backlogByProvider.mapValues(scaled)
        }

        /// Adds what waits in one stream.
        ///
        /// - Parameters:
        ///   - provider: that of its route; nil for a mailbox.
        ///   - now: the time of the server that has dated its entries.
        mutating func add(_ count: StreamCount, of provider: Provider?, now: UnixMilliseconds) {
            self.backlog += count.backlog
            if let provider { self.backlogByProvider[provider, default: 0] += count.backlog }
            guard let oldest = count.oldestUnread else { return }
            self.oldestWaitingSeconds = max(self.oldestWaitingSeconds, Double(now.value - oldest) / 1_000)
        }
    }

    private let streams: SendStreams
    private let publishers: @Sendable () -> [PublisherName]
    private let logger: Logger?
    /// The number of measurements so far.
    private let turns = Mutex(0)
    private let isLimitLogged = Atomic(false)
    private let last = Mutex<(report: Report, at: ContinuousClock.Instant)?>(nil)

    /// Creates a measurement of an installation.
    ///
    /// - Parameters:
    ///   - logger: logs once that only a part of the shards is asked.
    ///   - publishers: returns the publishers whose own mailboxes dispatchers read.
    package init(
        _ streams: SendStreams,
        logger: Logger? = nil,
        publishers: @escaping @Sendable () -> [PublisherName] = { [] },
    ) {
        self.publishers = publishers
        self.logger = logger
        self.streams = streams
    }

    /// Returns the numbers, a second old at most; nil while Redis does not answer. Where only some servers answer, the numbers are those of
    /// their shards.
    package func report() async -> Report? {
        if let last = self.last.withLock({ $0 }), ContinuousClock.now - last.at < Self.freshness { return last.report }
        guard let report = await firstWithin(Self.durationMax, { try? await self.measure() }) ?? nil else { return nil }
        self.last.withLock { $0 = (report, .now) }
        return report
    }

    /// Returns the shards to ask so that no more than a number of streams is queried: all, or as many as fit, which change with every turn.
    package static func shards(of count: Int, streamsPerShard: Int, streamsMax: Int, turn: Int) -> [Int] {
        let fitting = min(count, max(1, streamsMax / max(1, streamsPerShard)))
        let first = fitting == count ? 0 : turn % count * fitting % count
        return (0..<fitting).map { (first + $0) % count }
    }

    private func measure() async throws -> Report? {
        var report = Report()
        var routes: [NumberedRoute] = []
        guard let known = try await self.routes() else { return nil }
        for route in known {
            guard let provider = Route(route.name)?.provider else { continue }
            report.backlogByProvider[provider] = 0
            if route.isConfigured { routes.append(route) }
        }
        let providers = try await self.open(routes)
        let shardCount = self.streams.keyspace.queueShards
        let perShard = self.queries(shard: 0, providers).count
        let turn = self.turns.withLock { turns in
            defer { turns += 1 }
            return turns
        }
        let shards = Self.shards(of: shardCount, streamsPerShard: perShard, streamsMax: Self.streamsMax, turn: turn)
        if shards.count < shardCount, !self.isLimitLogged.exchange(true, ordering: .relaxed) {
            let metadata: Logger.Metadata = ["asked": "\(shards.count)", "shards": "\(shardCount)"]
            self.logger?.warning("too many streams for /scale: some shards stand for all", metadata: metadata)
        }
        var queries: [StreamQuery] = []
        var providerOfStream: [String: Provider] = [:]
        for shard in shards {
            for (query, provider) in self.queries(shard: shard, providers) {
                queries.append(query)
                providerOfStream[query.key] = provider
            }
        }
        let survey = StreamSurvey(client: self.streams.client)
        let answers = await survey.answers(to: queries).values.filter { $0.isComplete }
        guard !answers.isEmpty else { return nil }
        for shard in answers {
            for answer in shard.answers {
                report.add(answer.count, of: providerOfStream[answer.query.key], now: shard.now)
            }
        }
        report.scale(shards: shardCount, asked: shards.count)
        return report
    }

    /// Returns the queries of one shard, each with its route's provider; nil for a mailbox.
    private func queries(
        shard: Int,
        _ providers: [RouteNumber: Provider],
    ) -> [(query: StreamQuery, provider: Provider?)] {
        let keys = self.streams.keys(shard: shard)
        let publishers = self.publishers()
        func queries(_ label: StreamLabel, _ routes: [RouteNumber]) -> [StreamQuery] {
            label.keys(keys, routes: routes, publishers: publishers).map {
                StreamQuery(label: label, tag: keys.tag, key: $0)
            }
        }
        let mailboxes = [StreamLabel.inExpress, .inBulk].flatMap { queries($0, []) }.map { ($0, Provider?.none) }
        return mailboxes
            + providers.flatMap { number, provider in
                [StreamLabel.plan, .work].flatMap { queries($0, [number]) }.map { ($0, provider) }
            }
    }

    /// Returns the routes that have numbers. In a cluster the copies answer while the master that has the table is away; all routes count as
    /// configured then. Nil when nothing answers.
    private func routes() async throws -> [NumberedRoute]? {
        let (all, copies) = (self.streams.routes, InstallationCopies(self.streams.client))
        guard !copies.tags.isEmpty else { return try await all.all() }
        async let copy = copies.read(within: Self.routesDurationMax)
        if let found = await firstWithin(Self.routesDurationMax, { try? await all.all() }) ?? nil { return found }
        return (try? await copy)?.routes.map { NumberedRoute(number: $1, name: $0) }
    }

    /// Returns the routes that may be sent on, with their providers. One whose state is not known in time may not: nothing goes out on it.
    private func open(_ routes: [NumberedRoute]) async throws -> [RouteNumber: Provider] {
        let all = self.streams.routes
        return await withTaskGroup(of: (RouteNumber, Provider)?.self) { group in
            for route in routes {
                group.addTask {
                    let isPaused = await firstWithin(Self.stateDurationMax) {
                        try? await all.state(of: route.number).isPaused
                    }
                    guard isPaused == false, let provider = Route(route.name)?.provider else { return nil }
                    return (route.number, provider)
                }
            }
            return await group.reduce(into: [:]) { found, route in
                if let (number, provider) = route { found[number] = provider }
            }
        }
    }
}
