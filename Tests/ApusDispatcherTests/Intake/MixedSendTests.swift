import ApusBuiltInProviders
import ApusCore
import ApusInstallation
import ApusMessages
import ApusProviders
import ApusRedis
import ApusService
import ApusTestKit
import Logging
import NIOPosix
import Testing

@testable import ApusDispatcher

/// Sends to phones and browsers, of which one provider takes less than the others.
@Suite struct MixedSendTests {
    private static func with(_ body: (DryRun) async throws -> Void) async throws {
        try await Self.withRoutes { run, _ in try await body(run) }
    }

    private static func withRoutes(_ body: (DryRun, RouteTable) async throws -> Void) async throws {
        BuiltInProviders.install()
        let folder = try TemporaryFolder()
        defer { withExtendedLifetime(folder) {} }
        // Rendering reads no credential.
        let file = try folder.write("key.pem", "none")
        let yaml = """
            apps:
              shop:
                apns: {team_id: ABCDE12345, key_id: FGHIJ67890, key_file: \(file), topic: a.b}
                fcm: {project_id: shop-12345, service_account_file: \(file)}
                webpush: {key_file: \(file), subject: "mailto:ops@shop.example", declarative: true}
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
            try await Installation.initialize(client, keyspace: Keyspace(queueShards: 2, devicePartitions: 4))
            let installation = try await Installation(client, clock: SystemClock())
            let run = try await DryRun(
                apps,
                of: installation,
                clock: SystemClock(),
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: logger,
            )
            let routes = try await RouteTable(
                apps,
                providers: .installed,
                streams: installation.streams,
                logger: logger
            )
            try await body(run, routes)
            await client.close()
        }
    }

    private static func command(bytes: Int = 3, _ providers: Set<Provider> = [.apns, .fcm, .webpush]) -> SendCommand {
        let apns = Address(provider: .apns, token: String(repeating: "a", count: 64))
        let fcm = Address(provider: .fcm, token: String(repeating: "b", count: 64))
        var browser = Address(provider: .webpush, token: "https://fcm.googleapis.com/fcm/send/abc")
        browser.webpushP256DH = [4] + [UInt8](repeating: 1, count: 64)
        browser.webpushAuth = [UInt8](repeating: 1, count: 16)
        var notification = Notification()
        notification.title = "Tea"
        notification.body = String(repeating: "x", count: bytes)
        let addresses = [apns, fcm, browser].filter { providers.contains($0.provider) }
        return SendCommand(app: "shop", target: .addresses(addresses), notification: notification)
    }

    private static func problem(_ run: DryRun, _ command: SendCommand) async -> String? {
        do {
            _ = try await run.run(command, asksProviders: false)
            return nil
        } catch {
            return (error as? Problem)?.code ?? "\(error)"
        }
    }

    @Test func `What is too large for browsers alone fails for browsers alone, with that reason`() async throws {
        try await Self.with { run in
            let report = try await run.run(Self.command(bytes: 3_950), asksProviders: false)
            #expect(report.audiences.map(\.route.provider).sorted() == [.apns, .fcm])
            #expect(report.audiences.allSatisfy { $0.recipients == 1 })
            #expect(
                report.closed == [OutcomeCount(provider: .webpush, outcome: .rejected, reason: .payload, count: 1)]
            )
            // Nobody is left, and the publisher can shorten the text.
            #expect(await Self.problem(run, Self.command(bytes: 3_950, [.webpush])) == "payload_too_large")
            #expect(await Self.problem(run, Self.command(bytes: 4_090)) == "payload_too_large")
        }
    }

    @Test func `A size breach of APNs or FCM fails only there, as one of Web Push does`() async throws {
        try await Self.with { run in
            let large = String(repeating: "x", count: 4_200)
            var command = Self.command()
            command.notification.androidJSON = #"{"data":{"a":"\#(large)"}}"#
            var report = try await run.run(command, asksProviders: false)
            #expect(report.audiences.map(\.route.provider).sorted() == [.apns, .webpush])
            #expect(report.closed == [OutcomeCount(provider: .fcm, outcome: .rejected, reason: .payload, count: 1)])
            // FCM carries the same JSON to iPhones.
            command = Self.command()
            command.notification.apnsJSON = #"{"a":"\#(large)"}"#
            report = try await run.run(command, asksProviders: false)
            #expect(report.audiences.map(\.route.provider) == [.webpush])
            #expect(Set(report.closed.map(\.provider)) == [.apns, .fcm])
            #expect(report.closed.allSatisfy { $0.outcome == .rejected && $0.reason == .payload && $0.count == 1 })
        }
    }

    /// Small alerts, of which each byte takes as many as it can in JSON.
    private static var plainCommands: [SendCommand] {
        let dear = { (count: Int) in String(repeating: "\u{1}", count: count) }
        return (0..<6).map { number in
            var command = Self.command()
            command.target = .devices(["phone"])
            switch number {
            case 0: break
            case 1: command.notification.body = dear(380)
            case 2: command.notification.data = ["k": dear(380)]
            case 3: for index in 0..<40 { command.notification.data["k\(index)"] = "" }
            case 4:
                (command.notification.title, command.notification.subtitle) = (dear(100), dear(100))
                (command.notification.badge, command.notification.sound) = (
                    .increment(1), .init(critical: true, volume: 0.1)
                )
                command.notification.threadID = dear(100)
            default:
                command.notification.clickAction = "https://shop.example/" + String(repeating: "a", count: 100)
                command.notification.image = "https://shop.example/" + String(repeating: "b", count: 100)
                command.notification.interruptionLevel = .timeSensitive
                command.notification.relevanceScore = 0.123_456_789_012_345_6
            }
            return command
        }
    }

    @Test func `What a provider certainly accepts can be rendered for it, however long its JSON becomes`() async throws
    {
        try await Self.withRoutes { _, routes in
            let now = SystemClock().now()
            let terms = RenderContext(
                send: try SendID(String(repeating: "s", count: 64)),
                publishedAt: now,
                now: now,
            )
            let entries = routes.entries.filter { $0.route.provider != .webpush }
            #expect(entries.count == 2)
            for command in Self.plainCommands {
                let byteCount = try command.encode().count
                for entry in entries {
                    #expect(entry.providerRoute.certainlyAccepts(command, byteCount: byteCount), "\(byteCount)")
                    var shared: (any Sendable)?
                    _ = try entry.providerRoute.render(command, terms, sharing: &shared)
                }
            }
        }
    }

    @Test func `A command is rendered for the providers of its recipients, and where it may break a rule`() async throws
    {
        try await Self.withRoutes { _, routes in
            let now = SystemClock().now()
            let terms = RenderContext(send: try SendID("a"), publishedAt: now, now: now)
            func providers(_ command: SendCommand) throws -> Set<Provider> {
                let reached = ReachedProviders(providers: [.apns], byteCount: try command.encode().count)
                let rendered = try routes.render(command, app: try AppID("shop"), context: terms, reached: reached)
                #expect(rendered.unneeded.isDisjoint(with: rendered.contexts.values.map(\.route.provider)))
                return Set(rendered.contexts.values.map(\.route.provider))
            }
            var command = Self.plainCommands[0]
            #expect(try providers(command).contains(.apns) && !providers(command).contains(.fcm))
            command.notification.androidJSON = #"{"priority":"HIGH"}"#
            #expect(try providers(command).isSuperset(of: [.apns, .fcm]))
            // Refused as it would be if an Android phone were among the recipients.
            command.notification.androidJSON = #"{"priority":"urgent"}"#
            #expect(throws: Problem.self) { _ = try providers(command) }
            command = Self.plainCommands[0]
            command.notification.data = ["google.x": "1"]
            #expect(throws: Problem.self) { _ = try providers(command) }
        }
    }

    @Test func `Data for a phone of one provider breaks no rule of the others as a background notification alone`()
        async throws
    {
        try await Self.withRoutes { _, routes in
            let now = SystemClock().now()
            let terms = RenderContext(send: try SendID("a"), publishedAt: now, now: now)
            var command = Self.plainCommands[0]
            command.notification = Notification()
            command.notification.data = ["event_id": "$1"]
            command.notification.androidStyle = .data
            let app = try AppID("shop")
            #expect(throws: Problem.self) { _ = try routes.render(command, app: app, context: terms) }
            // As an event of Matrix that has nothing to show goes to Android.
            command.notification.androidStyle = .notification
            (command.notification.kind, command.notification.priority) = (.background, .normal)
            command.notification.androidJSON = #"{"priority":"HIGH"}"#
            let rendered = try routes.render(command, app: app, context: terms)
            #expect(Set(rendered.contexts.values.map(\.route.provider)) == [.apns, .fcm, .webpush])
        }
    }

    @Test func `A dry run of many devices that are gone counts them once`() async throws {
        try await Self.with { run in
            var command = Self.plainCommands[0]
            command.target = .devices((0..<300).map { "gone-\($0)" })
            let report = try await run.run(command, asksProviders: false)
            #expect(report.closed.map(\.count) == [300] && report.closed.first?.reason == .deviceGone)
        }
    }

    @Test func `An address that repeats an earlier one is no recipient, and those after it keep their index`()
        async throws
    {
        try await Self.with { run in
            let one = Address(provider: .fcm, token: String(repeating: "a", count: 64))
            var again = one
            again.locale = "fr"
            let other = Address(provider: .fcm, token: String(repeating: "b", count: 64))
            var command = Self.command()
            command.target = .addresses([one, again, other])
            let context = try await run.context(of: command)
            let route = try #require(run.routes.entries.first { $0.route.provider == .fcm }?.number)
            let source = ListSource(
                planner: run.planner,
                context: context,
                share: PlanShare(route: route, routes: run.routes.planned(context)),
            )
            let find = try await source.next(after: .list(index: 0), unitsMax: 1)
            #expect(find.units.map(\.recipients) == [.addresses([0, 2])] && find.isLast)
        }
    }

    @Test func `A rule that an accepted send breaks later on one route fails its recipients there alone`() async throws
    {
        try await Self.withRoutes { _, routes in
            let now = SystemClock().now()
            var command = Self.plainCommands[0]
            command.notification.data = ["google.x": "1"]
            for isAccepted in [false, true] {
                let terms = RenderContext(send: try SendID("a"), publishedAt: now, now: now, isAccepted: isAccepted)
                let rendered = try? routes.render(command, app: try AppID("shop"), context: terms)
                let providers = rendered.map { Set($0.contexts.values.map(\.route.provider)) }
                #expect(providers == (isAccepted ? [.apns, .webpush] : nil))
            }
        }
    }

    @Test func `A mixed send without a link reaches browsers although declarative messages are configured`()
        async throws
    {
        try await Self.with { run in
            let report = try await run.run(Self.command(), asksProviders: false)
            #expect(report.audiences.count == 3 && report.closed == [])
            let browsers = try #require(report.renderings.first { $0.route.provider == .webpush })
            #expect(!browsers.payload.contains("web_push"))
        }
    }
}
