import ApusCore
import ApusDispatcher
import ApusFeedback
import ApusInstallation
import ApusMessages
import ApusMetrics
import ApusProviders
import ApusPublisher
import ApusRedis
import ApusRegistration
import ApusService
import ApusStore
import ApusStreams
import ApusTestKit
import Foundation
import Logging
import NIOPosix
import ServiceLifecycle
import Testing

/// A provider of this folder alone goes all the way through the three services.
@Suite struct ToyProviderTests {
    /// In a process of its own: what a process knows of providers is known to all tests in it.
    @Test(.timeLimit(.minutes(3)))
    func `A provider that no other file knows is registered, sent to, retried and pruned`() async {
        await #expect(processExitsWith: .success) { try await ToyInstallation.run() }
    }
}

private struct Failure: Error, CustomStringConvertible {
    let description: String

    static func unless(_ condition: Bool, _ description: String) throws {
        guard condition else { throw Failure(description: description) }
    }
}

/// Redis, the toys' server and the three services in this process.
private struct ToyInstallation {
    let app: AppID
    let server: ToyServer
    let client: RedisClient
    let installation: Installation
    let publisher: Publisher

    static func run() async throws {
        ProviderList.install([ToyProvider()])
        try await RedisServer.with { redis in
            let folder = try TemporaryFolder()
            let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
            let server = try await ToyServer.start(on: group)
            let logger = Logger(label: "toy") { _ in SwiftLogNoOpLogHandler() }
            let client = try RedisClient(
                configuration: RedisConfiguration(url: redis.url, clientName: "apus-toy"),
                eventLoopGroup: group,
                logger: logger,
            )
            try await Installation.initialize(client, keyspace: Keyspace(queueShards: 1, devicePartitions: 2))
            let file = try Self.configuration(redis, folder, server)
            let services: [any Service] = [
                try Self.service(file, .registration, RegistrationSettings.self, RegistrationMetrics.self, group) {
                    [try Registration($0)]
                },
                try Self.service(file, .dispatcher, DispatcherSettings.self, DispatcherMetrics.self, group) {
                    [Dispatcher($0)]
                },
                try Self.service(file, .feedback, FeedbackSettings.self, FeedbackMetrics.self, group) {
                    [Feedback($0)]
                },
            ]
            let running = ServiceGroup(services: services, logger: logger)
            async let ended: Void = running.run()
            let toys = ToyInstallation(
                app: try AppID("shop"),
                server: server,
                client: client,
                installation: try await Installation(client, clock: SystemClock()),
                publisher: try await Publisher(redis: redis.url),
            )
            try await toys.play()
            await running.triggerGracefulShutdown()
            try await ended
            await toys.publisher.close()
            await client.close()
            try await server.stop()
        }
    }

    private static func configuration(
        _ redis: RedisServer,
        _ folder: TemporaryFolder,
        _ server: ToyServer,
    ) throws -> String {
        let authority = try folder.write("toys.pem", server.authorityPEM)
        return try folder.write(
            "apus.yaml",
            """
            redis: {url: "\(redis.url)"}
            admin: {listen: "127.0.0.1:0"}
            registration: {listen: "127.0.0.1:0"}
            apps:
              shop:
                toy: {url: "\(server.url)", ca_file: \(authority)}
                auth: {api_keys: {backend: {sha256: \(String(repeating: "0a", count: 32)), role: register}}}
            """
        )
    }

    private static func service<Own: ServiceSettings, Metrics: MetricSet>(
        _ file: String,
        _ name: ServiceName,
        _ settings: Own.Type,
        _ metrics: Metrics.Type,
        _ group: MultiThreadedEventLoopGroup,
        _ assemble: @escaping ChassisService<Own, Metrics>.Assemble,
    ) throws -> any Service {
        ChassisService(
            try LiveSettings<Own>(SettingsSource(file: file, environment: [:]), for: name),
            metrics: metrics,
            sink: LogSink(
                writer: LogWriter(descriptor: FileHandle.standardError.fileDescriptor),
                isJSON: false,
                level: .error,
                clock: SystemClock(),
            ),
            eventLoopGroup: group,
            assemble: assemble,
        )
    }

