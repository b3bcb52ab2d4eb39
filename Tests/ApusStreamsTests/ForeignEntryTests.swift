import ApusCore
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusTestKit
import Logging
import NIOPosix
import Testing

@testable import ApusStreams

/// Entries of mailboxes that lie in another shard than the homes of their commands.
@Suite(.serialized) struct ForeignEntryTests {
    private static let route = RouteNumber(7)
    /// No test takes so long.
    private static let lease: Int64 = 600_000

    /// A direct send in hand that is admitted at its home, over logs of both shards of one server.
    private struct Bench {
        let fixture: StreamsFixture
        let me: StreamConsumer
        let logs: [ReplayLog]
        let streams: SendStreams
        let command: SendCommand
        let home: StreamKeys
        let mailbox: StreamKeys
        let entry: StreamEntry

        var identity: SendIdentity { SendIdentity(of: self.command, source: self.entry.source) }

        init(_ fixture: StreamsFixture) async throws {
            let (me, budget) = (fixture.consumer("me"), ReplayBudget(shards: 2))
            let shards = (0..<2).map { fixture.streams.keys(shard: $0) }
            self.logs = shards.map { keys in
                ReplayLog(
                    tag: keys.tag,
                    client: fixture.client,
                    consumer: me,
                    leaseMilliseconds: ForeignEntryTests.lease,
                    budget: budget,
                    observer: RecordingObserver(),
                    logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
                )
            }
            self.fixture = fixture
            self.me = me
            self.streams = fixture.streams.logged(in: self.logs)
            self.command = ForeignEntryTests.command(id: "s")
            let home = fixture.streams.home(app: "shop", "s")
            self.home = home
            self.mailbox = try #require(shards.first { $0 != home })
            let stream = self.mailbox.mailbox(.express)
            let reader = StreamReader(client: fixture.client, tag: self.mailbox.tag, consumer: me)
            try await reader.ensure([stream])
            let add = RedisCommand("XADD", .text(stream), "*", "m", .bytes(try self.command.encode()))
            _ = try await fixture.client.send(add, on: self.mailbox.tag)
            self.entry = try #require(try await reader.read(stream, count: 1).first)
            let admission = try await self.streams.mailboxes.admit(
                self.entry,
                app: "shop",
                identity: self.identity,
                home: home.tag,
            )
            #expect(admission == .new)
        }

        /// The server of the mailbox forgets the entry, and that of the home knows its key.
        func forgetEntry() async throws {
            let (stream, id) = (RedisArgument.text(self.entry.stream), RedisArgument.text(self.entry.id))
            let acknowledge = RedisCommand("XACK", stream, .text(self.me.group), id)
            _ = try await self.fixture.client.send(acknowledge, on: self.mailbox.tag)
            _ = try await self.fixture.client.send(RedisCommand("XDEL", stream, id), on: self.mailbox.tag)
        }

        func finish() async throws {
            var batch = OutcomeBatch(send: "s", app: "shop", route: ForeignEntryTests.route, provider: .apns)
            batch.counts = [OutcomeCount(provider: .apns, outcome: .accepted, reason: .none, count: 1)]
            _ = try await self.streams.mailboxes.finish(
                self.entry,
                of: self.command,
                identity: self.identity,
                by: self.me,
                tag: self.mailbox.tag,
                home: self.home.tag,
                recipients: 1,
                batches: [batch],
            )
        }

        func publishAgain() async throws -> Mailboxes.PublishResult {
            try await self.fixture.streams.mailboxes.publish(self.command, lane: .express)
        }
    }

    @Test func `A direct send ends once at its home, though the server of its mailbox has forgotten it`() async throws {
        try await StreamsFixture.with { fixture in
            let bench = try await Bench(fixture)
            try await bench.forgetEntry()
            // The second time as by another process that had taken it over.
            for _ in 0..<2 { try await bench.finish() }
            #expect(try await fixture.streams.outcomes.ledger(app: "shop", send: "s")?.planned == 1)
            #expect(try await fixture.messages(of: bench.home.outcomes).count == 1)
            #expect(try await bench.publishAgain() == .duplicate(send: "s"))
        }
    }

