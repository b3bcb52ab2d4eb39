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
import Synchronization
import Testing

@testable import ApusDispatcher

@Suite struct RouteTableTests {
    /// Keeps the warnings of a log.
    private final class Warnings: Sendable {
        private let texts = Mutex<[String]>([])

        var all: [String] { self.texts.withLock { $0 } }
        var logger: Logger { Logger(label: "test") { _ in Handler(warnings: self) } }

        private struct Handler: LogHandler {
            let warnings: Warnings
            var metadata: Logger.Metadata = [:]
            var logLevel = Logger.Level.warning

            subscript(metadataKey key: String) -> Logger.Metadata.Value? {
                get { self.metadata[key] }
                set { self.metadata[key] = newValue }
            }

            func log(event: LogEvent) {
                self.warnings.texts.withLock { $0.append("\(event.message) \(event.metadata ?? [:])") }
            }
        }
    }

    /// A cluster that knows a route of another dispatcher, and the configuration of one more.
    private struct Setup {
        let client: RedisClient
        let streams: SendStreams
        let copies: InstallationCopies
        let apps: [AppID: AppSettings]
        let other: Route
        let warnings = Warnings()

        func table() async throws -> RouteTable {
            try await RouteTable(
                self.apps,
                providers: .installed,
                streams: self.streams,
                copies: self.copies,
                logger: self.warnings.logger
            )
        }

        /// Writes a copy of the numbers of a table, or of others.
        func copy(_ numbers: [String: RouteNumber], at tag: HashTag) async throws {
            let meta = ApusMeta(self.streams.keyspace)
            try await self.copies.write(InstallationCopies.Content(meta: meta, routes: numbers), at: tag)
        }

        func loseNumbers() async throws {
            let lost = RedisCommand("DEL", .text(StreamKeys.routes))
            _ = try await self.client.send(lost, on: HashTag(ofKey: StreamKeys.routes))
        }

        static func with(_ body: (Setup) async throws -> Void) async throws {
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
                let setup = Setup(
                    client: client,
                    streams: SendStreams(client: client, keyspace: keyspace),
                    copies: InstallationCopies(client),
                    apps: apps,
                    other: Route(app: try AppID("bank"), provider: .apns, environment: .production)
                )
                _ = try await setup.streams.routes.number(of: setup.other)
                try await body(setup)
                await client.close()
            }
        }
    }

    @Test func `A dispatcher that starts gives no new number to a route whose number a master has lost`() async throws {
        try await Setup.with { setup in
            let before = try await setup.table()
            #expect(before.numbers == [RouteNumber(2)])
            for tag in setup.copies.tags { try await setup.copy(before.namedNumbers, at: tag) }
            try await setup.loseNumbers()
            #expect(try await setup.table().namedNumbers == before.namedNumbers)
            let names = [setup.other.description, before.entries[0].route.description]
            #expect(try await setup.streams.routes.all().map(\.name) == names)
            #expect(setup.warnings.all.isEmpty)
        }
    }

    @Test func `A route that gets a new number because the copies contradict each other is named in the log`()
        async throws
    {
        try await Setup.with { setup in
            let before = try await setup.table()
            let name = before.entries[0].route.description
            for (place, tag) in setup.copies.tags.enumerated() {
                let others = [name: RouteNumber(9)]
                try await setup.copy(place.isMultiple(of: 2) ? before.namedNumbers : others, at: tag)
            }
            try await setup.loseNumbers()
            #expect(try await setup.table().numbers == [RouteNumber(1)])
            #expect(setup.warnings.all.count == 1)
            #expect(setup.warnings.all.allSatisfy { $0.contains(name) && $0.contains("contradict each other") })
            // It has a number now.
            #expect(try await setup.table().numbers == [RouteNumber(1)])
            #expect(setup.warnings.all.count == 1)
        }
    }
}