    // MARK: Sends

    private func play() async throws {
        try await self.refuseWhatIsNoToy()
        for name in ["ball", "busy", "broken"] { try await self.register(name) }
        let devices = try await self.devices(["ball", "busy", "broken"])
        try Failure.unless(devices.allSatisfy { $0?.realm == Realm(.toy, .production) }, "all stand in the toys' realm")

        let receipt = try await self.send(.devices(["ball", "busy", "broken"]), title: "Tidy up")
        let accepted = receipt.counts.filter { $0.provider == .toy && $0.outcome == .accepted }.map(\.count)
        let gone = receipt.counts.filter { $0.provider == .toy && $0.outcome == .unregistered }.map(\.count)
        try Failure.unless(accepted.reduce(0, +) == 2 && gone.reduce(0, +) == 1, "two took it, one is gone: \(receipt)")
        try Failure.unless(self.server.taken(by: "ball") == ["Tidy up"], "the ball was told once")
        try Failure.unless(self.server.refusals(of: "busy") == 2, "the busy one was tried again")
        try Failure.unless(self.server.taken(by: "busy") == ["Tidy up"], "and was told once")
        try await eventually("the broken toy is pruned", timeout: .seconds(30)) {
            try await self.devices(["broken"]) == [nil]
        }

        // The remaining device is found by the topic of all, and by platform.
        for (target, title) in [(Target.everyone([.toy]), "Bath"), (.expression("platform == 'toy'"), "Bed")] {
            let receipt = try await self.send(target, title: title)
            try Failure.unless(receipt.planned == 2, "two are left: \(receipt)")
            try Failure.unless(self.server.taken(by: "ball").last == title, "\(title) reached the ball")
        }
        let refused = try await self.send(.devices(["ball"]), title: "")
        try Failure.unless(refused.problem?.field == "notification.title", "the toy's own rule refuses: \(refused)")
    }

    /// The registration's rules go by the toy's facts.
    private func refuseWhatIsNoToy() async throws {
        var sandbox = DeviceRegistration(device: "sand", provider: .toy, token: "castle")
        sandbox.environment = .sandbox
        try await self.write(.register(sandbox))
        try await self.write(
            .register(DeviceRegistration(device: "long", provider: .toy, token: String(repeating: "x", count: 33)))
        )
        let keys = self.installation.streams.keys(shard: 0)
        try await eventually("both are dead letters") {
            let reply = try await self.client.send(RedisCommand("XLEN", [.text(keys.dead)]), on: keys.tag)
            return reply.root.integer == 2
        }
    }

    private func register(_ name: String) async throws {
        try await self.write(.register(DeviceRegistration(device: name, provider: .toy, token: name)))
        try await eventually("\(name) is registered") { try await self.devices([name]).allSatisfy { $0 != nil } }
    }

    private func write(_ action: RegistrationCommand.Action) async throws {
        let command = RegistrationCommand(app: self.app.text, action: action)
        let keys = self.installation.streams.keys(shard: 0)
        _ = try await self.client.send(
            RedisCommand("XADD", [.text(keys.register), .text("*"), .text("m"), .bytes(try command.encode())]),
            on: keys.tag,
        )
    }

    private func devices(_ names: [String]) async throws -> [StoredDevice?] {
        var devices: [StoredDevice?] = []
        for name in names { devices.append(try await self.installation.store.get(self.app, try DeviceID(name))) }
        return devices
    }

    private func send(_ target: Target, title: String) async throws -> SendReceipt {
        var notification = Notification()
        notification.title = title
        let command = SendCommand(app: self.app.text, target: target, notification: notification)
        let publication = try await self.publisher.publish(command, lane: .express)
        return try await self.publisher.finalReceipt(of: publication, within: .seconds(60))
    }
}
