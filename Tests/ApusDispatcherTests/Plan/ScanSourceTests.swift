import ApusBuiltInProviders
import ApusCore
import ApusInstallation
import ApusMessages
import ApusProviders
import ApusRedis
import ApusService
import ApusStore
import ApusTestKit
import Logging
import NIOPosix
import Testing

@testable import ApusDispatcher

@Suite struct ScanSourceTests {
    /// Runs `body` with devices of one route, of which every second one is in Austria.
    private static func with(devices: Int, _ body: (DryRun) async throws -> Void) async throws {
        BuiltInProviders.install()
        let folder = try TemporaryFolder()
        defer { withExtendedLifetime(folder) {} }
        let yaml = """
            apps:
              shop:
                fcm: {project_id: shop-12345, service_account_file: \(try folder.write("key.json", "none"))}
            """
        let source = SettingsSource(file: try folder.write("apus.yaml", yaml), environment: [:])
        let apps = try source.load(DispatcherSettings.self, for: .dispatcher).common.apps
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        try await RedisServer.with { server in
            let client = try RedisClient(
                configuration: server.configuration,
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: logger,
            )
            try await Installation.initialize(client, keyspace: Keyspace(queueShards: 2, devicePartitions: 8))
            let installation = try await Installation(client, clock: SystemClock())
            for index in 0..<devices {
                var device = DeviceRegistration(device: "phone-\(index)", provider: .fcm, token: "token-\(index)")
                device.attributes.country = index.isMultiple(of: 2) ? "AT" : "DE"
                _ = try await installation.store.register(try AppID("shop"), device)
            }
            let run = try await DryRun(
                apps,
                of: installation,
                clock: SystemClock(),
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: logger,
            )
            try await body(run)
            await client.close()
        }
    }

    /// Returns the number of recipients that each step finds, when it may read a single record and no more than its chunk.
    private static func steps(_ expression: String, _ run: DryRun) async throws -> [Int] {
        let command = SendCommand(app: "shop", target: .expression(expression), notification: Notification())
        let context = try await run.context(of: command)
        let routes = run.routes.planned(context)
        var planner = run.planner
        planner.recordsPerStepMax = 1
        let share = PlanShare(route: try #require(routes.first), routes: routes)
        let source = ScanSource(planner: planner, context: context, share: share)
        var (steps, cursor) = ([Int](), PlanCursor.scan(ScanPosition()))
        while steps.count < 100 {
            let find = try await source.next(after: cursor, unitsMax: 4)
            steps.append(find.units.reduce(0) { $0 + $1.recipients.count })
            guard !find.isLast else { break }
            #expect(find.next != cursor)
            // Another process has nothing but the text.
            cursor = try #require(PlanCursor(text: find.next.text, isList: false))
        }
        return steps
    }

    @Test func `A step that has read as many records as it may ends, also when it has found nobody`() async throws {
        try await Self.with(devices: 64) { run in
            let some = try await Self.steps("country in ['AT']", run)
            #expect(some.count >= 8 && some.reduce(0, +) == 32, "\(some)")
            let nobody = try await Self.steps("country in ['FR']", run)
            #expect(nobody.count >= 8 && nobody.reduce(0, +) == 0, "\(nobody)")
        }
    }
}
