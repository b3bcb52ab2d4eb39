import ApusCore
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusService
import ApusSimulator
import ApusStore
import ApusStreams
import ApusTestKit
import Foundation
import Logging
import NIOPosix

/// A redis-server, an installation of two shards and four partitions, a simulated Apple and Google, and room for services.
final class Fleet: Sendable {
    static let app = "demo"

    let redis: RedisServer
    let client: RedisClient
    let installation: Installation
    let simulator: Simulator
    private let folder: String

    static func with(
        dead: Double = 0,
        faults: FaultPlan = FaultPlan(),
        apps: [SimulatedApp] = [.demo],
        isAppendOnly: Bool = false,
        _ body: (Fleet) async throws -> Void,
    ) async throws {
        try await RedisServer.with(RedisServer.Options(isAppendOnly: isAppendOnly)) { redis in
            let client = try RedisClient(
                configuration: RedisConfiguration(url: redis.url),
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            )
            try await Installation.initialize(client, keyspace: Keyspace(queueShards: 2, devicePartitions: 4))
            var configuration = SimulatorConfiguration()
            configuration.deadShare = DeadShare(dead, seed: 1)
            configuration.faults = faults
            configuration.apps = apps
            let simulator = try await Simulator.start(configuration)
            let folder = try TemporaryDirectory.make("apus-fleet")
            try simulator.writeCredentials(to: folder)
            let fleet = Fleet(
                redis: redis,
                client: client,
                installation: try await Installation(client, clock: SystemClock()),
                simulator: simulator,
                folder: folder,
            )
            do {
                try await body(fleet)
            } catch {
                await simulator.stop()
                await client.close()
                TemporaryDirectory.remove(folder)
                throw error
            }
            await simulator.stop()
            await client.close()
            TemporaryDirectory.remove(folder)
        }
    }

    private init(
        redis: RedisServer,
        client: RedisClient,
        installation: Installation,
        simulator: Simulator,
        folder: String
    ) {
        self.redis = redis
        self.client = client
        self.installation = installation
        self.simulator = simulator
        self.folder = folder
    }

    // MARK: Services

    /// A server that stands in for Apple's, other than the simulator.
    struct AppleStandIn {
        var port: Int
        var caFile: String
    }

    func configuration(lease: String = "10s", apple: AppleStandIn? = nil) -> String {
        let apple =
            apple ?? AppleStandIn(port: self.simulator.addresses.apnsPort ?? 0, caFile: "\(self.folder)/ca.pem")
        let apps = self.simulatedApps.map { app in
            """
              \(app.app.name):
                apns: {team_id: \(app.app.teamID), key_id: \(app.app.keyID), key_file: "\(app.keyFile ?? "")", topic: \(app.app.bundleID ?? ""), environments: [production], host: 127.0.0.1, port: \(apple.port), ca_file: "\(apple.caFile)"}
                fcm: {project_id: \(app.app.projectID ?? ""), service_account_file: "\(app.serviceAccountFile ?? "")", base_url: "https://127.0.0.1:\(self.simulator.addresses.fcmPort ?? 0)", ca_file: "\(self.folder)/ca.pem"}
            """
        }
        return """
            redis: {url: "\(self.redis.url)"}
            event_loops: 1
            dispatcher: {lease: \(lease)}
            feedback: {lease: \(lease)}
            registration: {lease: \(lease), listen: "127.0.0.1:0"}
            apps:
            \(apps.joined(separator: "\n"))
            """
    }

    private var simulatedApps: [SimulatorCredentials.App] {
        (try? self.simulator.writeCredentials(to: self.folder).apps) ?? []
    }

    func startDispatcher(lease: String = "10s", apple: AppleStandIn? = nil) async throws -> ServiceProcess {
        try await ServiceProcess.start("apus-dispatcher", configuration: self.configuration(lease: lease, apple: apple))
    }

    func startRegistration() async throws -> ServiceProcess {
        try await ServiceProcess.start("apus-registration", configuration: self.configuration())
    }

    func startFeedback(lease: String = "10s") async throws -> ServiceProcess {
        try await ServiceProcess.start("apus-feedback", configuration: self.configuration(lease: lease))
    }

    // MARK: Devices

    struct Device: Hashable, Sendable {
        var id: String
        var provider: Provider
        var token: String
    }

