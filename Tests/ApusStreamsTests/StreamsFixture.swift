import ApusCore
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusStreams
import ApusTestKit
import Logging
import NIOPosix

/// A redis-server of its own with an installation of two shards and four partitions.
struct StreamsFixture: Sendable {
    let server: RedisServer
    let client: RedisClient
    let streams: SendStreams

    /// One shard, for tests that need no choice.
    var keys: StreamKeys { self.streams.keys(shard: 0) }

    static func with(_ body: (StreamsFixture) async throws -> Void) async throws {
        try await RedisServer.with { server in try await Self.with(server, body) }
    }

    static func with(_ server: RedisServer, _ body: (StreamsFixture) async throws -> Void) async throws {
        let client = try RedisClient(
            configuration: server.configuration,
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
        )
        let keyspace = Keyspace(queueShards: 2, devicePartitions: 4)
        try await Installation.initialize(client, keyspace: keyspace)
        try await body(
            StreamsFixture(server: server, client: client, streams: SendStreams(client: client, keyspace: keyspace))
        )
        await client.close()
    }

    /// Runs a body with streams whose connections belong to a user of Redis with those rules alone.
    func asUser(_ rules: [String], _ body: (SendStreams) async throws -> Void) async throws {
        let words = ["SETUSER", "limited", "reset", "on", ">secret"] + rules
        _ = try await self.client.send(RedisCommand("ACL", words.map { .text($0) }), on: self.keys.tag)
        var configuration = try self.server.configuration
        (configuration.username, configuration.password) = ("limited", "secret")
        let client = try RedisClient(
            configuration: configuration,
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
        )
        try await body(SendStreams(client: client, keyspace: self.streams.keyspace))
        await client.close()
    }

    /// The time by Redis' clock.
    func now() async throws -> UnixMilliseconds {
        let time = try await self.client.send(RedisCommand("TIME"), on: self.keys.tag).root
        return UnixMilliseconds((time[0].integer ?? 0) * 1_000 + (time[1].integer ?? 0) / 1_000)
    }

    func consumer(_ name: String) -> StreamConsumer { StreamConsumer(group: StreamGroup.dispatcher, name: name) }

    /// Writes a message and reads it back as a consumer, so that it is pending there.
    func deliver(_ message: [UInt8], to stream: String, consumer: StreamConsumer) async throws -> StreamEntry {
        _ = try await self.client.send(
            RedisCommand("XADD", .text(stream), "*", "m", .bytes(message)),
            on: self.keys.tag
        )
        return try await self.read(stream, consumer)
    }

    func read(_ stream: String, _ consumer: StreamConsumer) async throws -> StreamEntry {
        let reader = StreamReader(client: self.client, tag: self.keys.tag, consumer: consumer)
        try await reader.ensure([stream])
        let connection = self.client.blockingConnection(for: self.keys.tag)
        let entries = try await reader.read([stream], count: 1, blockMilliseconds: 100, on: connection)
        await connection.close()
        guard let entry = entries.first else { throw NothingToRead(stream: stream) }
        return entry
    }

    /// Asks whether a command that was written at "<stream>/<id>" may go out, as at a later delivery.
    func admit(_ command: SendCommand, _ origin: String) async throws -> Mailboxes.Admission {
        let parts = origin.split(separator: "/", maxSplits: 1).map(String.init)
        let entry = StreamEntry(stream: parts[0], id: parts[1], message: [], deliveries: 2)
        let identity = SendIdentity(of: command, source: origin)
        return try await self.streams.mailboxes.admit(
            entry,
            app: command.app,
            identity: identity,
            home: self.streams.home(app: command.app, identity.home).tag,
        )
    }

    func length(_ stream: String) async throws -> Int {
        Int(try await self.client.send(RedisCommand("XLEN", .text(stream)), on: self.keys.tag).root.integer ?? -1)
    }

    /// Returns the messages of a stream's entries, of any shard.
    func messages(of stream: String) async throws -> [[UInt8]] {
        let range = RedisCommand("XRANGE", .text(stream), "-", "+")
        return try await self.client.send(range, on: HashTag(ofKey: stream)).root.children.compactMap {
            $0.element(1)?.element(1)?.bytes
        }
    }

    func pending(_ stream: String) async throws -> Int {
        let command = RedisCommand("XPENDING", .text(stream), .text(StreamGroup.dispatcher))
        return Int(try await self.client.send(command, on: self.keys.tag).root[0].integer ?? -1)
    }

    func command(id: String = "", key: String = "", title: String = "Hi") -> SendCommand {
        var notification = Notification()
        notification.title = title
        var command = SendCommand(app: "shop", target: .topic("news"), notification: notification)
        command.id = id
        command.idempotencyKey = key
        return command
    }
}

struct NothingToRead: Error {
    let stream: String
}