    /// Otherwise its publisher would be told that it is known, and nobody would send it.
    @Test(arguments: [
        (isForgotten: false, isKept: false), (isForgotten: true, isKept: false), (isForgotten: true, isKept: true),
    ])
    func `A direct send that was given up is new again if the server of its mailbox has forgotten it`(
        isForgotten: Bool,
        isKept: Bool,
    ) async throws {
        try await StreamsFixture.with { fixture in
            let bench = try await Bench(fixture)
            if isForgotten { try await bench.forgetEntry() }
            if isKept { try await bench.finish() }
            let consumer = ShardConsumer(
                tag: bench.mailbox.tag,
                streams: bench.streams,
                consumer: bench.me,
                feeds: [ShardConsumer.Feed(bench.entry.stream, inHandMax: 1, countPerRead: 1)],
                leaseMilliseconds: Self.lease,
                replayLog: bench.logs.first { $0.tag == bench.mailbox.tag },
                observer: RecordingObserver(),
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            ) { _, _ in }
            await consumer.gaveUp(bench.entry)
            let isRemembered = bench.logs.contains { $0.admission(of: bench.entry.name) != nil }
            #expect(!isRemembered)
            let again = try await bench.publishAgain()
            if isForgotten, !isKept {
                guard case .new = again else {
                    Issue.record("it is taken for known: \(again)")
                    return
                }
            } else {
                #expect(again == .duplicate(send: "s"))
            }
        }
    }

    private static func command(id: String) -> SendCommand {
        var notification = Notification()
        notification.title = "Hi"
        var command = SendCommand(app: "shop", target: .topic("news"), notification: notification)
        command.id = id
        return command
    }

    // MARK: Replicas

    /// Returns the code of the error of Redis that something fails with; nil when it succeeds.
    private static func failure(_ body: () async throws -> Void) async -> RedisError.Code? {
        do {
            try await body()
            return nil
        } catch {
            return (error as? RedisError)?.code
        }
    }

    @Test func `What becomes of a command is on a replica before the command is acknowledged on another master`()
        async throws
    {
        try await RedisCluster.with(masters: 3) { cluster in
            let client = try RedisClient(
                configuration: RedisConfiguration(url: cluster.url),
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            )
            let keyspace = Keyspace(queueShards: 8, devicePartitions: 4)
            try await Installation.initialize(client, keyspace: keyspace)
            let barrier = ReplicaBarrier(client, patience: .milliseconds(300))
            let streams = SendStreams(client: client, keyspace: keyspace).guarded(by: barrier)
            func server(of keys: StreamKeys) -> RedisEndpoint? { client.topology.endpoint(forSlot: keys.tag.slot) }
            let home = streams.home(app: "shop", "s0")
            let shards = (0..<keyspace.queueShards).map { streams.keys(shard: $0) }
            let foreign = try #require(shards.first { server(of: $0) != server(of: home) })
            let master = try #require(cluster.masters.first { RedisCluster.endpoint($0) == server(of: home) })
            let commands = (0..<128).map { Self.command(id: "s\($0)") }
                .filter { streams.home(app: "shop", $0.id) == home }
            let (direct, planned) = (commands[0], commands[1])
            func entry(of command: SendCommand, _ id: String) throws -> StreamEntry {
                let message = try command.encode()
                return StreamEntry(stream: foreign.mailbox(.express), id: id, message: message, deliveries: 2)
            }
            let (first, second) = (try entry(of: direct, "1-1"), try entry(of: planned, "2-1"))
            let mailboxes = streams.mailboxes
            @Sendable func persist() async throws {
                _ = try await mailboxes.persist(
                    direct,
                    identity: SendIdentity(of: direct, source: first.source),
                    origin: first.origin,
                    recipients: 1,
                    batches: [],
                    retries: [],
                    now: UnixMilliseconds(1),
                )
            }
            @Sendable func admit() async throws {
                let identity = SendIdentity(of: direct, source: first.source)
                let admission = try await mailboxes.admit(first, app: "shop", identity: identity, home: home.tag)
                #expect(admission == .known)
            }
            @Sendable func look() async throws {
                #expect(try await mailboxes.isKept(direct.id, app: "shop", home: direct.id, origin: first.origin))
            }
            @Sendable func accept() async throws {
                let result = try await mailboxes.accept(
                    planned,
                    identity: SendIdentity(of: planned, source: second.source),
                    routes: [Self.route],
                    from: second,
                    by: StreamConsumer(group: StreamGroup.dispatcher, name: "me"),
                    due: nil,
                )
                #expect(result.admission == .known && !result.acknowledged)
            }
            let replica = try await cluster.replica(of: master)
            try await eventually("its replica is in step") {
                try await master.command("INFO", "replication").root.text().contains("state=online")
            }
            try await eventually("it is kept") { await Self.failure(persist) == nil }
            replica.suspend()
            #expect(await Self.failure(persist) == .noReplicas)
            #expect(await Self.failure(admit) == .noReplicas)
            #expect(await Self.failure(look) == .noReplicas)
            #expect(await Self.failure(accept) == .noReplicas)
            replica.resume()
            for step in [persist, admit, look, accept] {
                try await eventually("it is confirmed") { await Self.failure(step) == nil }
            }
            await barrier.close()
            await client.close()
        }
    }
}
