package import ApusCore
package import ApusMetrics
internal import ApusRedis
package import ApusStreams
package import Logging
internal import Synchronization

/// Queries the length of a service's streams and the age of their oldest entries, at every scrape, over all shards.
///
/// The queries cost Redis little (no stream is scanned) and are limited in number and time. While Redis does not
/// answer, the gauges are absent: an old number would be wrong. Where only some servers answer, the numbers are those of their shards,
/// and the other shards are counted; servers without Apus' functions are counted too. While a server that answers does not answer for all
/// streams of a label in time, the label has only the oldest entries among the answers: the true ones are as old at least.
package final class StreamStatistics: Sendable {
    /// The maximum number of streams queried, in all shards together. A label whose streams would exceed it stays absent.
    package static let streamsMax = 16_384

    /// Holds the numbers of all shards.
    private struct Counts: Sendable {
        var streams: [StreamLabel: StreamCount] = [:]
        /// The counts of the labels of which servers that are there did not answer all queries.
        var partial: [StreamLabel: StreamCount] = [:]
        /// The number of shards of servers that did not answer.
        var unreachable = 0
        /// The number of servers that lack functions; nil when the servers are not known.
        var withoutFunctions: Int?
    }

    private let client: RedisClient
    private let shardCount: Int
    private let labels: [StreamLabel]
    private let queries: [StreamQuery]
    private let metrics: StreamMetrics
    private let shared: SharedMetrics
    private let logger: Logger
    private let isIncompleteLogged = Atomic(false)
    /// Concurrent scrapes share one query.
    private let isRunning = Atomic(false)

    /// Creates the statistics of the streams that a service reads.
    ///
    /// - Parameters:
    ///   - streams: the streams of the installation.
    ///   - labels: the labels of the streams that the service reads.
    ///   - routes: the routes whose plans and work streams count.
    ///   - publishers: the publishers whose own mailboxes count.
    ///   - metrics: the gauges.
    ///   - shared: the cells of the gauges.
    ///   - logger: logs once when there are too many streams, and each time when they become too many for the time of a scrape.
    package init(
        _ streams: SendStreams,
        labels: [StreamLabel],
        routes: [RouteNumber] = [],
        publishers: [PublisherName] = [],
        metrics: StreamMetrics,
        shared: SharedMetrics,
        logger: Logger,
    ) {
        self.client = streams.client
        self.shardCount = streams.keyspace.queueShards
        self.metrics = metrics
        self.shared = shared
        self.logger = logger
        var queries: [StreamQuery] = []
        var counted: [StreamLabel] = []
        for label in labels {
            let added = (0..<streams.keyspace.queueShards).flatMap { shard in
                let keys = streams.keys(shard: shard)
                return label.keys(keys, routes: routes, publishers: publishers)
                    .map { StreamQuery(label: label, tag: keys.tag, key: $0) }
            }
            guard queries.count + added.count <= Self.streamsMax else {
                logger.warning(
                    "there are too many streams to query them for metrics",
                    metadata: ["stream": "\(label.labelValues[0])", "streams": "\(added.count)"],
                )
                continue
            }
            queries += added
            counted.append(label)
        }
        self.queries = queries
        self.labels = counted
    }

    /// Sets the gauges: to Redis' answers, or to absent when it does not answer.
    package func collect() async {
        guard !self.isRunning.exchange(true, ordering: .acquiringAndReleasing) else { return }
        let counts = await self.count()
        self.isRunning.store(false, ordering: .releasing)
        // Without an answer of any shard the whole is absent; another metric says so.
        let isAnswered = counts.unreachable < self.shardCount
        for label in self.labels {
            self.set(label, to: isAnswered ? counts.streams[label] : nil, partial: counts.partial[label])
        }
        self.tellIncomplete(counts.partial.keys.map { $0.labelValues[0] })
        self.set(self.metrics.unreachableShards, to: isAnswered ? Int64(counts.unreachable) : nil)
        self.set(self.metrics.serversWithoutFunctions, to: counts.withoutFunctions.map { Int64($0) })
    }

    private func tellIncomplete(_ names: [String]) {
        let wasIncomplete = self.isIncompleteLogged.exchange(!names.isEmpty, ordering: .relaxed)
        guard !names.isEmpty, !wasIncomplete else { return }
        self.logger.warning(
            "streams were not all queried within the time of a scrape: their numbers are absent until they are",
            metadata: ["streams": "\(names.sorted().joined(separator: " "))"],
        )
    }

    /// Sets a label's gauges.
    ///
    /// - Parameters:
    ///   - count: the numbers of all of its streams; nil when they are not known.
    ///   - partial: those of some of them, whose ages are the least that all have; nil when all are known.
    private func set(_ label: StreamLabel, to count: StreamCount?, partial: StreamCount?) {
        let (metrics, grouped) = (self.metrics, GroupedStream(label))
        self.set(metrics.length[label], to: count?.length)
        self.set(metrics.pending[grouped], to: count?.pending)
        self.set(metrics.backlog[grouped], to: count?.backlog)
        self.set(metrics.oldestUnread[grouped], to: count.map { $0.oldestUnread ?? 0 } ?? partial?.oldestUnread)
        self.set(metrics.oldestPending[grouped], to: count.map { $0.oldestPending ?? 0 } ?? partial?.oldestPending)
    }

    private func set(_ gauge: Gauge, to value: Int64?) {
        guard let value else { return self.shared.setAbsent(gauge) }
        self.shared.set(gauge, to: value)
    }

    // MARK: Queries

    /// Returns the numbers by label, of all shards that answer together.
    private func count() async -> Counts {
        let survey = StreamSurvey(client: self.client)
        let client = self.client
        async let missing = firstWithin(StreamSurvey.durationMax) {
            try? await Installation.library().missing(on: client).count
        }
        let answers = await survey.answers(to: self.queries)
        var counts = Counts()
        for label in self.labels { counts.streams[label] = StreamCount() }
        var open: [StreamLabel: Int] = [:]
        for query in self.queries where answers[query.tag] != nil { open[query.label, default: 0] += 1 }
        for answer in answers.values.flatMap(\.answers) {
            counts.streams[answer.query.label]?.add(answer.count)
            open[answer.query.label, default: 0] -= 1
        }
        for (label, count) in open where count > 0 { counts.partial[label] = counts.streams.removeValue(forKey: label) }
        counts.unreachable = Set(self.queries.map(\.tag)).count - answers.count
        counts.withoutFunctions = await missing ?? nil
        return counts
    }
}
