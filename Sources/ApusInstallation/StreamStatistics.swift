package import ApusCore
package import ApusMetrics
internal import ApusRedis
package import ApusStreams
package import Logging
internal import Synchronization

/// Asks Redis how long the streams of a service are and how old their oldest entries, at every scrape, over all shards.
///
/// What it asks costs Redis little (no stream is walked) and is bounded in number and time. While Redis does not answer, the
/// gauges are absent: an old number would be a lie.
package final class StreamStatistics: Sendable {
    /// Streams asked about, in all shards together. A label whose streams would be beyond it stays absent.
    package static let streamsMax = 16_384
    /// Streams asked about at a time, four commands each at most.
    package static let atOnceMax = 128
    /// How long a scrape waits.
    package static let durationMax = Duration.seconds(2)

    private struct Question: Sendable {
        let label: StreamLabel
        let tag: HashTag
        let key: String
    }

    private let client: RedisClient
    private let labels: [StreamLabel]
    private let questions: [Question]
    private let metrics: StreamMetrics
    private let shared: SharedMetrics
    private let clock: any WallClock
    /// Two scrapes at a time share one statistics.
    private let isRunning = Atomic(false)

    /// Creates a statistics of what a service reads.
    ///
    /// - Parameters:
    ///   - streams: of the installation.
    ///   - labels: what the service reads.
    ///   - routes: whose plans and work streams count.
    ///   - metrics: the gauges.
    ///   - shared: where they are set.
    ///   - clock: tells what is due.
    ///   - logger: says once when there are too many streams.
    package init(
        _ streams: SendStreams,
        labels: [StreamLabel],
        routes: [RouteNumber] = [],
        metrics: StreamMetrics,
        shared: SharedMetrics,
        clock: any WallClock,
        logger: Logger,
    ) {
        self.client = streams.client
        self.metrics = metrics
        self.shared = shared
        self.clock = clock
        var questions: [Question] = []
        var counted: [StreamLabel] = []
        for label in labels {
            let asked = (0..<streams.keyspace.queueShards).flatMap { shard in
                let keys = streams.keys(shard: shard)
                return label.keys(keys, routes: routes).map { Question(label: label, tag: keys.tag, key: $0) }
            }
            guard questions.count + asked.count <= Self.streamsMax else {
                logger.warning(
                    "too many streams to count",
                    metadata: ["stream": "\(label.labelValues[0])", "streams": "\(asked.count)"],
                )
                continue
            }
            questions += asked
            counted.append(label)
        }
        self.questions = questions
        self.labels = counted
    }

    /// Sets the gauges: to what Redis answers, or to nothing when it does not.
    package func collect() async {
        guard !self.isRunning.exchange(true, ordering: .acquiringAndReleasing) else { return }
        let counts = await firstWithin(Self.durationMax) {
            let counts = await self.count()
            self.isRunning.store(false, ordering: .releasing)
            return counts
        }
        for label in self.labels { self.set(label, to: counts??[label]) }
    }

    private func set(_ label: StreamLabel, to count: StreamCount?) {
        let (metrics, grouped) = (self.metrics, GroupedStream(label))
        self.set(metrics.length[label], to: count?.length)
        self.set(metrics.pending[grouped], to: count?.pending)
        self.set(metrics.backlog[grouped], to: count?.backlog)
        self.set(metrics.oldestUnread[grouped], to: count.map { $0.oldestUnread ?? 0 })
        self.set(metrics.oldestPending[grouped], to: count.map { $0.oldestPending ?? 0 })
    }

    private func set(_ gauge: Gauge, to value: Int64?) {
        guard let value else { return self.shared.setAbsent(gauge) }
        self.shared.set(gauge, to: value)
    }

    // MARK: Asking

    /// The numbers by label, all shards together; nil when not all was answered.
    private func count() async -> [StreamLabel: StreamCount]? {
        var counts = Dictionary(uniqueKeysWithValues: self.labels.map { ($0, StreamCount()) })
        var questions = self.questions.makeIterator()
        let isComplete = await withTaskGroup(of: (StreamLabel, StreamCount)?.self) { group in
            for _ in 0..<Self.atOnceMax {
                guard let question = questions.next() else { break }
                group.addTask { await self.answer(question) }
            }
            while let answer = await group.next() {
                guard let (label, count) = answer, !Task.isCancelled else { return false }
                counts[label]?.add(count)
                if let question = questions.next() { group.addTask { await self.answer(question) } }
            }
            return true
        }
        return isComplete ? counts : nil
    }

    private func answer(_ question: Question) async -> (StreamLabel, StreamCount)? {
        do {
            let count = question.label == .due ? try await self.due(question) : try await self.stream(question)
            return (question.label, count)
        } catch {
            return nil
        }
    }

    /// A stream and the group that reads it. One that is not there yet is empty.
    private func stream(_ question: Question) async throws -> StreamCount {
        let group = GroupedStream(question.label).labelValues[1]
        async let length = self.ask("XLEN", question)
        async let groups = self.groups(of: question)
        var count = StreamCount()
        count.length = try await length.root.integer ?? 0
        let state = try await groups.first { $0.name == group }
        count.pending = state?.pending ?? 0
        // Redis' own lag is unknown in a stream that entries are deleted from.
        count.backlog = max(0, count.length - count.pending)
        if count.pending > 0 {
            let pending = try await self.ask("XPENDING", question, [.text(group)])
            count.oldestPending = Self.milliseconds(pending.root[1].string)
        }
        if count.backlog > 0 {
            let after = state.map { "(\($0.lastDelivered)" } ?? "-"
            let unread = try await self.ask("XRANGE", question, [.text(after), "+", "COUNT", 1])
            count.oldestUnread = unread.root.count > 0 ? Self.milliseconds(unread.root[0][0].string) : nil
        }
        return count
    }

    private struct GroupState: Sendable {
        var name = ""
        var pending: Int64 = 0
        var lastDelivered = "0-0"
    }

    private func groups(of question: Question) async throws -> [GroupState] {
        let reply: RESPReply
        do throws(RedisError) {
            reply = try await self.client.send(
                RedisCommand("XINFO", "GROUPS", .text(question.key)),
                on: question.tag,
                options: Self.options,
            )
        } catch {
            guard error.message == "ERR no such key" else { throw error }
            return []
        }
        return reply.root.children.map { fields in
            var state = GroupState()
            for index in stride(from: 0, to: fields.count - 1, by: 2) {
                switch fields[index].string {
                case "name": state.name = fields[index + 1].string ?? ""
                case "pending": state.pending = fields[index + 1].integer ?? 0
                case "last-delivered-id": state.lastDelivered = fields[index + 1].string ?? "0-0"
                default: break
                }
            }
            return state
        }
    }

    /// Retries and scheduled sends. Unread is what should have been moved already; what lies in the future only counts as length.
    private func due(_ question: Question) async throws -> StreamCount {
        let now = self.clock.now().value
        var count = StreamCount()
        count.length = try await self.ask("ZCARD", question).root.integer ?? 0
        guard count.length > 0 else { return count }
        count.backlog = try await self.ask("ZCOUNT", question, ["-inf", .integer(now)]).root.integer ?? 0
        guard count.backlog > 0 else { return count }
        let first = try await self.ask("ZRANGE", question, [0, 0, "WITHSCORES"])
        count.oldestUnread = first.root.count > 1 ? first.root[1].string.flatMap { Int64($0) } : nil
        return count
    }

    /// One try: a scrape that finds Redis away shall say so at once.
    private static let options = RedisClient.Options(isIdempotent: true, patience: .zero)

    private func ask(
        _ command: String,
        _ question: Question,
        _ arguments: [RedisArgument] = [],
    ) async throws(RedisError) -> RESPReply {
        let command = RedisCommand(command, [.text(question.key)] + arguments)
        return try await self.client.send(command, on: question.tag, options: Self.options)
    }

    /// An entry's id begins with the time of its writing.
    private static func milliseconds(_ id: String?) -> Int64? {
        id.flatMap { Int64($0.prefix { $0 != "-" }) }
    }
}

/// What is known of one stream, or of several together.
struct StreamCount: Sendable, Hashable {
    var length: Int64 = 0
    var pending: Int64 = 0
    var backlog: Int64 = 0
    /// The time at which it was written, in milliseconds; nil when there is none.
    var oldestUnread: Int64?
    var oldestPending: Int64?

    mutating func add(_ other: StreamCount) {
        self.length += other.length
        self.pending += other.pending
        self.backlog += other.backlog
        self.oldestUnread = [self.oldestUnread, other.oldestUnread].compactMap(\.self).min()
        self.oldestPending = [self.oldestPending, other.oldestPending].compactMap(\.self).min()
    }
}
