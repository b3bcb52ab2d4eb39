import ApusCommand
import ApusCore
import ApusInstallation
import ApusRedis
import ApusStreams
import ApusTerminal
import ApusTestKit
import Testing

/// Tests `apus init` on servers that have lost something, or that follow others.
@Suite struct InstallationSetupTests {
    private static let keyspace = Keyspace(queueShards: 6, devicePartitions: 12)

    /// Removes a key, as its master does that comes back without its data.
    private static func lose(_ key: String, _ client: RedisClient) async throws {
        _ = try await client.send(RedisCommand("DEL", .text(key)), on: HashTag(ofKey: key))
    }

    @Test func `Sizes and numbers of routes that a master has lost come back from the copies`() async throws {
        try await RedisCluster.with(masters: 3, replicas: 0) { cluster in
            try await RedisAccess.withClient(cluster.url) { client in
                let setup = InstallationSetup(client)
                _ = try await setup.perform(queueShards: 6, devicePartitions: 12)
                let routes = SendStreams(client: client, keyspace: Self.keyspace).routes
                let app = try AppID("shop")
                for provider in [Provider.apns, .fcm] {
                    _ = try await routes.number(of: Route(app: app, provider: provider, environment: .production))
                }
                let known = try await routes.all()
                let copies = InstallationCopies(client)
                let content = InstallationCopies.Content(
                    meta: ApusMeta(Self.keyspace),
                    routes: Dictionary(uniqueKeysWithValues: known.map { ($0.name, $0.number) }),
                )
                // As a dispatcher does at its start.
                for tag in copies.tags { try await copies.write(content, at: tag) }
                try await Self.lose(ApusMeta.key, client)
                try await Self.lose(StreamKeys.routes, client)

                let failure = await #expect(throws: RedisError.self) { _ = try await setup.perform(queueShards: 7) }
                #expect(failure?.code == .layoutMismatch && failure?.message.contains("6 queue shards and 12") == true)
                #expect(try await ApusMeta.read(from: client) == nil)
                let opened = try await Installation(client, clock: SystemClock())
                #expect(opened.keyspace == Self.keyspace && opened.isMetaLost)

                let report = try await setup.perform()
                #expect(report.queueShards == 6 && report.devicePartitions == 12)
                #expect(try await copies.readAll() == content)
                #expect(try await routes.all() == known)
                let new = Route(app: app, provider: .webpush, environment: .production)
                #expect(try await routes.number(of: new) == RouteNumber(3))
                let again = try await Installation(client, clock: SystemClock())
                #expect(again.keyspace == Self.keyspace && !again.isMetaLost)
            }
        }
    }

    @Test func `Lost sizes are not guessed while their copies contradict each other`() async throws {
        try await RedisCluster.with(masters: 3, replicas: 0) { cluster in
            try await RedisAccess.withClient(cluster.url) { client in
                let setup = InstallationSetup(client)
                _ = try await setup.perform(queueShards: 6, devicePartitions: 12)
                let copies = InstallationCopies(client)
                let other = Keyspace(queueShards: 7, devicePartitions: 12)
                let tag = try #require(copies.tags.last)
                try await copies.write(InstallationCopies.Content(meta: ApusMeta(other)), at: tag)
                try await Self.lose(ApusMeta.key, client)
                let refusal = await #expect(throws: RedisError.self) { _ = try await setup.perform() }
                #expect(refusal?.code == .layoutMismatch && refusal?.message.contains("remove the wrong ones") == true)
                let end = await #expect(throws: RedisError.self) {
                    _ = try await Installation(client, clock: SystemClock())
                }
                #expect(end == refusal)
                #expect(try await ApusMeta.read(from: client) == nil)
                // As the sentence says.
                try await Self.lose(tag.key("installation"), client)
                #expect(try await setup.perform().queueShards == 6)
            }
        }
    }

    @Test func `A replica that Sentinels name is not taken for a wrong address`() async throws {
        try await RedisSentinels.with { group in
            try await RedisAccess.withClient(group.url) { client in
                let report = try await InstallationSetup(client).perform(queueShards: 1, devicePartitions: 1)
                let warnings = report.warnings
                #expect(warnings.count { $0.contains("appendonly is no") } == 2, "both are looked at: \(warnings)")
                #expect(!warnings.contains { $0.contains("is a replica") }, "\(warnings)")
            }
        }
    }
}
