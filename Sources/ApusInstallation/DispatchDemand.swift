package import ApusCore
internal import ApusMetrics
internal import ApusRedis
package import ApusStreams
internal import Synchronization

/// Measures how much waits for dispatchers, in all shards: the numbers by which an autoscaler chooses how many there are.
///
/// The entries of a route that is paused, or that no dispatcher has in its configuration, do not count: more dispatchers would not send
/// them.
package final class DispatchDemand: Sendable {
    /// The maximum number of streams that are queried; with more there is no answer.
    package static let streamsMax = StreamStatistics.streamsMax
    /// The longest time that an answer may take.
    package static let durationMax = Duration.milliseconds(2_500)
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

    /// Returns the numbers, a second old at most; nil while Redis does not answer. Where only some servers answer, the numbers are those of
    /// their shards.
    package func report() async -> Report? {
        if let last = self.last.withLock({ $0 }), ContinuousClock.now - last.at < Self.freshness { return last.report }
        guard let report = await firstWithin(Self.durationMax, { try? await self.measure() }) ?? nil else { return nil }
        self.last.withLock { $0 = (report, .now) }
        return report
    }

    private func measure() async throws -> Report? {
        var report = Report()
        var routes: [NumberedRoute] = []
        for route in try await self.streams.routes.all() {
            guard let provider = Route(route.name)?.provider else { continue }
            report.backlogByProvider[provider] = 0
            if route.isConfigured { routes.append(route) }
        }
        let providers = try await self.open(routes)
        let publishers = self.publishers()
        var queries: [StreamQuery] = []
        var providerOfStream: [String: Provider] = [:]
        for shard in 0..<self.streams.keyspace.queueShards {
            let keys = self.streams.keys(shard: shard)
            func query(_ label: StreamLabel, _ routes: [RouteNumber], of provider: Provider?) {
                for key in label.keys(keys, routes: routes, publishers: publishers) {
                    queries.append(StreamQuery(label: label, tag: keys.tag, key: key))
                    providerOfStream[key] = provider
                }
            }
            for label in [StreamLabel.inExpress, .inBulk] { query(label, [], of: nil) }
            for (number, provider) in providers {
                for label in [StreamLabel.plan, .work] { query(label, [number], of: provider) }
            }
        }
        guard queries.count <= Self.streamsMax else { return nil }
        let survey = StreamSurvey(client: self.streams.client, clock: self.clock)
        let answers = await survey.answers(to: queries)
        guard !answers.isEmpty else { return nil }
        let now = self.clock.now()
        for answer in answers.values.joined() {
            report.add(answer.count, of: providerOfStream[answer.query.key], now: now)
        }
        return report
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
