import ApusCore
import ApusInstallation
import ApusMessages
import ApusMetrics
import ApusRedis
import ApusStore
import ApusStreams
import ApusTestKit
import Logging
import Testing

@testable import ApusFeedback

/// Many tokens that a provider calls bad or dead, and single ones whose devices cannot be changed.
@Suite struct MassFailureTests {
    private let route: Route

    init() throws {
        self.route = Route(app: try AppID("shop"), provider: .apns, environment: .production)
    }

    /// Registers devices, each of its own user unless one is named.
    private func register(
        _ count: Int,
        _ fixture: HandlerFixture,
        user: String? = nil,
    ) async throws -> [StoredDevice] {
        let name = user ?? "u"
        return try await forEachConcurrently(Array(0..<count)) { index in
            var registration = DeviceRegistration(
                device: "\(name)-\(index)",
                provider: .apns,
                token: Hexadecimal.encode("\(name)-\(index)".utf8)
            )
            registration.user = user ?? "\(name)-\(index)"
            return try await fixture.installation.store.register(self.route.app, registration).device
        }
    }

    private static func batch(
        _ send: String,
        accepted: Int,
        bad: [StoredDevice] = [],
        dead: [StoredDevice] = [],
    ) -> OutcomeBatch {
        func verdict(_ device: StoredDevice, _ reason: Reason) -> TokenVerdict {
            TokenVerdict(
                place: .device(device.reference),
                tokenDigest: DeviceToken.digest(device.record.token),
                asOf: device.registeredAt.advanced(byMilliseconds: 1),
                reason: reason,
                providerReason: "word",
            )
        }
        var batch = OutcomeBatch(send: send, app: "shop", route: RouteNumber(1), provider: .apns)
        batch.counts = [
            OutcomeCount(provider: .apns, outcome: .accepted, reason: .none, count: UInt64(accepted)),
            OutcomeCount(provider: .apns, outcome: .rejected, reason: .badToken, count: UInt64(bad.count)),
            OutcomeCount(provider: .apns, outcome: .unregistered, reason: .unregistered, count: UInt64(dead.count)),
        ].filter { $0.count > 0 }
        batch.suspects = bad.map { verdict($0, .badToken) }
        batch.unregistered = dead.map { verdict($0, .unregistered) }
        batch.isFinal = true
        batch.planned = UInt64(accepted + bad.count + dead.count)
        return batch
    }

    private static func state(_ fixture: HandlerFixture) async throws -> TokenQuarantine.State {
        try await fixture.installation.streams.quarantine.state(of: RouteNumber(1))
    }

    private static func isPaused(_ fixture: HandlerFixture) async throws -> Bool {
        try await fixture.installation.streams.routes.state(of: RouteNumber(1)).isPaused
    }

    /// Returns how many of the devices exist, and how many of these are suspect.
    private func count(
        _ devices: [StoredDevice],
        _ fixture: HandlerFixture
    ) async throws -> (kept: Int, suspect: Int) {
        let store = fixture.installation.store
        let found = try await forEachConcurrently(devices) { try await store.get(self.route.app, DeviceID($0.id)) }
        return (found.count { $0 != nil }, found.count { $0?.record.suspicion != nil })
    }

    private static func outcomesLeft(_ fixture: HandlerFixture) async throws -> Int64? {
        let keys = fixture.handler.keys
        return try await fixture.client.send(.init("XLEN", .text(keys.outcomes)), on: keys.tag).root.integer
    }

