import ApusCore
import ApusInstallation
import ApusMessages
import ApusMetrics
import ApusRedis
import ApusStreams
import ApusTestKit
import Logging
import Testing

/// The families of a service that reads everything, and their cells.
private struct Board: Sendable {
    let metrics: StreamMetrics
    let vanished: Counter
    let groupsLost: Counter
    let registry: MetricRegistry

    init() {
        var catalogue = MetricCatalogue()
        self.metrics = StreamMetrics(&catalogue)
        self.vanished = catalogue.declare { Counter("vanished_total", "Vanished.") }
        self.groupsLost = catalogue.declare { Counter("groups_lost_total", "Lost.") }
        self.registry = MetricRegistry(catalogue)
    }

    var counts: StreamCounts {
        StreamCounts(self.metrics, shared: self.registry.shared, vanished: self.vanished, groupsLost: self.groupsLost)
    }

    /// The samples of a family by the first label, `stream`.
    func samples(_ family: String) async -> [String: Double] {
        let text = String(decoding: await self.registry.exposition(.prometheusText), as: UTF8.self)
        var samples: [String: Double] = [:]
        for line in text.split(separator: "\n") where line.hasPrefix("\(family){") {
            let parts = line.split(separator: "\"")
            samples[String(parts[1])] = line.split(separator: " ").last.flatMap { Double($0) }
        }
        return samples
    }

    /// Looks until a family has those samples: on a busy machine a look may end before Redis has answered.
    func awaitSamples(_ family: String, _ expected: [String: Double], _ statistics: StreamStatistics) async throws {
        try await eventually("\(family) is \(expected)", timeout: .seconds(60)) {
            await statistics.collect()
            return await self.samples(family) == expected
        }
    }

    func statistics(_ fixture: StreamsFixture, _ labels: [StreamLabel]) -> StreamStatistics {
        StreamStatistics(
            fixture.streams,
            labels: labels,
            routes: [RouteNumber(1), RouteNumber(2)],
            metrics: self.metrics,
            shared: self.registry.shared,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
        )
    }
}

@Suite struct StreamStatisticsTests {
    @Test func `Unread streams are reported for all shards together, until they are read`() async {
        let board = Board()
        let counts = board.counts
        func gauge() async -> String? {
            String(decoding: await board.registry.exposition(.prometheusText), as: UTF8.self).split(separator: "\n")
                .first { $0.hasPrefix("apus_stream_reads_stalled ") }.map(String.init)
        }
        #expect(await gauge() == "apus_stream_reads_stalled 0")
        counts.readsUnanswered(2, shard: HashTag("q1"))
        counts.readsUnanswered(3, shard: HashTag("q2"))
        #expect(await gauge() == "apus_stream_reads_stalled 5")
        #expect(counts.unansweredReads?.contains("5 streams of 2 shards") == true)
        counts.readsUnanswered(0, shard: HashTag("q1"))
        #expect(await gauge() == "apus_stream_reads_stalled 3")
        counts.readsUnanswered(0, shard: HashTag("q2"))
        #expect(await gauge() == "apus_stream_reads_stalled 0" && counts.unansweredReads == nil)
    }

    private func add(_ id: String, to stream: String, _ fixture: StreamsFixture, tag: HashTag) async throws {
        _ = try await fixture.client.send(RedisCommand("XADD", .text(stream), .text(id), "m", "x"), on: tag)
    }

    @Test func `Streams of all shards and routes add up, unread and pending separately`() async throws {
        try await StreamsFixture.with { fixture in
            let board = Board()
            let statistics = board.statistics(fixture, [.plan, .work, .inBulk])
            let (first, second) = (fixture.streams.keys(shard: 0), fixture.streams.keys(shard: 1))
            let work = first.work(RouteNumber(1), .bulk)
            try await self.add("7000-0", to: work, fixture, tag: first.tag)
            _ = try await fixture.read(work, fixture.consumer("a"))
            try await self.add("8000-0", to: work, fixture, tag: first.tag)
            try await self.add("6000-5", to: second.work(RouteNumber(2), .express), fixture, tag: second.tag)
            try await self.add("5000-0", to: second.mailbox(.bulk), fixture, tag: second.tag)
            try await board.awaitSamples(
                "apus_stream_length_entries",
                ["plan": 0, "work": 3, "in_bulk": 1],
                statistics
            )
            #expect(await board.samples("apus_stream_pending_entries") == ["plan": 0, "work": 1, "in_bulk": 0])
            #expect(await board.samples("apus_stream_backlog_entries") == ["plan": 0, "work": 2, "in_bulk": 1])
            let unread = await board.samples("apus_stream_oldest_unread_timestamp_seconds")
            #expect(unread == ["plan": 0, "work": 6, "in_bulk": 5])
            let pending = await board.samples("apus_stream_oldest_pending_timestamp_seconds")
            #expect(pending == ["plan": 0, "work": 7, "in_bulk": 0])
        }
    }

