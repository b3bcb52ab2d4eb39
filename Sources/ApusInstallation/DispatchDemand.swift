package import ApusCore
internal import ApusMetrics
internal import ApusRedis
package import ApusStreams
internal import Synchronization

/// Measures how much waits for dispatchers, in all shards: the numbers by which an autoscaler chooses how many there are.
///
/// The entries of a paused route do not count: more dispatchers would not send them.
package final class DispatchDemand: Sendable {
    /// The maximum number of streams that are queried; with more there is no answer.
    package static let streamsMax = StreamStatistics.streamsMax
    /// The longest time that an answer may take.
    package static let durationMax = StreamStatistics.durationMax
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

        /// Adds what waits in one stream.
        ///
        /// - Parameter provider: that of its route; nil for a mailbox.
        mutating func add(_ count: StreamCount, of provider: Provider?, now: UnixMilliseconds) {
            self.backlog += count.backlog
            if let provider { self.backlogByProvider[provider, default: 0] += count.backlog }
            guard let oldest = count.oldestUnread else { return }
            self.oldestWaitingSeconds = max(self.oldestWaitingSeconds, Double(now.value - oldest) / 1_000)
        }
    }

    private let streams: SendStreams
    private let clock: any WallClock
    private let publishers: @Sendable () -> [PublisherName]
    private let last = Mutex<(report: Report, at: ContinuousClock.Instant)?>(nil)

    /// Creates a measurement of an installation.
    ///
    /// - Parameter publishers: returns the publishers whose own mailboxes dispatchers read.
    package init(
        _ streams: SendStreams,
        clock: any WallClock,
        publishers: @escaping @Sendable () -> [PublisherName] = { [] },
    ) {
        self.publishers = publishers
        self.streams = streams
        self.clock = clock
    }

    /// Returns the numbers, a second old at most; nil while Redis does not answer all of it in time.
    package func report() async -> Report? {
        if let last = self.last.withLock({ $0 }), ContinuousClock.now - last.at < Self.freshness { return last.report }
        guard let report = await firstWithin(Self.durationMax, { try? await self.measure() }) ?? nil else { return nil }
        self.last.withLock { $0 = (report, .now) }
        return report
    }

    private struct Wanted: Sendable {
        let query: StreamQuery
        let provider: Provider?
    }

    private func measure() async throws -> Report? {
        var routes: [(number: RouteNumber, provider: Provider)] = []
        var providers: Set<Provider> = []
        for (number, name) in try await self.streams.routes.all() {
            guard let provider = Route(name)?.provider else { continue }
            providers.insert(provider)
            guard try await !self.streams.routes.state(of: number).isPaused else { continue }
            routes.append((number, provider))
        }
        let publishers = self.publishers()
        var wanted: [Wanted] = []
        for shard in 0..<self.streams.keyspace.queueShards {
            let keys = self.streams.keys(shard: shard)
            func want(_ label: StreamLabel, _ routes: [RouteNumber], _ provider: Provider?) {
                wanted += label.keys(keys, routes: routes, publishers: publishers).map {
                    Wanted(query: StreamQuery(label: label, tag: keys.tag, key: $0), provider: provider)
                }
            }
            for label in [StreamLabel.inExpress, .inBulk] { want(label, [], nil) }
            for (number, provider) in routes {
                for label in [StreamLabel.plan, .work] { want(label, [number], provider) }
            }
        }
        guard wanted.count <= Self.streamsMax else { return nil }
        var report = Report()
        for provider in providers { report.backlogByProvider[provider] = 0 }
        return try await self.measure(wanted, into: report)
    }

    /// Adds the answers to all queries, of which a limited number is under way at a time.
    private func measure(_ wanted: [Wanted], into report: Report) async throws -> Report {
        let (client, clock) = (self.streams.client, self.clock)
        var report = report
        return try await withThrowingTaskGroup(of: (StreamCount, Provider?).self) { group in
            var rest = wanted.makeIterator()
            func start() {
                guard let next = rest.next() else { return }
                group.addTask { (try await next.query.count(client, now: clock.now()), next.provider) }
            }
            for _ in 0..<StreamStatistics.atOnceMax { start() }
            while let (count, provider) = try await group.next() {
                report.add(count, of: provider, now: clock.now())
                start()
            }
            return report
        }
    }
}