    @Test(arguments: [false, true])
    func `Twenty bad tokens of one user stop no route, even without an owner; of a hundred users they do`(
        areLeft: Bool
    ) async throws {
        try await HandlerFixture.with { fixture in
            let store = fixture.installation.store
            #expect(try await fixture.installation.streams.routes.number(of: self.route) == RouteNumber(1))
            var junk = try await self.register(40, fixture, user: "mallory")
            if areLeft {
                for device in junk {
                    _ = try await store.unbindUser(self.route.app, DeviceID(device.id))
                }
                junk = try await forEachConcurrently(junk) { try await store.get(self.route.app, DeviceID($0.id)) }
                    .compactMap(\.self)
                #expect(junk.count == 40 && junk.allSatisfy { $0.record.user.isEmpty })
            }
            try await fixture.apply(Self.batch("one", accepted: 130, bad: Array(junk.prefix(20))))
            try await fixture.apply(Self.batch("two", accepted: 0, bad: Array(junk.suffix(20))))
            #expect(try await !Self.isPaused(fixture))
            #expect(try await Self.state(fixture).tokens == 40)
            #expect(try await self.count(junk, fixture) == (40, 40))

            let others = try await self.register(100, fixture)
            try await fixture.apply(Self.batch("three", accepted: 10, bad: others))
            #expect(try await Self.isPaused(fixture))
            #expect(try await Self.state(fixture).causeTokens == 101)
        }
    }

    @Test func `The gauges of routes are absent while the list of routes cannot be read`() async throws {
        try await HandlerFixture.with { fixture in
            let streams = fixture.installation.streams
            _ = try await streams.routes.number(of: self.route)
            var catalogue = MetricCatalogue()
            let metrics = FeedbackMetrics(&catalogue)
            let registry = MetricRegistry(catalogue)
            let massFailureGuard = MassFailureGuard(
                streams: streams,
                store: fixture.installation.store,
                history: fixture.handler.history,
                rules: FeedbackSettings.defaultGuardRules,
                metrics: metrics,
                shared: registry.shared,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            )
            func isShown() async -> [Bool] {
                let text = String(decoding: await registry.exposition(.prometheusText), as: UTF8.self)
                return ["quarantined_routes{route=\"\(self.route)\"} 0\n", "suspect_tokens{provider=\"apns\"} 0\n"]
                    .map { text.contains("apus_feedback_\($0)") }
            }
            try await massFailureGuard.sweep()
            #expect(await isShown() == [true, true])
            let other = RedisCommand("SET", .text(StreamKeys.routes), "something else")
            _ = try await fixture.client.send(other, on: HashTag(ofKey: StreamKeys.routes))
            await #expect(throws: RedisError.self) { try await massFailureGuard.sweep() }
            #expect(await isShown() == [false, false])
        }
    }

    @Test func `A device whose record cannot be read or changed costs its batch nothing`() async throws {
        try await HandlerFixture.with { fixture in
            let devices = try await self.register(6, fixture)
            // A record that is none, as no writer of ours leaves it.
            for broken in [devices[0], devices[3]] {
                let reference = broken.reference
                let slab = Int(reference.ordinal) / StoreLimits.slabOrdinals
                let partition = Int(reference.partition)
                let keys = fixture.installation.store.keys
                let command = RedisCommand(
                    "HSET",
                    .text(keys.slab(self.route.app, Realm(self.route), partition, slab)),
                    .integer(Int(reference.ordinal) % StoreLimits.slabOrdinals),
                    .bytes([UInt8](repeating: 0xff, count: 40)),
                )
                _ = try await fixture.client.send(command, on: keys.tag(partition))
            }
            let batch = Self.batch("one", accepted: 100, bad: Array(devices[0..<3]), dead: Array(devices[3..<6]))
            try await fixture.apply(batch)
            #expect(try await Self.outcomesLeft(fixture) == 0)
            #expect(try await fixture.receipts().map(\.kind) == [.final])
            #expect(try await self.count(Array(devices[1...2]), fixture) == (2, 2))
            #expect(try await self.count(Array(devices[4...5]), fixture).kept == 0)
        }
    }

