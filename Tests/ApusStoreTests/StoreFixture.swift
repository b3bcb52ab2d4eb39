import ApusCore
import ApusMessages
import ApusRedis
import ApusStore
import ApusTestKit
import Foundation
import Logging
import NIOPosix
import Testing

/// A store on a real redis-server, with an app of its own: tests share the server and never meet.
struct StoreFixture: Sendable {
    /// Few partitions, so that devices meet in them.
    static let partitions = 4

    let app: AppID
    let client: RedisClient
    let store: DeviceStore
    let clock: FakeClock

    private static let server = Task { try await RedisServer.start() }

    /// A fresh app on the shared server.
    static func make(partitions: Int = Self.partitions, app: String? = nil) async throws -> StoreFixture {
        try await Self.make(on: try await Self.server.value, partitions: partitions, app: app)
    }

    /// A fresh app on that server.
    static func make(on server: RedisServer, partitions: Int, app: String? = nil) async throws -> StoreFixture {
        let client = try RedisClient(
            configuration: server.configuration,
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "store-tests") { _ in SwiftLogNoOpLogHandler() },
        )
        let library = try FunctionLibrary(
            name: "apus2",
            version: FunctionLibrary.Version(major: 2, minor: 0),
            sources: [StoreFunctions.source],
        )
        try await library.load(on: client)
        // Redis stamps with its own time, so the store's clock must not be far from it.
        let clock = FakeClock(UnixMilliseconds(Int64(Date().timeIntervalSince1970 * 1_000)))
        return StoreFixture(
            app: try AppID(app ?? "app-" + String(UInt64.random(in: 0..<(1 << 60)), radix: 36)),
            client: client,
            store: DeviceStore(client: client, keyspace: Keyspace(devicePartitions: partitions), clock: clock),
            clock: clock,
        )
    }

    /// Runs `body` with a fresh app, and closes its client afterwards.
    static func with(
        partitions: Int = Self.partitions,
        _ body: (StoreFixture) async throws -> Void,
    ) async throws {
        let fixture = try await Self.make(partitions: partitions)
        do {
            try await body(fixture)
        } catch {
            await fixture.client.close()
            throw error
        }
        await fixture.client.close()
    }

    /// The app's APNs production route.
    var route: Route { Route(app: self.app, provider: .apns, environment: .production) }

    /// A token that only this text gives.
    static func token(_ name: String) -> String {
        Hexadecimal.encode((name + String(repeating: "·", count: 32)).utf8.prefix(32))
    }

    /// Registers an APNs device whose token is made from `token`, or from its id.
    @discardableResult
    func register(
        _ device: String,
        token: String? = nil,
        user: String = "",
        topics: [String]? = nil,
        environment: ProviderEnvironment = .production,
        asOf: UnixMilliseconds? = nil,
    ) async throws -> RegisterResult {
        var registration = DeviceRegistration(device: device, provider: .apns, token: Self.token(token ?? device))
        registration.user = user
        registration.topics = topics
        registration.environment = environment
        return try await self.store.register(self.app, registration, asOf: asOf)
    }

    /// The time by Redis' clock, which stamps registrations.
    func redisNow() async throws -> UnixMilliseconds {
        let time = try await self.client.send(RedisCommand("TIME"), on: self.store.keys.tag(0)).root
        let parts = time.children.compactMap { $0.string.flatMap { Int64($0) } }
        return UnixMilliseconds(parts[0] * 1_000 + parts[1] / 1_000)
    }

    /// The device, if it is there.
    func get(_ device: String) async throws -> StoredDevice? {
        try await self.store.get(self.app, try DeviceID(device))
    }

    /// The names of a device's topics.
    func topics(_ device: StoredDevice) async throws -> [String] {
        try await self.store.topicNames(self.app, device.record.topics).compactMap { $0?.text }.sorted()
    }

    /// Fails unless the app's store agrees with itself, down to the last hint.
    @discardableResult
    func expectClean(sourceLocation: SourceLocation = #_sourceLocation) async throws -> StoreCheck {
        let check = try await StoreCheck.run(self.store, self.app, keepsDevices: true)
        #expect(check.problems == [], sourceLocation: sourceLocation)
        #expect(check.staleHints == 0, sourceLocation: sourceLocation)
        #expect(check.unsettledTokens == 0, sourceLocation: sourceLocation)
        return check
    }

    /// Returns the place that an id of the app leads to, as function arguments: partition and digest.
    func place(_ id: [UInt8]) -> (partition: Int, digest: [UInt8]) {
        let placement = self.store.keys.keyspace.placement(app: Array(self.app.text.utf8), id: id)
        return (placement.partition, (0..<8).map { UInt8(truncatingIfNeeded: placement.digest >> (56 - 8 * $0)) })
    }

    /// The ten bytes by which hints name a device.
    func owner(_ device: String) -> [UInt8] {
        let place = self.place(Array(device.utf8))
        return [UInt8(place.partition >> 8), UInt8(place.partition & 0xff)] + place.digest
    }
}

extension Realm {
    static let apns = Realm(.apns, .production)
    static let fcm = Realm(.fcm, .production)
    static let webpush = Realm(.webpush, .production)
}
