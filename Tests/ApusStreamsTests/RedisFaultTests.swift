import ApusCore
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusTestKit
import Logging
import NIOPosix
import Synchronization
import Testing

@testable import ApusStreams

/// A consumer whose Redis answers everything with an error, or with what is no answer at all, reads again when that is over.
@Suite struct RedisFaultTests {
    @Test(arguments: RedisProxy.faultReplies) func `A consumer reads again after any reply`(
        _ reply: String
    ) async throws {
        try await Self.withConsumer { proxy, write, handled, _ in
            proxy.set(.answer(reply))
            try await write(2)
            // Long enough for reads that were blocked to end, and for whatever is kept of an answer to be asked for again.
            try await eventually("the fault is met") { proxy.interceptedCount >= 12 }
            try await Task.sleep(for: .milliseconds(500))
            proxy.set(.forward)
            try await eventually("what was written is read: \(handled())") { handled() == 3 }
        }
    }

    @Test func `A consumer reads again after its connections were closed for a while`() async throws {
        try await Self.withConsumer { proxy, write, handled, _ in
            proxy.set(.close)
            try await write(2)
            try await eventually("the fault is met") { proxy.interceptedCount >= 6 }
            proxy.set(.forward)
            try await eventually("what was written is read") { handled() == 3 }
        }
    }

    @Test func `A consumer reads again after a time without answers`() async throws {
        try await Self.withConsumer { proxy, write, handled, _ in
            proxy.set(.ignore)
            try await write(2)
            try await eventually("the fault is met") { proxy.interceptedCount >= 4 }
            proxy.set(.forward)
            try await eventually("what was written is read") { handled() == 3 }
        }
    }

    @Test func `Streams without an answered read are reported after ten seconds, and again when they are read`()
        async throws
    {
        try await Self.withConsumer { proxy, write, handled, unanswered in
            #expect(unanswered() == 0)
            proxy.set(.answer(RedisProxy.faultReplies[0]))
            try await write(2)
            try await eventually("both streams are told") { unanswered() == 2 }
            proxy.set(.forward)
            try await eventually("what was written is read") { handled() == 3 }
            try await eventually("nothing is told any more") { unanswered() == 0 }
        }
    }

    /// The ways in which Redis may be away.
    enum Absence: CaseIterable {
        case hangs
        case refuses
        case isBusy

        var behavior: RedisProxy.Behavior {
            switch self {
            case .hangs: .ignore
            case .refuses: .close
            case .isBusy: .answer(RedisProxy.faultReplies[0])
            }
        }
    }

    @Test(arguments: Absence.allCases) func `A consumer with nothing in hand leaves while Redis is away`(
        _ absence: Absence
    ) async throws {
        try await Self.withConsumer { proxy, write, handled, _ in
            proxy.set(absence.behavior)
            try await eventually("the fault is met") { proxy.interceptedCount >= 2 }
        } stopped: { proxy, run in
            // Redis stays away: only the consumer's own limits end it.
            let ended: Void? = await firstWithin(.seconds(4)) { await run.value }
            proxy.set(.forward)
            #expect(ended != nil)
        }
    }

    @Test(arguments: Absence.allCases) func `A service that starts while Redis is away waits for it`(
        _ absence: Absence
    ) async throws {
        try await StreamsFixture.with { direct in
            let proxy = try await RedisProxy.start(to: direct.server.port)
            let client = try Self.client(of: proxy)
            // The connection is there before Redis is away, so that a command is left without its answer.
            _ = try await client.send(RedisCommand("PING"), on: direct.keys.tag)
            proxy.set(absence.behavior)
            let attempts = Mutex(0)
            let starting = Task {
                try await Installation.waiting(client, clock: SystemClock(), logger: Self.silentLogger) {
                    installation in
                    attempts.withLock { $0 += 1 }
                    try await installation.streams.mailboxes.setIdempotencyWindow(
                        milliseconds: 3_600_000,
                        in: installation.keyspace.tag(shard: 0),
                    )
                }
            }
            try await eventually("the first fault is met") { proxy.interceptedCount >= 1 }
            // Redis answers what opens the installation, and is away for what prepares the service.
            proxy.set(absence.behavior, for: ["FCALL"])
            try await eventually("the second fault is met") { proxy.interceptedCount >= 1 }
            proxy.set(.forward)
            try await starting.value
            #expect(attempts.withLock { $0 } >= 1)
            await client.close()
            await proxy.stop()
        }
    }

