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
import NIOCore
import NIOPosix
import Testing

@testable import ApusDispatcher

@Suite struct FaultWatchTests {
    @Test func `A stopped route resumes when the provider accepts its credential, whatever was refused before`() {
        for isOther in [false, true] {
            #expect(FaultWatch.resumes(on: .taken, withOtherConfiguration: isOther))
            #expect(!FaultWatch.resumes(on: .refused("BadJwtToken"), withOtherConfiguration: isOther))
            #expect(!FaultWatch.resumes(on: .unanswered("no answer"), withOtherConfiguration: isOther))
        }
    }

    @Test func `A route whose provider cannot be asked resumes only with a configuration that was not refused`() {
        #expect(!FaultWatch.resumes(on: .unasked, withOtherConfiguration: false))
        #expect(FaultWatch.resumes(on: .unasked, withOtherConfiguration: true))
    }

    /// The only route of an app that sends to browsers, on a Redis of its own.
    private struct Setup {
        let entry: RouteTable.Entry
        let routes: RouteTable
        let factory: GatewayFactory
        let addressing: any RecipientAddressing
        let streams: SendStreams
        let loop: any EventLoop
        let logger: Logger
    }

    private static func with(_ body: (Setup) async throws -> Void) async throws {
        BuiltInProviders.install()
        let folder = try TemporaryFolder()
        defer { withExtendedLifetime(folder) {} }
        let key = try folder.write("vapid.pem", try PrivateKey.generate(.p256).pem)
        let yaml = "apps: {shop: {webpush: {key_file: \(key), subject: \"mailto:ops@shop.example\"}}}"
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
            let routes = try await RouteTable(
                apps,
                providers: .installed,
                streams: installation.streams,
                logger: logger
            )
            let factory = GatewayFactory(
                providers: .installed,
                tools: GatewayTools(
                    tokens: nil,
                    clock: SystemClock(),
                    eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                    logger: logger,
                ),
            )
            let entry = try #require(routes.entries.first)
            let known = try #require(try factory.source(of: entry.route, apps))
            let configuration = try factory.configuration(known, of: entry.route)
            factory.adopt(configuration, for: entry)
            try await body(
                Setup(
                    entry: entry,
                    routes: routes,
                    factory: factory,
                    addressing: try #require(configuration.gateway.addressing),
                    streams: installation.streams,
                    loop: MultiThreadedEventLoopGroup.singleton.next(),
                    logger: logger,
                )
            )
            await client.close()
        }
    }

    @Test func `A provider that cannot be asked keeps what it has said of a credential`() async throws {
        try await Self.with { setup in
            let (entry, factory, loop) = (setup.entry, setup.factory, setup.loop)
            let credential = setup.addressing.credential(for: Origin(host: "push.example"))
            var grant = try await credential.grant(on: loop).get()
            for _ in 0..<2 {
                guard case .usable(let header, _) = grant else { break }
                grant = try await credential.rejected(header, on: loop).get()
            }
            func isRefused(_ grant: CredentialGrant) -> Bool { if case .paused = grant { true } else { false } }
            #expect(isRefused(grant))
            #expect(try await factory.probe(entry, on: loop) == .unasked)
            #expect(isRefused(try await credential.grant(on: loop).get()))
            // The operator who resumes the route wants to know whether it is in order now.
            credential.restored()
            #expect(!isRefused(try await credential.grant(on: loop).get()))
        }
    }

    @Test func `A process whose requests are accepted resumes a route that another one has stopped for the same key`()
        async throws
    {
        try await Self.with { setup in
            let (entry, streams) = (setup.entry, setup.streams)
            let watch = FaultWatch(
                factory: setup.factory,
                routes: setup.routes,
                streams: streams,
                eventLoop: setup.loop,
                logger: setup.logger,
            )
            var retests = FaultRetests()
            func stop(_ fingerprint: String) async throws {
                var request = RateLimitRequest()
                request.fault = RouteFault(.credential, "BadJwtToken")
                request.configurationFingerprint = fingerprint
                _ = try await streams.rateLimits.request(
                    request,
                    of: entry.rateLimit.limiter,
                    by: "other",
                    ratePerSecond: nil,
                    on: setup.loop,
                ).get()
            }
            func isPaused() async throws -> Bool { try await streams.routes.state(of: entry.number).isPaused }
            try await stop(setup.factory.configurationFingerprint(of: entry.number))
            try await watch.look(at: entry, &retests)
            #expect(try await isPaused())
            setup.addressing.verdicts.accepted(now: NIODeadline.now().uptimeNanoseconds)
            try await watch.look(at: entry, &retests)
            #expect(try await !isPaused())
            // Nothing is known of another key.
            try await stop("other")
            try await watch.look(at: entry, &retests)
            #expect(try await isPaused())
        }
    }
}