    @Test func `Due messages count as unread, future ones only as length`() async throws {
        try await StreamsFixture.with { fixture in
            let board = Board()
            let statistics = board.statistics(fixture, [.due])
            let keys = fixture.keys
            let now = try await fixture.now().value
            for (name, due) in [("late", now - 2_000), ("now", now), ("later", now + 3_600_000)] {
                let command = RedisCommand("ZADD", .text(keys.due), .integer(due), .text(name))
                _ = try await fixture.client.send(command, on: keys.tag)
            }
            try await board.awaitSamples("apus_stream_length_entries", ["due": 3], statistics)
            #expect(await board.samples("apus_stream_backlog_entries") == ["due": 2])
            let unread = await board.samples("apus_stream_oldest_unread_timestamp_seconds")
            #expect(unread == ["due": Double(now - 2_000) / 1_000])
        }
    }

    @Test func `Nothing is reported before the first answer, nor after Redis is gone`() async throws {
        try await StreamsFixture.with { fixture in
            let board = Board()
            let statistics = board.statistics(fixture, [.outcomes])
            #expect(await board.samples("apus_stream_length_entries") == [:])
            try await board.awaitSamples("apus_stream_length_entries", ["outcomes": 0], statistics)
            await fixture.server.kill()
            try await eventually("the numbers are gone") {
                await statistics.collect()
                return await board.samples("apus_stream_length_entries") == [:]
            }
            #expect(await board.samples("apus_stream_oldest_unread_timestamp_seconds") == [:])
        }
    }

    @Test func `A frozen Redis does not hold a scrape until it thaws`() async throws {
        try await StreamsFixture.with { fixture in
            let board = Board()
            let statistics = board.statistics(fixture, [.outcomes])
            try await board.awaitSamples("apus_stream_length_entries", ["outcomes": 0], statistics)
            fixture.server.suspend()
            // The second one while the first waits.
            async let first: Void = statistics.collect()
            await statistics.collect()
            await first
            #expect(await board.samples("apus_stream_length_entries") == [:])
            fixture.server.resume()
            try await board.awaitSamples("apus_stream_length_entries", ["outcomes": 0], statistics)
        }
    }

    @Test
    func
        `Where a server answers, but not for every stream of a kind, that kind has ages alone and no shard is unreachable`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let board = Board()
            let log = RecordingLog()
            let statistics = StreamStatistics(
                fixture.streams,
                labels: [.outcomes, .events],
                metrics: board.metrics,
                shared: board.registry.shared,
                logger: log.logger,
            )
            let (refused, other) = (fixture.streams.keys(shard: 0), fixture.streams.keys(shard: 1))
            try await self.add("6000-0", to: other.outcomes, fixture, tag: other.tag)
            for _ in 0..<2 {
                let before = log.count(.warning)
                // The queries of this one are refused.
                let command = RedisCommand("SET", .text(refused.outcomes), "no stream")
                _ = try await fixture.client.send(command, on: refused.tag)
                try await board.awaitSamples("apus_stream_length_entries", ["events": 0], statistics)
                let text = String(decoding: await board.registry.exposition(.prometheusText), as: UTF8.self)
                #expect(text.contains("\napus_stream_unreachable_shards 0\n"))
                let unread = await board.samples("apus_stream_oldest_unread_timestamp_seconds")
                #expect(unread == ["events": 0, "outcomes": 6])
                #expect(await board.samples("apus_stream_oldest_pending_timestamp_seconds") == ["events": 0])
                let told = log.count(.warning)
                #expect(told > before)
                await statistics.collect()
                #expect(log.count(.warning) == told)
                _ = try await fixture.client.send(RedisCommand("DEL", .text(refused.outcomes)), on: refused.tag)
                try await board.awaitSamples("apus_stream_length_entries", ["events": 0, "outcomes": 1], statistics)
            }
        }
    }

    @Test func `A kind with one stream too many is not counted`() async throws {
        try await StreamsFixture.with { fixture in
            let board = Board()
            func statistics(routes: Int) -> StreamStatistics {
                StreamStatistics(
                    fixture.streams,
                    labels: [.inBulk, .work],
                    routes: (0..<routes).map { RouteNumber(UInt32($0)) },
                    metrics: board.metrics,
                    shared: board.registry.shared,
                    logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
                )
            }
            // Two shards: two mailboxes, and four work streams for each route.
            let most = (StreamStatistics.streamsMax - 2) / 4
            try await board.awaitSamples("apus_stream_length_entries", ["in_bulk": 0], statistics(routes: most + 1))
        }
    }
}

