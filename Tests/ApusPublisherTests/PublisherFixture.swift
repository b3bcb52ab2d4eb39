import ApusCore
import ApusInstallation
import ApusMessages
import ApusPublisher
import ApusRedis
import ApusStreams
import ApusTestKit
import Logging
import NIOPosix
import Testing

/// An installation of four shards, and what tests ask of it.
enum PublisherFixture {
    static func client(_ url: String) throws -> RedisClient {
        try RedisClient(
            configuration: RedisConfiguration(url: url),
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
        )
    }

    static func initialize(_ server: RedisServer) async throws {
        let client = try Self.client(server.url)
        try await Installation.initialize(client, keyspace: Keyspace(queueShards: 4, devicePartitions: 4))
        await client.close()
    }

    /// Runs `body` with a publisher, and closes it.
    static func with(
        _ publisher: Publisher,
        _ body: (Publisher) async throws -> Void,
    ) async throws {
        do {
            try await body(publisher)
            await publisher.close()
        } catch {
            await publisher.close()
            throw error
        }
    }

    /// A primary with a replica that follows it.
    static func withReplica(_ body: (_ primary: RedisServer, _ replica: RedisServer) async throws -> Void) async throws
    {
        try await RedisServer.with(RedisServer.Options(isCluster: false)) { primary in
            try await Self.initialize(primary)
            let options = RedisServer.Options(isCluster: false, primaryPort: primary.port)
            try await RedisServer.with(options) { replica in
                try await eventually("the replica follows") {
                    AcknowledgementProof.hasReplica(try await primary.command("INFO", "replication"))
                }
                try await body(primary, replica)
            }
        }
    }

    static func command(_ id: String = "", title: String = "Hello", key: String = "") -> SendCommand {
        var notification = Notification()
        notification.title = title
        var command = SendCommand(app: "shop", target: .users(["ada"]), notification: notification)
        command.id = id
        command.idempotencyKey = key
        return command
    }

    /// Ids in all mailboxes of a server, in any order.
    static func mailboxes(_ publisher: Publisher, _ server: RedisServer) async throws -> [String] {
        var ids: [String] = []
        for shard in 0..<publisher.installation.keyspace.queueShards {
            for lane in Lane.allCases {
                let key = publisher.installation.streams.keys(shard: shard).mailbox(lane)
                for entry in try await server.command("XRANGE", .text(key), "-", "+").root.children {
                    ids.append(try SendCommand.decode(#require(entry.element(1)?.element(1)?.bytes)).id)
                }
            }
        }
        return ids
    }
}
