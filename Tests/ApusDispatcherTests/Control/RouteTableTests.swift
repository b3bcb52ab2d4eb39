import ApusBuiltInProviders
import ApusCore
import ApusInstallation
import ApusProviders
import ApusRedis
import ApusService
import ApusStreams
import ApusTLS
import ApusTestKit
import Logging
import NIOPosix
import Testing

@testable import ApusDispatcher

@Suite struct RouteTableTests {
    @Test func `A dispatcher that starts gives no new number to a route whose number a master has lost`() async throws {
        BuiltInProviders.install()
        let folder = try TemporaryFolder()
        defer { withExtendedLifetime(folder) {} }
        let key = try folder.write("vapid.pem", try PrivateKey.generate(.p256).pem)
        let yaml = "apps: {shop: {webpush: {key_file: \(key), subject: \"mailto:ops@shop.example\"}}}"
        let source = SettingsSource(file: try folder.write("apus.yaml", yaml), environment: [:])
        let apps = try source.load(DispatcherSettings.self, for: .dispatcher).common.apps
        try await RedisCluster.with(masters: 3, replicas: 0) { cluster in
            let client = try RedisClient(
                configuration: RedisConfiguration(url: cluster.url),
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            )
            let keyspace = Keyspace(queueShards: 2, devicePartitions: 4)
            try await Installation.initialize(client, keyspace: keyspace)
            let streams = SendStreams(client: client, keyspace: keyspace)
            let copies = InstallationCopies(client)
            func table() async throws -> RouteTable {
                try await RouteTable(apps, providers: .installed, streams: streams, copies: copies)
            }
            let older = Route(app: try AppID("bank"), provider: .apns, environment: .production)
            _ = try await streams.routes.number(of: older)
            let before = try await table()
            #expect(before.numbers == [RouteNumber(2)])
            let content = InstallationCopies.Content(meta: ApusMeta(keyspace), routes: before.namedNumbers)
            for tag in copies.tags { try await copies.write(content, at: tag) }
            let lost = RedisCommand("DEL", .text(StreamKeys.routes))
            _ = try await client.send(lost, on: HashTag(ofKey: StreamKeys.routes))
            #expect(try await table().namedNumbers == before.namedNumbers)
            #expect(
                try await streams.routes.all().map(\.name) == [older.description, before.entries[0].route.description]
            )
            await client.close()
        }
    }
}
