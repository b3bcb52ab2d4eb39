import ApusBuiltInProviders
import ApusCore
import ApusInstallation
import ApusProviders
import ApusRedis
import ApusService
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

    @Test func `A provider that cannot be asked keeps what it has said of a credential`() async throws {
        BuiltInProviders.install()
        let folder = try TemporaryFolder()
        defer { withExtendedLifetime(folder) {} }
        let key = try folder.write("vapid.pem", try PrivateKey.generate(.p256).pem)
        let yaml = "apps: {shop: {webpush: {key_file: \(key), subject: \"mailto:ops@shop.example\"}}}"
        let source = SettingsSource(file: try folder.write("apus.yaml", yaml), environment: [:])
        let apps = try source.load(DispatcherSettings.self, for: .dispatcher).common.apps
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let loop = MultiThreadedEventLoopGroup.singleton.next()
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
            try factory.adopt(apps, routes)
            let entry = try #require(routes.entries.first)
            let known = try #require(try factory.source(of: entry.route, apps))
            // It shares the credential of the configuration in use.
            let addressing = try #require(try factory.configuration(known, of: entry.route).gateway.addressing)
            let credential = addressing.credential(for: Origin(host: "push.example"))
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
            await client.close()
        }
    }
}