@Suite struct StreamCountsTests {
    @Test func `Every end of an entry is counted, once`() async throws {
        try await StreamsFixture.with { fixture in
            let board = Board()
            let streams = fixture.streams.observed(by: board.counts)
            let keys = fixture.keys
            let consumer = fixture.consumer("a")
            let mailbox = keys.mailbox(.express)
            let done = try await fixture.deliver([1], to: mailbox, consumer: consumer)
            for expected in [[done.id], []] {
                let ids = try await streams.entries.acknowledge([done], by: consumer, tag: keys.tag)
                #expect(ids == expected)
            }
            let entry = try await fixture.deliver([2], to: mailbox, consumer: consumer)
            let letter = DeadLetter(
                stream: mailbox,
                entry: entry.id,
                cause: .malformed,
                problem: Problem(code: "malformed", detail: "no message"),
                payload: [2],
                at: UnixMilliseconds(1),
            )
            for _ in 0..<2 {
                _ = try await streams.deadLetters.write(
                    entry,
                    by: consumer,
                    tag: keys.tag,
                    letter: letter,
                    receipt: nil
                )
            }
            // One whose owner acknowledges it by itself.
            var receipt = letter
            (receipt.stream, receipt.cause) = (keys.receipts, .poison)
            try await streams.deadLetters.keep(receipt, tag: keys.tag)
            #expect(await board.samples("apus_stream_entries_acked_total")["in_express"] == 2)
            #expect(await board.samples("apus_stream_entries_malformed_total")["in_express"] == 1)
            let letters = String(decoding: await board.registry.exposition(.prometheusText), as: UTF8.self)
            #expect(letters.contains("apus_stream_dead_letters_total{stream=\"in_express\",reason=\"malformed\"} 1\n"))
            #expect(letters.contains("apus_stream_dead_letters_total{stream=\"in_express\",reason=\"poison\"} 0\n"))
            #expect(letters.contains("apus_stream_dead_letters_total{stream=\"receipts\",reason=\"poison\"} 1\n"))
        }
    }

    @Test func `A key has the label of its stream`() throws {
        let publishers = [try PublisherName("shop-1")]
        let keys = StreamKeys(tag: HashTag("q7"))
        for label in StreamLabel.allCases {
            for key in label.keys(keys, routes: [RouteNumber(3)], publishers: publishers) {
                #expect(StreamLabel(streamKey: key) == label, "\(key)")
            }
        }
        #expect(keys.mailbox(.bulk, of: publishers[0]) == "{q7}in:bulk:shop-1")
        let mailboxes: [(String, Lane?, PublisherName?)] = [
            ("{q7}in:bulk", .bulk, nil), ("{q7}in:express:shop-1", .express, publishers[0]),
            ("{q7}in:bulk:in:bulk", nil, nil), ("{q7}in:bulk:", nil, nil), ("{q7}in:slow", nil, nil),
            ("{q8}in:bulk", nil, nil),
        ]
        for (key, lane, publisher) in mailboxes {
            let found = keys.lane(ofMailbox: key)
            #expect(found?.lane == lane && found?.publisher == publisher, "\(key)")
        }
    }
}
