import ApusBuiltInProviders
import ApusCore
import ApusInstallation
import ApusMetrics
import ApusProviders
import ApusRedis
import ApusService
import ApusSimulator
import ApusTestKit
import Logging
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import ApusDispatcher

/// Listens at an address of a provider's, and says nothing to anybody.
private final class SilentServer: Sendable {
    /// Holds the connections that are open.
    private final class Connections: Sendable {
        private let open = Mutex<[ObjectIdentifier: any Channel]>([:])

        var all: [any Channel] { self.open.withLock { Array($0.values) } }

        func add(_ channel: any Channel) {
            let id = ObjectIdentifier(channel)
            self.open.withLock { $0[id] = channel }
            channel.closeFuture.whenComplete { _ in self.open.withLock { _ = $0.removeValue(forKey: id) } }
        }
    }

    private let listener: any Channel
    private let connections: Connections

    private init(_ listener: any Channel, _ connections: Connections) {
        self.listener = listener
        self.connections = connections
    }

    static func start() async throws -> SilentServer {
        let connections = Connections()
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                connections.add(channel)
                return channel.eventLoop.makeSucceededVoidFuture()
            }
            .bind(host: "127.0.0.1", port: 0)
            .get()
        return SilentServer(listener, connections)
    }

    var port: Int { self.listener.localAddress?.port ?? 0 }

    var hasConnection: Bool { !self.connections.all.isEmpty }

    /// Stops listening and ends every connection.
    func stop() async throws {
        try await self.listener.close().get()
        for channel in self.connections.all { channel.close(promise: nil) }
    }
}

/// Reviews of changed apps, as a dispatcher makes them that runs with others.
@Suite struct CredentialReloaderTests {
    /// The section of an app at Apple.
    private struct Section {
        var keyID = SimulatedApp.demo.keyID
        /// The name of the simulated app whose key it has.
        var key = SimulatedApp.demo.name
        /// The port of its host; nil for that of the simulator.
        var port: Int?
    }

    private struct Fixture {
        let simulator: Simulator
        let folder: TemporaryFolder

        /// Reads a configuration of apps with these sections.
        func common(_ sections: [String: Section]) throws -> CommonSettings {
            var yaml = "apps:\n"
            for (app, section) in sections {
                let pem = try #require(self.simulator.signingKeyPEM(app: section.key))
                let key = try self.folder.write("\(section.key).p8", pem)
                let port = try #require(section.port ?? self.simulator.addresses.apnsPort)
                let authority = try self.folder.write("ca.pem", self.simulator.authorityPEM)
                yaml += "  \(app):\n    apns:\n      team_id: \(SimulatedApp.demo.teamID)\n"
                yaml += "      key_id: \(section.keyID)\n      key_file: \(key)\n      topic: example.apus.demo\n"
                yaml += "      host: 127.0.0.1\n      port: \(port)\n      ca_file: \(authority)\n"
            }
            let source = SettingsSource(file: try self.folder.write("apus.yaml", yaml), environment: [:])
            return try source.load(DispatcherSettings.self, for: .dispatcher).common
        }
    }

    /// Makes a reloader for a dispatcher that began with these sections.
    private static func with(
        _ former: [String: Section],
        _ body: (CredentialReloader, Fixture) async throws -> Void,
    ) async throws {
        BuiltInProviders.install()
        let simulator = try await Simulator.start()
        let fixture = Fixture(simulator: simulator, folder: try TemporaryFolder())
        let apps = try fixture.common(former).apps
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        var catalogue = MetricCatalogue()
        let metrics = DispatcherMetrics(&catalogue)
        let registry = MetricRegistry(catalogue)
        try await RedisServer.with { server in
            let client = try RedisClient(
                configuration: server.configuration,
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: logger,
            )
            try await Installation.initialize(client, keyspace: Keyspace(queueShards: 2, devicePartitions: 4))
            let streams = try await Installation(client, clock: SystemClock()).streams
            let routes = try await RouteTable(apps, providers: .installed, streams: streams, logger: logger)
            let factory = GatewayFactory(
                providers: .installed,
                tools: GatewayTools(
                    tokens: nil,
                    clock: SystemClock(),
                    eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                    logger: logger,
                ),
            )
            try factory.adopt(apps, routes)
            let watch = FaultWatch(factory: factory, routes: routes, streams: streams, eventLoop: loop, logger: logger)
            let reloader = CredentialReloader(
                factory: factory,
                routes: routes,
                publishers: [],
                eventLoop: loop,
                exchange: { _, _ in },
                watch: watch,
                metrics: metrics,
                shared: registry.shared,
                logger: logger,
            )
            try await body(reloader, fixture)
            await client.close()
        }
        await simulator.stop()
        withExtendedLifetime(fixture.folder) {}
    }

    @Test func `Providers are asked at once, so that one that is silent holds up no other`() async throws {
        var servers: [SilentServer] = []
        for _ in 0..<3 { servers.append(try await SilentServer.start()) }
        let former = ["one": Section(port: 1), "two": Section(port: 1), "three": Section(port: 1)]
        try await Self.with(former) { [servers] reloader, fixture in
            let common = try fixture.common(
                Dictionary(uniqueKeysWithValues: zip(former.keys, servers.map { Section(port: $0.port) }))
            )
            async let asked = reloader.review(common)
            try await eventually("all are being asked") { servers.allSatisfy(\.hasConnection) }
            for server in servers { try await server.stop() }
            let review = await asked
            #expect(review.refusals.count == 3 && review.refusals.allSatisfy { $0.contains("could not be asked") })
            #expect(review.retryInterval == CredentialReloader.retryInterval)
            #expect(review.appsInUse.isEmpty)
        }
    }

    @Test func `A provider that refuses a key is asked again, and the apps that use all they have are named`()
        async throws
    {
        try await Self.with(["good": Section(), "bad": Section()]) { reloader, fixture in
            for (name, keyID) in [("rotated", "ROTATED001"), ("stranger", "STRANGER01")] {
                var app = SimulatedApp.demo
                (app.name, app.keyID) = (name, keyID)
                try fixture.simulator.register([app])
            }
            // Apple knows the stranger's key under another id.
            let sections = ["good": Section(keyID: "ROTATED001", key: "rotated"), "bad": Section(key: "stranger")]
            let review = await reloader.review(try fixture.common(sections))
            #expect(review.refusals.count == 1 && review.renewals.isEmpty)
            #expect(review.refusals.first?.hasPrefix("bad/apns/production: the provider refuses it: ") == true)
            #expect(review.retryInterval == CredentialReloader.refusalRetryInterval)
            #expect(try review.appsInUse == [AppID("good")])
        }
    }
}
