import ApusInstallation
import ApusMessages
import ApusRedis
import ApusTestKit
import Logging
import NIOPosix
import Synchronization
import Testing

@testable import ApusStreams

/// Tests when a shard is read again after another server has taken it over.
@Suite(.serialized) struct FailoverReadingTests {
    /// No test takes so long: reads that go on have not waited for its end.
    private static let pause = Duration.seconds(3_600)

    /// Runs `body` with a cluster of three masters, each with a replica, and the log of a shard.
    private static func withLog(
        _ body: (RedisCluster, RedisServer, ReplayLog, _ touch: () async throws -> Void) async throws -> Void
    ) async throws {
        try await RedisCluster.with { cluster in
            let client = try RedisClient(
                configuration: RedisConfiguration(url: cluster.url),
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            )
            let keyspace = Keyspace(queueShards: 4, devicePartitions: 4)
            try await Installation.initialize(client, keyspace: keyspace)
            let keys = SendStreams(client: client, keyspace: keyspace).keys(shard: 0)
            let log = ReplayLog(
                tag: keys.tag,
                client: client,
                consumer: StreamConsumer(group: StreamGroup.dispatcher, name: "me"),
                leaseMilliseconds: 600_000,
                budget: ReplayBudget(shards: 1),
                observer: RecordingObserver(),
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
                readingPause: Self.pause,
            )
            // Any answer tells the log which server it is of.
            func touch() async throws {
                _ = try await log.read(RedisCommand("EXISTS", .text("\(keys.tag)probe")), over: client)
            }
            do {
                try await body(cluster, try await cluster.owner(ofSlot: keys.tag.slot), log, touch)
            } catch {
                await client.close()
                throw error
            }
            await client.close()
        }
    }

    @Test(.timeLimit(.minutes(3)))
    func `Reads go on at once when a replica was told to take over, as it has all that was written`() async throws {
        try await Self.withLog { cluster, master, log, touch in
            let first = try await log.serverForReading()
            try await cluster.failOver(from: master)
            try await touch()
            let second = try await log.serverForReading()
            #expect(second != first)
            // And back, while the first takeover is long proven.
            try await cluster.failOver(from: try await cluster.owner(ofSlot: log.tag.slot))
            try await touch()
            #expect(try await log.serverForReading() == first)
        }
    }

    @Test func `Reads wait after a failure of a master, also when it is back and follows`() async throws {
        try await Self.withLog { cluster, master, log, touch in
            _ = try await log.serverForReading()
            let replica = try await cluster.replica(of: master)
            await master.kill()
            try await cluster.untilMaster(replica)
            try await touch()
            let isRead = Atomic(false)
            let reading = Task {
                _ = try await log.serverForReading()
                if !Task.isCancelled { isRead.store(true, ordering: .relaxed) }
            }
            try await master.restart()
            try await eventually("it follows") {
                try await master.command("INFO", "replication").root.text().contains("master_link_status:up")
            }
            let asked = try await Self.infoCalls(master)
            try await eventually("it was asked again") { try await Self.infoCalls(master) > asked + 2 }
            let hasRead = isRead.load(ordering: .relaxed)
            #expect(!hasRead)
            reading.cancel()
            _ = await reading.result
        }
    }

    /// Returns how many times a server was asked for its state; the questions of this test are among them.
    private static func infoCalls(_ server: RedisServer) async throws -> Int {
        let text = try await server.command("INFO", "commandstats").root.text()
        let line = text.split(whereSeparator: \.isNewline).first { $0.hasPrefix("cmdstat_info:calls=") } ?? ""
        return Int(line.dropFirst("cmdstat_info:calls=".count).prefix { $0 != "," }) ?? 0
    }
}