    @Test func `Answers about tokens are not counted again when nobody knows whether they were`() async throws {
        try await StreamsFixture.with { direct in
            let proxy = try await RedisProxy.start(to: direct.server.port)
            let client = try Self.client(of: proxy)
            let streams = SendStreams(client: client, keyspace: direct.streams.keyspace)
            let rules = GuardRules(
                windowMilliseconds: 60_000,
                delayMilliseconds: 60_000,
                tokensMin: 20,
                percentMax: 10,
                deadPercentMax: 50,
            )
            _ = try await client.send(RedisCommand("PING"), on: direct.keys.tag)
            proxy.set(.close, for: ["FCALL"])
            try await streams.quarantine.count(1_000, on: RouteNumber(3), rules: rules)
            #expect(proxy.interceptedCount == 1)
            proxy.set(.forward)
            try await streams.quarantine.count(5, on: RouteNumber(3), rules: rules)
            let tag = direct.streams.keyspace.tag(shard: 3 % direct.streams.keyspace.queueShards)
            let counted = try await direct.client.send(RedisCommand("HVALS", .text("\(tag)answers:3")), on: tag).root
            #expect(counted.children.map(\.string) == ["5", "5"])
            await client.close()
            await proxy.stop()
        }
    }

    private static let silentLogger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    private static func client(of proxy: RedisProxy) throws -> RedisClient {
        var configuration = try RedisConfiguration(url: proxy.url)
        configuration.requestTimeout = .seconds(1)
        return try RedisClient(
            configuration: configuration,
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            logger: Self.silentLogger,
        )
    }

    /// Runs `body` beside a consumer that has read one entry through a proxy.
    private static func withConsumer(
        _ body: (
            RedisProxy, _ write: (Int) async throws -> Void, _ handled: @Sendable () -> Int,
            _ unanswered: @Sendable () -> Int
        ) async throws -> Void,
        stopped: (RedisProxy, Task<Void, Never>) async throws -> Void = { _, _ in },
    ) async throws {
        try await StreamsFixture.with { direct in
            let proxy = try await RedisProxy.start(to: direct.server.port)
            let client = try Self.client(of: proxy)
            let streams = SendStreams(client: client, keyspace: direct.streams.keyspace)
            let me = direct.consumer("one")
            let handled = Mutex(0)
            let count: @Sendable () -> Int = { handled.withLock { $0 } }
            let log = ReplayLog(
                tag: direct.keys.tag,
                client: client,
                consumer: me,
                leaseMilliseconds: 4_000,
                budget: ReplayBudget(bytesMax: 1 << 20, shards: 1),
                observer: RecordingObserver(),
                logger: Self.silentLogger,
            )
            let observer = RecordingObserver()
            let consumer = ShardConsumer(
                tag: direct.keys.tag,
                streams: streams,
                consumer: me,
                feeds: [
                    ShardConsumer.Feed(
                        direct.keys.mailbox(.express),
                        inHandMax: 8,
                        countPerRead: 8,
                        watch: .urgent,
                    ),
                    ShardConsumer.Feed(direct.keys.mailbox(.bulk), inHandMax: 8, countPerRead: 8),
                ],
                leaseMilliseconds: 4_000,
                replayLog: log,
                observer: observer,
                logger: Self.silentLogger,
            ) { entry, _ in
                handled.withLock { $0 += 1 }
                try await direct.streams.entries.acknowledge([entry], by: me, tag: direct.keys.tag)
            }
            func write(_ count: Int) async throws {
                for number in 0..<count {
                    let stream = direct.keys.mailbox(number % 2 == 0 ? .express : .bulk)
                    _ = try await direct.client.send(
                        RedisCommand("XADD", .text(stream), "*", "m", "x"),
                        on: direct.keys.tag
                    )
                }
            }
            let run = Task { await consumer.run() }
            do {
                try await write(1)
                try await eventually("the first is read") { count() == 1 }
                try await body(proxy, write, count) { observer.counts.unanswered }
            } catch {
                proxy.set(.forward)
                consumer.stop()
                run.cancel()
                await run.value
                throw error
            }
            consumer.stop()
            try await stopped(proxy, run)
            await run.value
            await client.close()
            await proxy.stop()
        }
    }
}
