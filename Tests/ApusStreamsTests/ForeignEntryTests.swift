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
