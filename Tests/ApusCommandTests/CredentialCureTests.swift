import ApusBuiltInProviders
import ApusCommand
import ApusCore
import ApusDispatcher
import ApusInstallation
import ApusProviderCommands
import ApusProviders
import ApusRedis
import ApusService
import ApusStreams
import ApusTerminal
import ApusTestKit
import NIOCore
import NIOPosix
import Testing

/// Tests the verdicts of `apus doctor` about credentials, and the cures that it names.
@Suite struct CredentialCureTests {
    private static func source(_ sections: String, _ folder: TemporaryFolder) throws -> SettingsSource {
        BuiltInProviders.install()
        return SettingsSource(
            file: try folder.write("apus.yaml", "apps:\n  shop:\n    \(sections)\n"),
            environment: [:]
        )
    }

    /// Returns the credential source of the only route of a provider.
    private static func credential(_ provider: Provider, _ section: String) throws -> any CredentialSource {
        let folder = try TemporaryFolder()
        defer { withExtendedLifetime(folder) {} }
        let file = try folder.write("key", "none")
        let source = try Self.source(section.replacing("FILE", with: file), folder)
        let apps = try source.load(DispatcherSettings.self, for: .dispatcher).common.apps
        let (app, settings) = try #require(apps.first)
        let route = Route(app: app, provider: provider, environment: .production)
        return try #require(try ProviderList.installed.credentialSource(of: route, settings))
    }

    @Test func `A refused topic is compared with the bundle id and the team`() throws {
        let source = try Self.credential(
            .apns,
            "apns: {team_id: ABCDE12345, key_id: FGHIJ67890, key_file: FILE, topic: a.b}"
        )
        for word in ["TopicDisallowed", "BadTopic", "MissingTopic"] {
            let cure = try #require(source.cure(of: word))
            #expect(cure.hasPrefix("Compare topic a.b with the app's bundle id") && cure.contains("team"))
        }
        #expect(source.cure(of: "InvalidProviderToken")?.contains("team_id ABCDE12345 and key_id FGHIJ67890") == true)
        #expect(source.cure(of: "SomethingNew") == nil)
    }

    @Test func `A project that is not found is compared with the console`() throws {
        let source = try Self.credential(.fcm, "fcm: {project_id: shop-12345, service_account_file: FILE}")
        #expect(
            source.cure(of: "NOT_FOUND")
                == "Compare project_id shop-12345 with the console: there is no such project"
        )
        #expect(source.cure(of: "PERMISSION_DENIED")?.contains("Firebase Cloud Messaging API Admin") == true)
        #expect(source.cure(of: "SOMETHING_NEW") == nil)
    }

    @Test func `A clock that a provider calls wrong is to be corrected`() throws {
        let apns = try Self.credential(
            .apns,
            "apns: {team_id: ABCDE12345, key_id: FGHIJ67890, key_file: FILE, topic: a.b}"
        )
        let fcm = try Self.credential(.fcm, "fcm: {project_id: shop-12345, service_account_file: FILE}")
        for source in [apns, fcm] {
            let cure = try #require(source.cure(of: "no token: \(CredentialGrant.wrongClock) (status 400)"))
            #expect(cure.hasPrefix("Correct this machine's clock"))
        }
    }

    @Test func `A refused VAPID key is compared with what browsers subscribed with, and its route resumed by hand`()
        throws
    {
        let source = try Self.credential(.webpush, "webpush: {key_file: FILE, subject: \"mailto:ops@shop.example\"}")
        let publicKey = try #require(source.cure(of: "BadVapidPublicKey"))
        #expect(publicKey.contains("older_key_files") && publicKey.contains("apus resume --route"))
        for word in ["BadJwtToken", "status 401", "https://a.example refuses a newly signed token"] {
            let cure = try #require(source.cure(of: word))
            #expect(cure.contains("clock") && cure.contains("mailto:ops@shop.example"))
            #expect(cure.contains("apus resume --route"))
        }
    }

    @Test func `Doctor says that push services cannot be asked, and what they said to dispatchers`() async throws {
        let folder = try TemporaryFolder()
        defer { withExtendedLifetime(folder) {} }
        let file = "\(folder.path)/vapid.pem"
        _ = try VAPIDKeyFile.create(file)
        let source = try Self.source("webpush: {key_file: \(file), subject: \"mailto:ops@shop.example\"}", folder)
        let settings = try source.load(DispatcherSettings.self, for: .dispatcher)
        let route = Route(app: try AppID("shop"), provider: .webpush, environment: .production)
        let app = try #require(settings.common.apps[route.app])
        let credential = try #require(try ProviderList.installed.credentialSource(of: route, app))
        try await RedisServer.with { server in
            try await RedisAccess.withClient(server.url) { client in
                try await Installation.initialize(client, keyspace: Keyspace(queueShards: 2, devicePartitions: 4))
                func choice() throws -> RedisChoice {
                    try RedisChoice(redis: server.url, context: nil, config: nil, environment: [:])
                }
                func finding() async throws -> Diagnosis.Finding? {
                    try await Examination(source: source, redis: choice(), asksOthers: true).run().findings
                        .first { $0.check == .credential }
                }
                let usable = try #require(try await finding())
                #expect(usable.verdict == .ok && !usable.detail.contains("accepts"))
                #expect(usable.detail.contains("can be read; push services cannot be asked without a subscription"))

                // A dispatcher's route is stopped for the key.
                let streams = try await Installation(client, clock: SystemClock()).streams
                let number = try await streams.routes.number(of: route)
                func report(_ fault: RouteFault, of fingerprint: String) async throws {
                    var request = RateLimitRequest()
                    (request.fault, request.configurationFingerprint) = (fault, fingerprint)
                    _ = try await streams.rateLimits.request(
                        request,
                        of: streams.rateLimits.limit(of: number, rampMilliseconds: 0),
                        by: "one",
                        ratePerSecond: nil,
                        on: MultiThreadedEventLoopGroup.singleton.next(),
                    ).get()
                }
                let fault = RouteFault(.credential, "BadVapidPublicKey")
                try await report(fault, of: credential.configurationFingerprint)
                let refused = try #require(try await finding())
                #expect(refused.verdict == .fail && refused.detail.hasSuffix(": BadVapidPublicKey"))
                #expect(refused.cure.contains("older_key_files"))

                // It was stopped for another configuration's topic before.
                #expect(try await streams.routes.restore(number))
                try await report(RouteFault(.configuration, "BadTopic"), of: "other")
                try await report(fault, of: credential.configurationFingerprint)
                let later = try #require(try await finding())
                #expect(later.verdict == .fail && later.detail.hasSuffix(": the provider refuses its credential"))
            }
        }
    }
}
