import ApusAPNs
import ApusCore
import ApusInstallation
import ApusMessages
import ApusProviders
import ApusRedis
import ApusStore
import ApusStreams
import ApusTestKit
import Logging
import NIOPosix
import Testing

@testable import ApusDispatcher

/// A device that the store has in production, of an app with both of Apple's environments.
private struct BadgeFixture: Sendable {
    static let productionNumber = RouteNumber(1)
    static let sandboxNumber = RouteNumber(2)

    let store: DeviceStore
    let device: StoredDevice

    var app: AppID { self.device.app }

    static func with(_ body: (BadgeFixture) async throws -> Void) async throws {
        try await RedisServer.with { server in
            let client = try RedisClient(
                configuration: server.configuration,
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            )
            try await Installation.initialize(client, keyspace: Keyspace(queueShards: 2, devicePartitions: 4))
            let store = try await Installation(client, clock: SystemClock()).store
            let token = String(repeating: "0a", count: 32)
            let registration = DeviceRegistration(device: "phone", provider: .apns, token: token)
            let device = try await store.register(try AppID("shop"), registration).device
            try await body(BadgeFixture(store: store, device: device))
            await client.close()
        }
    }

    /// Notes that the sandbox has accepted the device's token. The device is not moved yet.
    func markWrongEnvironment() async throws {
        let marked = try await self.store.markSuspect(
            Route(app: self.app, provider: .apns, environment: .production),
            self.device.reference,
            tokenDigest: DeviceToken.digest(self.device.record.token),
            reason: .wrongEnvironment,
            since: self.device.registeredAt.advanced(byMilliseconds: 60_000),
        )
        guard case .applied = marked else { throw NotMarked() }
    }

    struct NotMarked: Error {}

    /// Returns a plan without recipients for a send that counts badges up by one.
    static func plan(
        _ number: UInt64,
        to environment: ProviderEnvironment = .production,
        of environments: [ProviderEnvironment] = [.production, .sandbox],
        delivery: SendCommand.Delivery = .atLeastOnce,
        publishedAtNanoseconds: Int64 = 0,
        key: String = "",
    ) throws -> RunPlan {
        var notification = Notification()
        notification.title = "Hi"
        notification.badge = .increment(1)
        let id = "s\(number)"
        let now = SystemClock().now()
        let app = try AppID("shop")
        let rendered = try APNsRenderer(bundleID: "com.example.app")
            .render(notification, context: RenderContext(send: SendID(id), publishedAt: now, now: now))
            .map { message throws(Problem) in try PreparedMessage.apns(message, authority: "localhost") }
        var routes: [RouteNumber: RouteContext] = [:]
        for each in environments {
            let route = each == .production ? Self.productionNumber : Self.sandboxNumber
            routes[route] = RouteContext(
                route: Route(app: app, provider: .apns, environment: each),
                number: route,
                RenderedRoute(messages: rendered, tokenKinds: .all),
                retryRules: .apns,
            )
        }
        var command = SendCommand(app: app.text, target: .topic("news"), notification: notification)
        command.delivery = delivery
        (command.publishedAtNanoseconds, command.idempotencyKey) = (publishedAtNanoseconds, key)
        let send = SendContext(
            send: id,
            command: command,
            tag: HashTag("q1"),
            // A badge remembers the first five bytes.
            digest: number << 32,
            expiresAt: nil,
            predicate: .exists,
            routes: routes,
            anyProvider: .apns,
        )
        let context = try #require(send.context(of: Route(app: app, provider: .apns, environment: environment)))
        return RunPlan(send: send, context: context, lane: .bulk, table: RecipientTable())
    }

    /// Counts the send of a plan for a table, as a unit's driver and a direct send do.
    func count(_ plan: RunPlan, in table: inout RecipientTable, isRepeated: Bool = false) async throws {
        try await RecipientLoader(store: self.store).countBadges(
            in: &table,
            of: plan.send,
            plan.context,
            storedRoute: plan.storedRoute,
            journal: [],
            triesElsewhere: plan.triesElsewhere,
            isRepeated: isRepeated,
        )
    }

    /// Returns the table of a unit with the device.
    func table(_ plan: RunPlan) async throws -> RecipientTable {
        try await RecipientLoader(store: self.store).table(
            [self.device.reference],
            plan.send,
            plan.context,
            storedRoute: plan.storedRoute,
        )
    }

