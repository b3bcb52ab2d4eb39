import ApusAPNs
import ApusBuiltInProviders
import ApusCommand
import ApusCore
import ApusFCM
import ApusInstallation
import ApusLab
import ApusMessages
import ApusProviderCommands
import ApusProviders
import ApusRedis
import ApusService
import ApusSimulator
import ApusStore
import ApusStreams
import ApusTerminal
import ApusTestKit
import Foundation
import Testing

/// Commands that ask providers themselves, at the simulated ones.
@Suite struct ProviderAccessTests {
    private struct Setup {
        let simulator: Simulator
        let access: ProviderAccess
        let client: RedisClient
        let app: AppID
    }

    private func with(_ body: (Setup) async throws -> Void) async throws {
        BuiltInProviders.install()
        let simulator = try await Simulator.start()
        let folder = FileManager.default.temporaryDirectory.appending(path: "apus-\(UUID().uuidString)").path()
        do {
            try await RedisServer.with { server in
                let credentials = try simulator.writeCredentials(to: folder)
                let configuration = ServiceConfiguration(
                    redisURL: server.url,
                    credentials: credentials,
                    addresses: simulator.addresses,
                )
                let file = "\(folder)/apus.yaml"
                try configuration.yaml("dispatcher", ["window": "64"])
                    .write(toFile: file, atomically: true, encoding: .utf8)
                let app = try AppID("demo")
                let source = SettingsSource(file: file, environment: [:])
                let access = try ProviderAccess(app: app, configuration: source)
                try await RedisAccess.withClient(server.url) { client in
                    try await Installation.initialize(client, keyspace: Keyspace(queueShards: 2, devicePartitions: 4))
                    try await body(Setup(simulator: simulator, access: access, client: client, app: app))
                }
            }
        } catch {
            await simulator.stop()
            throw error
        }
        await simulator.stop()
        try FileManager.default.removeItem(atPath: folder)
    }

