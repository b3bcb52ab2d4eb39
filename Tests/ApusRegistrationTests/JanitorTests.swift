import ApusCore
import ApusInstallation
import ApusMessages
import ApusMetrics
import ApusRedis
import ApusStore
import ApusStreams
import ApusTestKit
import Logging
import NIOPosix
import Testing

@testable import ApusRegistration

/// The janitor's loop over a store that was damaged by hand.
@Suite struct JanitorTests {
    private static let devices = 300

    private struct Setup: Sendable {
        let app: AppID
        let client: RedisClient
        let store: DeviceStore
        let streams: SendStreams

        func janitor(recordsPerSecond: Int, interval: Duration = .seconds(1)) -> Janitor {
            var catalogue = MetricCatalogue()
            let metrics = RegistrationMetrics(&catalogue)
            let app = self.app
            return Janitor(
                store: self.store,
                streams: self.streams,
                apps: { [app] },
                recordsPerSecond: recordsPerSecond,
                interval: interval,
                staleAfterMilliseconds: [:],
                metrics: metrics,
                shared: MetricRegistry(catalogue).shared,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            )
        }

        /// Returns the place that an id leads to, and the bytes of its digest.
        func place(_ id: String) -> (partition: Int, digest: [UInt8]) {
            let placement = self.store.keys.keyspace.placement(app: Array(self.app.text.utf8), id: Array(id.utf8))
            return (placement.partition, (0..<8).map { UInt8(truncatingIfNeeded: placement.digest >> (56 - 8 * $0)) })
        }

        /// Takes a device's id out of the index, so that nobody finds it by that.
        func lose(_ id: String) async throws {
            let place = self.place(id)
            let tag = self.store.keys.tag(place.partition)
            let bucket = self.store.keys.bucket(.ids, self.app, Realm(.apns, .production), place.partition, 0)
            let removed = try await self.client.send(RedisCommand("HDEL", .text(bucket), .bytes(place.digest)), on: tag)
            #expect(removed.root.integer == 1)
            let meta = self.store.keys.meta(self.app, Realm(.apns, .production), place.partition)
            _ = try await self.client.send(RedisCommand("HINCRBY", .text(meta), "id_count", "-1"), on: tag)
        }

        func get(_ id: String) async throws -> StoredDevice? { try await self.store.get(self.app, try DeviceID(id)) }
    }

    /// A store of few partitions with devices in it.
    private func with(_ body: (Setup) async throws -> Void) async throws {
        try await RedisServer.with { server in
            let client = try RedisClient(
                configuration: server.configuration,
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            )
            try await Installation.initialize(client, keyspace: Fixture.keyspace)
            let installation = try await Installation(client, clock: SystemClock())
            let setup = Setup(
                app: try AppID("shop"),
                client: client,
                store: installation.store,
                streams: installation.streams,
            )
            for index in 0..<Self.devices {
                let bytes = (0..<32).map { UInt8(truncatingIfNeeded: index >> (8 * ($0 % 4))) }
                var registration = DeviceRegistration(
                    device: "phone-\(index)",
                    provider: .apns,
                    token: Hexadecimal.encode(bytes)
                )
                registration.user = "user-\(index / 3)"
                registration.topics = ["all"]
                _ = try await setup.store.register(setup.app, registration)
            }
            try await body(setup)
            await client.close()
        }
    }

    @Test func `The janitor repairs a damaged store by itself, every time`() async throws {
        try await self.with { setup in
            let janitor = setup.janitor(recordsPerSecond: 1_000_000)
            let work = Task { await janitor.run() }
            for lost in [["phone-7", "phone-8", "phone-9"], ["phone-7", "phone-250"]] {
                for id in lost { try await setup.lose(id) }
                try await eventually("everybody is found again") {
                    for id in lost {
                        guard try await setup.get(id) != nil else { return false }
                    }
                    return true
                }
            }
            try await eventually("the store agrees with itself") {
                try await StoreCheck.run(setup.store, setup.app).problems.isEmpty
            }
            work.cancel()
            await work.value
            let check = try await StoreCheck.run(setup.store, setup.app)
            #expect(check.problems == [] && check.deviceCount == Self.devices)
        }
    }

    @Test func `The janitor keeps its rate, and leaves a recently checked partition alone`() async throws {
        try await self.with { setup in
            let janitor = setup.janitor(recordsPerSecond: 300, interval: .seconds(3_600))
            let clock = ContinuousClock()
            let start = clock.now
            let first = try await janitor.lookOver(setup.app)
            #expect(first == Fixture.keyspace.devicePartitions)
            // Of each partition all records, and the hints beside them; a pause may be rounded.
            #expect(clock.now - start >= .milliseconds(900))
            let second = try await janitor.lookOver(setup.app)
            #expect(second == 0)
        }
    }

    @Test func `The janitor ends marks of suspects that no quarantine has, and no others`() async throws {
        try await self.with { setup in
            let route = Route(app: setup.app, provider: .apns, environment: .production)
            let since = UnixMilliseconds(SystemClock().now().value + 1_000)
            let ids = ["phone-1", "phone-2", "phone-3"]
            func suspicions() async throws -> [Reason?] {
                var found: [Reason?] = []
                for id in ids { found.append(try #require(try await setup.get(id)).record.suspicion?.reason) }
                return found
            }
            var tokens: [OwnedToken] = []
            for id in ids {
                let device = try #require(try await setup.get(id))
                let digest = DeviceToken.digest(device.record.token)
                let token = QuarantinedToken(
                    reference: device.reference,
                    tokenDigest: digest,
                    since: since,
                    reason: .badToken
                )
                tokens.append(OwnedToken(token, of: id, registeredAt: device.registeredAt))
                let (store, reference) = (setup.store, device.reference)
                _ =
                    id == "phone-3"
                    ? try await store.noteRefusal(route, reference, tokenDigest: digest, since: since)
                    : try await store.markSuspect(
                        route,
                        reference,
                        tokenDigest: digest,
                        reason: .badToken,
                        since: since
                    )
            }
            let (refused, janitor) = (
                DeviceRecord.Suspicion.refusedMessage, setup.janitor(recordsPerSecond: 1_000_000)
            )
            // Without a number nothing is known of the route's quarantine.
            _ = try await janitor.lookOver(setup.app)
            #expect(try await suspicions() == [.badToken, .badToken, refused])
            let number = try await setup.streams.routes.number(of: route)
            let rules = GuardRules(
                windowMilliseconds: 60_000,
                delayMilliseconds: 60_000,
                tokensMin: 20,
                percentMax: 10,
                deadPercentMax: 50,
            )
            _ = try await setup.streams.quarantine.add([tokens[1]], of: 1, on: number, rules: rules)
            try await eventually("it has come by again") {
                _ = try await janitor.lookOver(setup.app)
                return try await suspicions() == [nil, .badToken, refused]
            }
            try await Task.sleep(for: .seconds(1.1))
            _ = try await janitor.lookOver(setup.app)
            #expect(try await suspicions() == [nil, .badToken, refused])
        }
    }
}