    /// Returns the table of a unit with the device, with its badge.
    func counted(_ plan: RunPlan, isRepeated: Bool = false) async throws -> RecipientTable {
        var table = try await self.table(plan)
        try await self.count(plan, in: &table, isRepeated: isRepeated)
        return table
    }

    /// Returns the table of the unit that tries the other environment for a send that was planned in production.
    func countedElsewhere(_ number: UInt64) async throws -> RecipientTable {
        var plan = try Self.plan(number, to: .sandbox)
        plan.storedRoute = plan.send.storedRoute(of: plan.context.number, in: .production)
        #expect(plan.storedRoute != nil)
        return try await self.counted(plan, isRepeated: true)
    }
}

@Suite struct RecipientBadgeTests {
    @Test func `A device of the wrong environment is counted for each send before it is sent to in the other one`()
        async throws
    {
        try await BadgeFixture.with { fixture in
            let first = try await fixture.counted(try BadgeFixture.plan(1))
            #expect(first.rows.map(\.verdict) == [.open] && first.badge(0) == 1)
            try await fixture.markWrongEnvironment()
            for number in [2, 3] as [UInt64] {
                let home = try await fixture.counted(try BadgeFixture.plan(number))
                #expect(home.rows.map(\.verdict) == [.skipped])
                #expect(home.rows.map(\.verdictReason) == [.wrongEnvironment])
                let elsewhere = try await fixture.countedElsewhere(number)
                #expect(elsewhere.rows.map(\.verdict) == [.open] && elsewhere.badge(0) == UInt32(number))
            }
        }
    }

    @Test func `A send that uses an id again is counted, and the same command that is published again is not`()
        async throws
    {
        try await BadgeFixture.with { fixture in
            let hour: Int64 = 3_600_000_000_000
            func badge(_ publishedAt: Int64, _ key: String = "") async throws -> UInt32 {
                let plan = try BadgeFixture.plan(1, publishedAtNanoseconds: publishedAt, key: key)
                return try await fixture.counted(plan).badge(0)
            }
            let first = try await badge(500_000 * hour)
            #expect(first == 1)
            #expect(try await badge(500_000 * hour + 1_000_000_000) == 1)
            #expect(try await badge(500_025 * hour) == 2)
            #expect(try await badge(500_025 * hour, "another") == 3)
        }
    }

    @Test func `A direct send counts a device of the wrong environment, too`() async throws {
        try await BadgeFixture.with { fixture in
            _ = try await fixture.counted(try BadgeFixture.plan(1))
            try await fixture.markWrongEnvironment()
            let found = try await fixture.store.find(fixture.app, devices: [try DeviceID("phone")])
            guard case .device(let device)? = found.compactMap(\.self).first else {
                Issue.record("there is no device")
                return
            }
            let plan = try BadgeFixture.plan(2)
            let place = device.reference
            let row = RecipientTable.Row(
                partition: place.partition,
                ordinal: place.ordinal,
                generation: place.generation,
            )
            var table = RecipientTable(of: plan.context)
            table.append(row, device.record, now: SystemClock().now())
            try await fixture.count(plan, in: &table)
            #expect(table.rows.map(\.verdictReason) == [.wrongEnvironment])
            #expect(try await fixture.countedElsewhere(2).badge(0) == 2)
        }
    }

    @Test func `A device that is sent to in neither environment is not counted`() async throws {
        try await BadgeFixture.with { fixture in
            try await fixture.markWrongEnvironment()
            for plan in try [
                BadgeFixture.plan(1, of: [.production]), BadgeFixture.plan(2, delivery: .atMostOnce),
            ] {
                #expect(!plan.triesElsewhere)
                let table = try await fixture.counted(plan)
                #expect(table.rows.map(\.verdictReason) == [.wrongEnvironment])
            }
            #expect(try await fixture.store.badge(of: fixture.device) == 0)
        }
    }

    @Test func `A device that is gone before it is counted goes nowhere`() async throws {
        try await BadgeFixture.with { fixture in
            try await fixture.markWrongEnvironment()
            let plan = try BadgeFixture.plan(1)
            var table = try await fixture.table(plan)
            #expect(table.rows.map(\.verdictReason) == [.wrongEnvironment])
            _ = try await fixture.store.delete(fixture.app, try DeviceID("phone"))
            try await fixture.count(plan, in: &table)
            #expect(table.rows.map(\.verdict) == [.skipped] && table.rows.map(\.verdictReason) == [.deviceGone])
        }
    }
}