    @Test func `The largest record that may be registered can be marked, and its batch is applied`() async throws {
        try await HandlerFixture.with { fixture in
            let store = fixture.installation.store
            var registration = DeviceRegistration(
                device: "large",
                provider: .fcm,
                token: String(repeating: "t", count: 4_000),
            )
            registration.user = "ann"
            func grown(by count: Int) -> DeviceRegistration {
                var grown = registration
                // Tags of 64 bytes cost 66 each.
                grown.attributes.tags = (0..<count / 66).map {
                    String(repeating: "x", count: 60) + String(10_000 + $0).suffix(4)
                }
                if count % 66 > 2 { grown.attributes.tags.append(String(repeating: "y", count: count % 66 - 2)) }
                return grown
            }
            var largest: StoredDevice?
            var size = 0
            for step in [2_048, 1_024, 512, 256, 128, 64, 32, 16, 8, 4, 2, 1] {
                guard let result = try? await store.register(self.route.app, grown(by: size + step)) else { continue }
                size += step
                largest = result.device
            }
            let device = try #require(largest)
            let route = Route(app: self.route.app, provider: .fcm, environment: .production)
            let marked = try await store.markSuspect(
                route,
                device.reference,
                tokenDigest: DeviceToken.digest(device.record.token),
                reason: .badToken,
                since: Limits.timeMax,
            )
            guard case .applied(let suspect) = marked else {
                Issue.record("not marked: \(marked)")
                return
            }
            #expect(suspect.record.suspicion != nil && suspect.record.attributes == device.record.attributes)
            // The holder may always log out.
            guard case .changed(let left) = try await store.unbindUser(self.route.app, DeviceID("large")) else {
                Issue.record("not logged out")
                return
            }
            #expect(left.record.user.isEmpty)
        }
    }

    @Test func `D21 A wave of dead tokens stops the route before the devices are deleted, and each step can be undone`()
        async throws
    {
        try await HandlerFixture.with { fixture in
            let store = fixture.installation.store
            #expect(try await fixture.installation.streams.routes.number(of: self.route) == RouteNumber(1))
            let devices = try await self.register(120, fixture)
            // A half of all: they are deleted at once.
            let early = Array(devices[0..<50])
            try await fixture.apply(Self.batch("one", accepted: 50, dead: early))
            #expect(try await self.count(early, fixture).kept == 0)
            #expect(try await !Self.isPaused(fixture))
            // All: nobody is.
            let late = Array(devices[50..<120])
            try await fixture.apply(Self.batch("two", accepted: 0, dead: late))
            #expect(try await self.count(late, fixture) == (70, 70))
            let state = try await Self.state(fixture)
            #expect(try await Self.isPaused(fixture))
            #expect(state.isForDead && state.tokens == 70 && state.causeTokens == 120 && state.causeAnswers == 170)
            try await fixture.handler.massFailureGuard.sweep()
            #expect(try await self.count(late, fixture) == (70, 70))
            #expect(try await Self.outcomesLeft(fixture) == 0)

            let period = UnixMilliseconds(0)..<store.now.advanced(byMilliseconds: 60_000)
            var restored = 0
            for partition in 0..<store.keys.keyspace.devicePartitions {
                for pruned in try await store.prunedDevices(self.route, partition, in: period).devices {
                    guard case .restored = try await store.restore(pruned) else { continue }
                    restored += 1
                }
            }
            #expect(restored == 50)
            #expect(try await self.count(early, fixture) == (50, 0))
        }
    }

    @Test func `Dead tokens of one user, and those of Live Activities, stop nothing`() async throws {
        try await HandlerFixture.with { fixture in
            let store = fixture.installation.store
            let devices = try await self.register(30, fixture)
            let mallory = try await self.register(30, fixture, user: "mallory")
            try await fixture.apply(Self.batch("one", accepted: 5, dead: mallory))
            #expect(try await self.count(mallory, fixture).kept == 0)
            var batch = Self.batch("two", accepted: 0, dead: devices)
            for (index, device) in devices.enumerated() {
                var address = DeviceRecord.SecondaryAddress(kind: .liveActivityUpdate, token: [1, UInt8(index)])
                address.activityID = "match"
                address.registeredAt = device.registeredAt
                _ = try await store.putAddress(self.route.app, DeviceID(device.id), address)
                batch.unregistered[index].tokenDigest = DeviceToken.digest(address.token)
            }
            try await fixture.apply(batch)
            #expect(try await self.count(devices, fixture) == (30, 0))
            #expect(try await store.get(self.route.app, DeviceID(devices[0].id))?.record.secondary == [])
            #expect(try await !Self.isPaused(fixture))
        }
    }
}
