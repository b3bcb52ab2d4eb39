import ApusBuiltInProviders
import ApusCore
import ApusInstallation
import ApusMessages
import ApusMetrics
import ApusProviders
import ApusRedis
import ApusService
import ApusStore
import ApusStreams
import ApusTestKit
import Logging
import NIOPosix
import Testing

@testable import ApusDispatcher

@Suite struct SendContextCacheTests {
    private static let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    private static func apps() throws -> [AppID: AppSettings] {
        BuiltInProviders.install()
        let folder = try TemporaryFolder()
        defer { withExtendedLifetime(folder) {} }
        let yaml = """
            apps:
              shop:
                fcm: {project_id: shop-12345, service_account_file: \(try folder.write("key.json", "none"))}
            """
        let source = SettingsSource(file: try folder.write("apus.yaml", yaml), environment: [:])
        return try source.load(DispatcherSettings.self, for: .dispatcher).common.apps
    }

    /// Returns a new installation on a server.
    private static func installation(on server: RedisServer) async throws -> (Installation, RedisClient) {
        let client = try RedisClient(
            configuration: server.configuration,
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            logger: Self.logger,
        )
        try await Installation.initialize(client, keyspace: Keyspace(queueShards: 2, devicePartitions: 4))
        return (try await Installation(client, clock: SystemClock()), client)
    }

    /// Returns a cache whose targets are resolved in that store.
    private static func cache(
        _ apps: [AppID: AppSettings],
        _ installation: Installation,
        store: DeviceStore,
        _ clock: FakeClock,
    ) async throws -> SendContextCache {
        var catalogue = MetricCatalogue()
        let metrics = DispatcherMetrics(&catalogue)
        return SendContextCache(
            streams: installation.streams,
            store: store,
            routes: try await RouteTable(
                apps,
                providers: .installed,
                streams: installation.streams,
                logger: Self.logger
            ),
            instruments: DispatcherInstruments(
                metrics: metrics,
                shared: MetricRegistry(catalogue).shared
            ),
            clock: clock,
        )
    }

    /// Returns a command to a topic that expires.
    private static func command(at clock: FakeClock) throws -> [UInt8] {
        var command = SendCommand(app: "shop", target: .topic("news"), notification: Notification())
        command.notification.title = "Tea"
        command.notification.expiry = .ttl(milliseconds: 900_000)
        command.publishedAtNanoseconds = clock.nanosecondsSince1970()
        return try command.encode()
    }

    @Test func `A message that is rendered again finds the topic that its first member has made meanwhile`()
        async throws
    {
        let (apps, clock, shop) = (try Self.apps(), FakeClock(), try AppID("shop"))
        try await RedisServer.with { server in
            let (installation, client) = try await Self.installation(on: server)
            let cache = try await Self.cache(apps, installation, store: installation.store, clock)
            let (send, keys) = (SendKey(app: "shop", id: "s"), installation.streams.keys(shard: 0))
            let command = try Self.command(at: clock)
            _ = try await client.send(RedisCommand("SET", .text(keys.command(send)), .bytes(command)), on: keys.tag)
            func context() async throws -> SendContext {
                try #require(try await cache.context(of: send, tag: keys.tag))
            }
            let first = try await context()
            #expect(first.namesUnknownTopic)
            var device = DeviceRegistration(device: "phone", provider: .fcm, token: "token")
            device.topics = ["news"]
            _ = try await installation.store.register(shop, device)
            let number = try #require(try await installation.store.topicNumber(shop, TopicName("news")))
            for _ in 0..<2 {
                clock.advance(byMilliseconds: 25_000)
                #expect(try await context() === first)
            }
            clock.advance(byMilliseconds: 25_000)
            let second = try await context()
            guard case .topics(let expression) = second.predicate else {
                Issue.record("the target is a topic")
                return
            }
            #expect(expression == .topic(number) && !second.namesUnknownTopic)
            await client.close()
        }
    }

    @Test func `A message is rendered again while the server that has its topic's number is away`() async throws {
        let (apps, clock) = (try Self.apps(), FakeClock())
        try await RedisServer.with { home in
            try await RedisServer.with { away in
                let (installation, client) = try await Self.installation(on: home)
                let (other, otherClient) = try await Self.installation(on: away)
                var device = DeviceRegistration(device: "phone", provider: .fcm, token: "token")
                device.topics = ["news"]
                _ = try await other.store.register(try AppID("shop"), device)
                let number = try #require(try await other.store.topicNumber(try AppID("shop"), TopicName("news")))
                let cache = try await Self.cache(apps, installation, store: other.store, clock)
                let bytes = try Self.command(at: clock)
                let keys = installation.streams.keys(shard: 0)
                let sends = ["known", "unknown"].map { SendKey(app: "shop", id: $0) }
                func store(_ bytes: [UInt8], _ send: SendKey) async throws {
                    _ = try await client.send(
                        RedisCommand("SET", .text(keys.command(send)), .bytes(bytes)),
                        on: keys.tag
                    )
                }
                for send in sends { try await store(bytes, send) }
                func context() async throws -> SendContext {
                    try #require(try await cache.context(of: sends[0], tag: keys.tag))
                }
                func isResolved(_ context: SendContext) -> Bool {
                    guard case .topics(let expression) = context.predicate else { return false }
                    return expression == .topic(number)
                }
                let first = try await context()
                #expect(isResolved(first))
                await away.kill()
                for _ in 0..<2 {
                    clock.advance(byMilliseconds: 25_000)
                    #expect(try await context() === first)
                }
                // The time that is left to live belongs to another minute.
                clock.advance(byMilliseconds: 25_000)
                let second = try await context()
                #expect(second !== first && isResolved(second))
                await #expect(throws: (any Error).self) { try await cache.context(of: sends[1], tag: keys.tag) }
                // A rendering that fails for another reason does not take the number along.
                for _ in 0..<2 {
                    clock.advance(byMilliseconds: 25_000)
                    #expect(try await context() === second)
                }
                clock.advance(byMilliseconds: 25_000)
                try await store([0xff], sends[0])
                await #expect(throws: (any Error).self) { try await context() }
                try await store(bytes, sends[0])
                let third = try await context()
                #expect(third !== second && isResolved(third))
                await client.close()
                await otherClient.close()
            }
        }
    }
}