    /// Devices half of Apple's, half of Google's; each in the topics of `topics(index)`.
    func register(
        _ count: Int,
        app: String = Fleet.app,
        topics: @Sendable @escaping (Int) -> [String] = { _ in [] },
        user: @Sendable @escaping (Int) -> String = { _ in "" },
    ) async throws -> [Device] {
        let devices = (0..<count).map { index in
            index.isMultiple(of: 2)
                ? Device(id: "\(app)-\(index)", provider: .apns, token: Self.hexToken(app, index))
                : Device(
                    id: "\(app)-\(index)",
                    provider: .fcm,
                    token: "fcm-\(app)-\(index):\(Self.hexToken(app, index))"
                )
        }
        let store = self.installation.store
        let name = try AppID(app)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (index, device) in devices.enumerated() {
                if index >= 256 { try await group.next() }
                group.addTask {
                    var registration = DeviceRegistration(
                        device: device.id,
                        provider: device.provider,
                        token: device.token,
                    )
                    registration.topics = topics(index)
                    registration.user = user(index)
                    _ = try await store.register(name, registration)
                }
            }
            try await group.waitForAll()
        }
        return devices
    }

    private static func hexToken(_ app: String, _ index: Int) -> String {
        var generator = SeededGenerator(seed: UInt64(index) &+ UInt64(app.utf8.reduce(0) { $0 &* 31 &+ Int($1) }))
        return Hexadecimal.encode((0..<32).map { _ in UInt8.random(in: .min ... .max, using: &generator) })
    }

    // MARK: Sends

    func send(
        _ target: Target,
        id: String,
        app: String = Fleet.app,
        lane: Lane = .bulk,
        _ change: (inout SendCommand) -> Void = { _ in },
    ) async throws {
        var notification = Notification()
        notification.title = "Hello"
        notification.body = "World"
        var command = SendCommand(app: app, target: target, notification: notification)
        command.id = id
        command.publishedAtNanoseconds = SystemClock().nanosecondsSince1970()
        change(&command)
        guard case .new = try await self.installation.streams.publish(command, lane: lane) else {
            throw ServiceProcessError(description: "\(id) was not taken")
        }
    }

    /// Waits until a planned send is complete.
    func completion(
        of send: String,
        app: String = Fleet.app,
        timeout: Duration = .seconds(60)
    ) async throws -> SendLedger {
        var ledger: SendLedger?
        do {
            try await eventually("\(send) completes", timeout: timeout) {
                ledger = try await self.installation.streams.ledger(app: app, send: send)
                return ledger?.state == .done
            }
        } catch {
            throw ServiceProcessError(description: "\(error); the ledger: \(String(describing: ledger))")
        }
        guard let ledger else { throw ServiceProcessError(description: "\(send) has no ledger") }
        return ledger
    }

    /// The receipts of a send, in the order of their writing.
    func receipts(of send: String, app: String = Fleet.app) async throws -> [SendReceipt] {
        var receipts: [SendReceipt] = []
        for shard in 0..<self.installation.keyspace.queueShards {
            let keys = self.installation.streams.keys(shard: shard)
            let reply = try await self.client.send(RedisCommand("XRANGE", .text(keys.receipts), "-", "+"), on: keys.tag)
            for entry in reply.root.children {
                let receipt = try SendReceipt.decode(entry[1][1].bytes ?? [])
                if receipt.send == send { receipts.append(receipt) }
            }
        }
        return receipts
    }

    /// What the simulator accepted for a send, by token, with how often.
    func accepted(of send: String) -> [String: Int] {
        var accepted: [String: Int] = [:]
        for (key, count) in self.simulator.ledger.snapshot.accepted where key.send == send {
            accepted[key.token] = count
        }
        return accepted
    }

    /// Entries that wait or are pending anywhere, and journals left: nothing, when all is quiet.
    func leftovers() async throws -> [String: Int64] {
        var left: [String: Int64] = [:]
        for shard in 0..<self.installation.keyspace.queueShards {
            let keys = self.installation.streams.keys(shard: shard)
            let pattern = RedisCommand("KEYS", .text("\(keys.tag)*"))
            for key in try await self.client.send(pattern, on: keys.tag).root.children.compactMap(\.string) {
                let name = String(key.dropFirst(keys.tag.description.count))
                if ["in:express", "in:bulk", "plan", "outcomes"].contains(name) || name.hasPrefix("work:") {
                    left[key] = try await self.client.send(RedisCommand("XLEN", .text(key)), on: keys.tag).root.integer
                } else if name == "journal" || name == "due:body" {
                    left[key] = try await self.client.send(RedisCommand("HLEN", .text(key)), on: keys.tag).root.integer
                }
            }
        }
        return left.filter { $0.value != 0 }
    }
}