    @Test func `D41 a channel is made, and Apple names it`() async throws {
        try await self.with { setup in
            let installation = try await Installation(setup.client, clock: SystemClock())
            let administration = ChannelAdministration(setup.access, installation, environment: .production)
            var made: [APNsChannelID] = []
            let kept = try await administration.create(.latest) { made.append($0) }
            let fleeting = try await administration.create(.none) { made.append($0) }
            #expect(made == [kept, fleeting])
            #expect(setup.simulator.broadcastChannels(bundleID: "example.apus.demo") == [kept.text, fleeting.text])
            let rows = try await administration.list()
            #expect(rows.map(\.id) == [kept, fleeting] && rows.map(\.storage) == [.latest, APNsChannelStorage.none])
            #expect(try await administration.show(kept) == .latest)
            #expect(try await administration.show(fleeting) == .none)
            try await administration.delete(kept)
            await #expect(throws: CommandFailure("Apple answers 400: ChannelNotRegistered")) {
                _ = try await administration.show(kept)
            }
            // All questions went out with one token, which dispatchers would use too.
            let token = try await setup.client.send(
                RedisCommand("GET", "apus:jwt:APUSTEAM01:APUSKEY001"),
                on: HashTag(ofKey: "apus:jwt:APUSTEAM01:APUSKEY001"),
            )
            #expect(token.root.string?.isEmpty == false)
            let sandbox = ChannelAdministration(setup.access, installation, environment: .sandbox)
            await #expect(throws: CommandFailure("demo does not use Apple's sandbox environment")) {
                _ = try await sandbox.list()
            }
        }
    }

    @Test func `Apple's answers about a channel are recorded, and a list removes channels that are gone`()
        async throws
    {
        try await self.with { setup in
            let installation = try await Installation(setup.client, clock: SystemClock())
            let streams = installation.streams
            let administration = ChannelAdministration(setup.access, installation, environment: .production)
            let route = try await streams.routes.number(
                of: Route(app: setup.app, provider: .apns, environment: .production)
            )
            func known(_ id: String) async throws -> KnownChannel? {
                try await streams.channels.find(id, of: route, now: SystemClock().now())
            }
            let (kept, fleeting) = (try await administration.create(.latest), try await administration.create(.none))
            #expect(try await known(kept.text) == .there(storesLatest: true))
            #expect(try await known(fleeting.text) == .there(storesLatest: false))

            try await streams.channels.record(goneChannel: kept.text, of: route)
            #expect(try await administration.show(kept) == .latest)
            #expect(try await known(kept.text) == .there(storesLatest: true), "it is there after all")

            try await administration.delete(kept)
            let deleted = try await known(kept.text)
            let isGone = if case .gone = deleted { true } else { false }
            #expect(isGone)
            let stranger = try APNsChannelID("YXB1cw==")
            try await administration.delete(stranger)
            let unknown = try await known(stranger.text)
            let isUnknownGone = if case .gone = unknown { true } else { false }
            #expect(isUnknownGone, "Apple does not know it")

            try await streams.channels.record(channel: "b2xk", storesLatest: true, of: route)
            try await streams.channels.record(goneChannel: fleeting.text, of: route)
            #expect(try await administration.list() == [ChannelAdministration.Row(id: fleeting, storage: nil)])
            #expect(try await known("b2xk") == nil, "Apple does not list it")
            #expect(try await known(fleeting.text) == nil, "Apple lists it")
            #expect(try await known(kept.text) == deleted)
        }
    }

    @Test(arguments: ProviderAccess.TopicInterface.allCases)
    func `A topic's members are subscribed at FCM, and unregistered ones are pruned`(
        _ interface: ProviderAccess.TopicInterface
    ) async throws {
        try await self.with { setup in
            let installation = try await Installation(setup.client, clock: SystemClock())
            let count = 1_203
            try await installation.store.load(setup.app, count: count) { index in
                let provider: Provider = index % 3 == 0 ? .apns : .fcm
                let apple = String(repeating: "0", count: 60) + "\(index + 1_000)"
                let token = provider == .fcm ? "device:\(index)" : apple
                var registration = DeviceRegistration(device: "d\(index)", provider: provider, token: token)
                registration.topics = index % 2 == 0 ? ["news"] : ["other"]
                return registration
            }
            let members = (0..<count).filter { $0 % 3 != 0 && $0 % 2 == 0 }
            let dead = members.prefix(2).map { "device:\($0)" }
            setup.simulator.declare(.dead(since: UnixMilliseconds(5)), of: dead, provider: .fcm)
            let news = try TopicName("news")
            let sync = TopicSync(setup.access, installation, app: setup.app, topic: news, by: interface)
            let report = try await sync.run()
            #expect(report.members == members.count && report.gone == 2 && report.kept == 0)
            #expect(report.subscribed == members.count - 2 && report.later == 0 && report.refused == 0)
            let others = (0..<count).filter { $0 % 3 != 0 && $0 % 2 != 0 }
            #expect(report.others == others.count && report.unsubscribed == others.count)
            let living = Set(members.dropFirst(2).map { "device:\($0)" })
            #expect(setup.simulator.topicSubscribers("news") == living)
            let gone = try DeviceID("d\(members[0])")
            #expect(try await installation.store.get(setup.app, gone) == nil)
            #expect(try await sync.run().members == members.count - 2)

            // Somebody leaves the topic: FCM hears of it, and nobody else is asked for when only subscribing.
            var left = DeviceRegistration(device: "d\(members[5])", provider: .fcm, token: "device:\(members[5])")
            left.topics = []
            _ = try await installation.store.register(setup.app, left)
            let only = TopicSync(
                setup.access,
                installation,
                app: setup.app,
                topic: news,
                by: interface,
                onlySubscribes: true
            )
            #expect(try await only.run().others == 0)
            #expect(setup.simulator.topicSubscribers("news") == living)
            #expect(try await sync.run().others == others.count + 1)
            #expect(setup.simulator.topicSubscribers("news") == living.subtracting(["device:\(members[5])"]))
            let nobody = TopicSync(
                setup.access,
                installation,
                app: setup.app,
                topic: try TopicName("none"),
                by: interface
            )
            #expect(try await nobody.run().others == members.count - 2 + others.count)
        }
    }

    @Test(arguments: ProviderAccess.TopicInterface.allCases)
    func `Devices that FCM calls gone can be brought back, and those of a wrong project are kept`(
        _ interface: ProviderAccess.TopicInterface
    ) async throws {
        try await self.with { setup in
            let installation = try await Installation(setup.client, clock: SystemClock())
            try await installation.store.load(setup.app, count: 100) { index in
                var registration = DeviceRegistration(device: "d\(index)", provider: .fcm, token: "device:\(index)")
                registration.topics = ["news"]
                return registration
            }
            let tokens = (0..<100).map { "device:\($0)" }
            setup.simulator.declare(.dead(since: UnixMilliseconds(5)), of: Array(tokens.prefix(10)), provider: .fcm)
            let news = try TopicName("news")
            let sync = TopicSync(setup.access, installation, app: setup.app, topic: news, by: interface)
            let few = try await sync.run()
            #expect(few.gone == 10 && few.kept == 0)
            let restoration = DeviceRestoration(installation)
            for index in 0..<10 {
                let device = try DeviceID("d\(index)")
                #expect(try await installation.store.get(setup.app, device) == nil)
                #expect(try await installation.store.history(setup.app, device).last?.kind == .pruned)
                #expect(try await restoration.restore(setup.app, device).restored == 1)
            }

            setup.simulator.declare(.dead(since: UnixMilliseconds(5)), of: tokens, provider: .fcm)
            let all = try await sync.run()
            #expect(all.members == 100 && all.gone == 100 && all.kept == 100)
            for index in 0..<100 {
                #expect(try await installation.store.get(setup.app, DeviceID("d\(index)")) != nil)
            }
        }
    }

    @Test func `A device group is made, changed and sent to by its key, and FCM's refusals are shown`() async throws {
        try await self.with { setup in
            let (access, sender) = (setup.access, "100000000001")
            let key = try await access.change(
                FCMGroupChange(.create, name: "ada", tokens: ["device:1", "device:2"]),
                sender: sender
            )
            #expect(try await access.groupKey(of: "ada", sender: sender) == key)
            #expect(
                try await access.change(FCMGroupChange(.add, name: "ada", tokens: ["device:3"]), sender: sender) == key
            )
            #expect(setup.simulator.groupMembers("ada") == ["device:1", "device:2", "device:3"])
            await #expect(throws: CommandFailure("FCM refuses: notification_key already exists")) {
                _ = try await access.change(FCMGroupChange(.create, name: "ada", tokens: ["device:1"]), sender: sender)
            }
            let many = (0..<20).map { "device:\($0 + 10)" }
            await #expect(throws: CommandFailure("FCM refuses: too many registration ids")) {
                _ = try await access.change(FCMGroupChange(.add, name: "ada", tokens: many), sender: sender)
            }
            let all = ["device:1", "device:2", "device:3"]
            _ = try await access.change(FCMGroupChange(.remove, name: "ada", key: key, tokens: all), sender: sender)
            #expect(setup.simulator.groupMembers("ada") == nil)
            await #expect(throws: CommandFailure("FCM refuses: notification_key not found")) {
                _ = try await access.groupKey(of: "ada", sender: sender)
            }
        }
    }

    @Test func `Apple's tokens become FCM's, and what FCM refuses is named with its line`() async throws {
        try await self.with { setup in
            let installation = try await Installation(setup.client, clock: SystemClock())
            func token(_ number: Int) -> String { String(repeating: "0", count: 60) + "\(number + 1_000)" }
            setup.simulator.declare(.bad, of: [token(7)], provider: .apns)
            var lines = (0..<230).map { index in
                let environment = index % 10 == 0 ? "sandbox" : "production"
                return
                    #"{"device":"d\#(index)","provider":"apns","environment":"\#(environment)","token":"\#(token(index))","topics":["news"]}"#
            }
            lines.append(#"{"device":"robot","provider":"fcm","token":"device:1"}"#)
            lines += ["", "{"]
            var exchange = try APNsTokenImport(setup.access, bundleID: nil)
            var work = StoreImport(installation.store, app: setup.app, endpointHosts: [])
            var rest = lines[...]
            try await exchange.run({ rest.popFirst().map { Array($0.utf8) } }) { lines, _ in
                var rest = lines[...]
                try await work.runNumbered { rest.popFirst() }
            }
            #expect(exchange.lines == 233 && exchange.exchanged == 229)
            #expect(exchange.refusals.map(\.line) == [8] && exchange.refusals.map(\.word) == ["FCM: INVALID_ARGUMENT"])
            #expect(work.created == 230 && work.refused == 1 && work.mistakes.map(\.line) == [233])
            let device = try #require(try await installation.store.get(setup.app, DeviceID("d10")))
            #expect(device.realm == Realm(.fcm, .production))
            #expect(
                String(decoding: device.record.token, as: UTF8.self)
                    == FCMTopics.registrationToken(importing: token(10))
            )
            #expect(try await installation.store.get(setup.app, DeviceID("d7")) == nil)
        }
    }

    /// A topic of that many, handed over by a provider in trouble; what came of it, and the waits.
    private func sync(
        _ setup: Setup,
        _ interface: ProviderAccess.TopicInterface,
        _ faults: FaultPlan,
        count: Int,
        after round: @escaping (Int) -> Void,
    ) async throws -> (report: TopicSync.Report, waits: [Int64]) {
        let installation = try await Installation(setup.client, clock: SystemClock())
        try await installation.store.load(setup.app, count: count) { index in
            var registration = DeviceRegistration(device: "d\(index)", provider: .fcm, token: "device:\(index)")
            registration.topics = ["news"]
            return registration
        }
        setup.simulator.setFaults(faults)
        var waits: [Int64] = []
        let sync = TopicSync(setup.access, installation, app: setup.app, topic: try TopicName("news"), by: interface) {
            waits.append($0)
            round(waits.count)
        }
        return (try await sync.run(), waits)
    }

    @Test(arguments: ProviderAccess.TopicInterface.allCases)
    func `Deferred members are retried after growing waits, and none is left out`(
        _ interface: ProviderAccess.TopicInterface
    ) async throws {
        try await self.with { setup in
            var faults = FaultPlan(seed: 3)
            faults.fcm.tooManyRequests = 1
            let result = try await self.sync(setup, interface, faults, count: 300) { round in
                if round == 3 { setup.simulator.setFaults(FaultPlan(seed: 3)) }
            }
            #expect(result.report.members == 300 && result.report.subscribed == 300 && result.report.later == 0)
            #expect(result.waits.count == 3 && result.waits.allSatisfy { (10_000...120_000).contains($0) })
            #expect(setup.simulator.topicSubscribers("news").count == 300)
        }
    }

    @Test func `A closed connection is opened again, and its members are sent again`() async throws {
        try await self.with { setup in
            var faults = FaultPlan(seed: 3)
            faults.fcm.goAwayAfterRequests = 50
            let result = try await self.sync(setup, .subscriptions, faults, count: 300) { _ in }
            #expect(result.report.members == 300 && result.report.subscribed == 300 && result.report.later == 0)
            #expect((1...20).contains(result.waits.count))
            #expect(setup.simulator.topicSubscribers("news").count == 300)
        }
    }

    @Test func `A provider that never recovers ends the retries, and the rest is reported`() async throws {
        try await self.with { setup in
            var faults = FaultPlan(seed: 3)
            faults.fcm.unavailable = 1
            let result = try await self.sync(setup, .instanceID, faults, count: 2_500) { _ in }
            #expect(result.report.members == 2_500 && result.report.later == 2_500)
            #expect(result.waits.count == Int(RetryPolicy.fcmTopics.attemptsMax) - 1)
            #expect(setup.simulator.topicSubscribers("news").isEmpty)
        }
    }

    @Test func `A missing setting is named`() async throws {
        try await self.with { setup in
            for file in ["/nowhere/apus.yaml", nil] {
                let missing = SettingsSource(file: file, environment: [:])
                #expect(throws: CommandFailure.self) { try ProviderAccess(app: setup.app, configuration: missing) }
            }
        }
    }
}
