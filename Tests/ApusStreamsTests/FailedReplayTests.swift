import ApusCore
import ApusInstallation
import ApusRedis
import ApusTestKit
import Logging
import NIOCore
import NIOPosix
import Testing

@testable import ApusStreams

/// Tests replays that do not succeed at once.
@Suite struct FailedReplayTests {
    /// Returns the times before so many tries that fail for one reason.
    private static func pauses(after code: RedisError.Code, count: Int) -> [Duration] {
        (0..<count).reduce(into: []) { pauses, _ in
            pauses.append(ReplayLog.retryPause(after: RedisError(code, "no"), last: pauses.last))
        }
    }

    @Test(arguments: [
        RedisError.Code.notConnected, .disconnected, .timedOut, .loading, .masterDown, .readOnly, .clusterDown,
        .serverChanged, .moved,
    ])
    func `A replay that an outage stops is tried again as soon as at first, for as long as that lasts`(
        _ code: RedisError.Code
    ) {
        #expect(Self.pauses(after: code, count: 50) == Array(repeating: .milliseconds(100), count: 50))
        let error = RedisError(code, "no")
        #expect(ReplayLog.retryPause(after: error, last: ReplayLog.pauseMax) == ReplayLog.pause)
    }

    @Test(arguments: [RedisError.Code.functionMissing, .noPermission, .wrongPassword, .noAuthentication])
    func `A replay that waits for an operator is tried again less and less often, and each second at least`(
        _ code: RedisError.Code
    ) {
        let pauses = Self.pauses(after: code, count: 8)
        #expect(pauses == [100, 200, 400, 800, 1_000, 1_000, 1_000, 1_000].map { Duration.milliseconds($0) })
    }

    @Test func `A replay that fails for one reason says so once, and ends when the reason is gone`() async throws {
        try await StreamsFixture.with { fixture in
            let (recording, observer) = (RecordingLog(), RecordingObserver())
            let log = ReplayLog(
                tag: fixture.keys.tag,
                client: fixture.client,
                consumer: fixture.consumer("me"),
                leaseMilliseconds: 600_000,
                budget: ReplayBudget(shards: 1),
                observer: observer,
                logger: recording.logger,
            )
            log.remember(MarkWriteCall(keys: [fixture.keys.claims]), byteCount: 100)
            let server = try await log.server()
            // Nothing was written to its disk, not even the functions.
            try await fixture.server.restart()
            try await eventually("the client has found the new process") {
                let found = try? await fixture.client.serverIdentity(for: fixture.keys.tag)
                return found != nil && found != server
            }
            let replay = Task { await log.replay(after: server) }
            try await eventually("the replay was tried four times") {
                let statistics = try await fixture.server.command("INFO", "commandstats").root.text()
                let line = statistics.split(whereSeparator: \.isNewline).first { $0.hasPrefix("cmdstat_fcall:calls=") }
                return (line.flatMap { Int($0.dropFirst(20).prefix { $0 != "," }) } ?? 0) >= 4
            }
            #expect(recording.count(.warning) == 1 && observer.counts.replayed == 0)
            try await Installation.initialize(fixture.client, keyspace: fixture.streams.keyspace)
            await replay.value
            #expect(recording.count(.warning) == 1 && recording.count(.notice) == 1)
            #expect(observer.counts.replayed == 1)
        }
    }

    /// Runs `body` with a client of an address and the log of a shard there.
    ///
    /// - Parameter body: gets also what leads the address to another server, for connections that are made from then on.
    private static func withAddress(
        _ body: (_ client: RedisClient, _ log: ReplayLog, _ move: () -> Void) async throws -> Void
    ) async throws {
        try await RedisServer.with { old in
            try await RedisServer.with { new in
                let proxy = try await RedisProxy.start(to: old.port)
                let client = try RedisClient(
                    configuration: RedisConfiguration(url: proxy.url),
                    eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                    logger: RecordingLog().logger,
                )
                let log = ReplayLog(
                    tag: HashTag("q0"),
                    client: client,
                    consumer: StreamConsumer(group: StreamGroup.dispatcher, name: "me"),
                    leaseMilliseconds: 600_000,
                    budget: ReplayBudget(shards: 1),
                    observer: RecordingObserver(),
                    logger: RecordingLog().logger,
                )
                try await body(client, log) { proxy.redirect(to: new.port) }
                await client.close()
                await proxy.stop()
            }
        }
    }

    @Test func `A replay replaces the connections that lead to the server which had the address before`() async throws {
        try await Self.withAddress { client, log, move in
            let ping = RedisCommand("PING")
            for eventLoop in client.eventLoopGroup.makeIterator() {
                _ = try await client.send(ping, on: log.tag, eventLoop: eventLoop).get()
            }
            let former = try await log.server()
            move()
            // It is the only connection that is made from now on, and the former server answers all others.
            let blocking = client.blockingConnection(for: log.tag)
            try await eventually("the log knows the new server") {
                let server = try await log.server()
                do throws(RedisError) {
                    _ = try await blocking.send(ping, blocking: .zero, server: server)
                    return true
                } catch  where error.code == .serverChanged {
                    await log.replay(after: server)
                    return false
                }
            }
            #expect(try await log.server() != former)
            await blocking.close()
        }
    }

    @Test func `A read that was meant for the former server ends no connection to one that is known by now`()
        async throws
    {
        try await Self.withAddress { client, log, move in
            let consumer = ShardConsumer(
                tag: log.tag,
                streams: SendStreams(client: client, keyspace: Keyspace(queueShards: 1, devicePartitions: 1)),
                consumer: StreamConsumer(group: StreamGroup.dispatcher, name: "me"),
                feeds: [ShardConsumer.Feed("{q0}in:express", inHandMax: 1, countPerRead: 1)],
                leaseMilliseconds: 600_000,
                replayLog: log,
                observer: RecordingObserver(),
                logger: RecordingLog().logger,
            ) { _, _ in }
            let eventLoop = client.eventLoopGroup.any()
            func connection() async throws -> Int64? {
                let question = RedisCommand("CLIENT", "ID")
                return try await client.send(question, on: log.tag, eventLoop: eventLoop).get().root.integer
            }
            let former = try await log.server()
            move()
            await client.leave(former, for: log.tag)
            await log.replay(after: former)
            #expect(try await log.server() != former)
            let known = try await connection()
            let error = RedisError(.serverChanged, "the server is another one")
            await consumer.recover(from: error, reading: [], on: former)
            #expect(try await connection() == known)
        }
    }
}
