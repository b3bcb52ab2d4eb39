internal import ApusBuiltInProviders
internal import ApusCore
internal import ApusDispatcher
internal import ApusFeedback
internal import ApusFleet
internal import ApusInstallation
internal import ApusMessages
internal import ApusPublisher
internal import ApusRedis
internal import ApusRegistration
internal import ApusService
internal import ApusSimulator
internal import ApusStore
internal import ApusStreams
internal import ApusTestKit
internal import Logging
internal import NIOCore
internal import ServiceLifecycle

/// The reason why a simulation ended badly.
struct SimulationFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

/// The clock of the providers, which does not jump with the fleet's.
private struct SteadyClock: WallClock {
    func nanosecondsSince1970() -> Int64 { Scheduler.current.now + SimulatedFleet.wallOffset }
}

/// The services that a simulated fleet has several of.
enum SimulatedService: String {
    case dispatcher
    case feedback
    case registration
}

/// A fleet in one process: a modelled Redis that runs our functions, simulated providers, and the services that production runs.
final class SimulatedFleet: @unchecked Sendable {
    static let redisPort = 6_379
    /// The apps that a fleet may have. Their devices, sends, users, topics and keys have the same names.
    static let allApps = [
        SimulatedApp.demo,
        SimulatedApp(name: "other", bundleID: "example.apus.other", projectID: "apus-other"),
    ]
    /// The file of the key that records are encrypted with, where they are, and the key.
    private static let recordKeys = "record-keys"
    private static let recordKey = [UInt8](repeating: 0x5e, count: 32)
    private static let newRecordKey = [UInt8](repeating: 0x7a, count: 32)
    /// The file of the secret that the webhook's requests are signed with.
    private static let webhookSecret = "webhook-secret"
    /// The name of the publisher that has mailboxes of its own, and the stream of its receipts.
    private static let publisherName = "shop"
    static let namedReceipts = "\(StreamKeys.replyPrefix)\(SimulatedFleet.publisherName)"
    /// The file of the authority that providers are trusted with. Nothing is encrypted here, but each service reads
    /// whom to trust, and the system's authorities are many.
    private static let authority = "authority.pem"

    let scheduler: Scheduler
    let network: SimulatedNetwork
    private var pids: Int32 = 100
    private var processes: [SimulatedProcess] = []
    private let folder: TemporaryFolder
    private var simulatedApps: [SimulatedApp] = []
    private var madeSimulator: Simulator?
    /// The process of whoever publishes, registers and operates.
    private(set) var outside: SimulatedProcess
    /// The masters of Redis: one, or several of a cluster.
    private(set) var masters: [SimulatedMaster] = []
    /// The slots of the masters; nil when there is one master, which is no cluster.
    private(set) var cluster: ModelCluster?
    /// The process of the providers.
    private(set) var providers: SimulatedProcess?
    private var listeners: [ModelListener] = []
    /// The receiver of the webhook.
    let webhook = SimulatedWebhook()
    private var madeInstallation: Installation?
    private var madePublisher: Publisher?
    private var madeNamedPublisher: Publisher?
    private var madeBarrier: ReplicaBarrier?
    private var madeOutsideLoop: (any EventLoop)?
    let logger: Logger
    private let mutation: Mutation?

    init(_ scheduler: Scheduler, _ mutation: Mutation?, logs level: Logger.Level?) throws {
        self.mutation = mutation
        self.logger = Logger(label: "fleet") { _ -> any LogHandler in
            if let level { FleetLog(logLevel: level) } else { SwiftLogNoOpLogHandler() }
        }
        self.scheduler = scheduler
        self.network = SimulatedNetwork(scheduler)
        self.folder = try TemporaryFolder()
        self.outside = SimulatedProcess("outside", pid: 2, scheduler: scheduler)
    }

    /// The names of the apps.
    var apps: [String] { self.simulatedApps.map(\.name) }

    /// The number of writes of each master.
    var writes: [Int] { self.masters.map(\.writes) }

    /// The slots that have data, in the order of their numbers.
    var slots: [Int] {
        Set(self.masters.flatMap { $0.server.model.slots }).sorted()
    }

    /// The time of day outside the fleet, whose clock does not jump, in nanoseconds since 1970.
    static let wallOffset: Int64 = 1_700_000_000_000_000_000

    /// Returns the time since the start of the machine of a time that the providers' clock has shown.
    func machineTime(ofWall nanoseconds: Int64) -> Int64 { nanoseconds - Self.wallOffset }

    /// The keys in Redis of work that is not finished, with the number of elements of each.
    func unfinishedKeys() -> [String] {
        self.masters.flatMap { self.unfinishedKeys(at: $0.server.model) }
    }

    private func unfinishedKeys(at model: RedisModel) -> [String] {
        let now = (self.scheduler.now + Self.wallOffset) / 1_000
        let commands = ["stream": "XLEN", "zset": "ZCARD", "hash": "HLEN"]
        func ask(_ words: String...) -> ModelReply { model.execute(words.map { Array($0.utf8) }, now: now) }
        return model.keys(now: now, where: Self.isOfWork).compactMap { bytes in
            let key = String(decoding: bytes, as: UTF8.self)
            guard let command = commands[ask("TYPE", key).text ?? ""] else { return nil }
            let count = ask(command, key).integer ?? 0
            return count == 0 ? nil : "\(key) (\(count))"
        }
    }

    /// Returns whether a key in Redis is one of work, by the bytes of its name.
    private static func isOfWork(_ key: [UInt8]) -> Bool {
        let name = String(decoding: key[(key.firstIndex(of: UInt8(ascii: "}")).map { $0 + 1 } ?? 0)...], as: UTF8.self)
        return Self.keysOfWork.contains(name) || ["in:", "plan:", "work:", "held:"].contains { name.hasPrefix($0) }
    }

    private static let keysOfWork: Set = [
        "register", "outcomes", "journal", "due", "due:messages",
    ]

    /// The keys in Redis of sends that have ended, which are kept for a time but have none, and the sends that count as open, also of an app.
    func keysKeptForever() -> [String] {
        let now = (self.scheduler.now + Self.wallOffset) / 1_000
        return self.masters.flatMap { master -> [String] in
            func ask(_ words: String...) -> ModelReply {
                master.server.model.execute(words.map { Array($0.utf8) }, now: now)
            }
            return ask("KEYS", "{q*").texts.sorted().filter { key in
                let name = key.split(separator: "}", maxSplits: 1).last.map(String.init) ?? key
                if name == "open_sends" || name.hasPrefix("open:") { return true }
                let isOfSend = Self.keysOfSends.contains { name.hasPrefix($0) }
                return isOfSend && (ask("PTTL", key).integer ?? 0) < 0
            }
        }
    }

    /// The beginnings of the names of keys that belong to sends.
    private static let keysOfSends = [
        "send:", "command:", "sent:", "paced:", "event_counts:", "send_rate:", "idem:", "lost_ends",
    ]

    /// The simulated providers.
    var simulator: Simulator {
        guard let made = self.madeSimulator else { preconditionFailure("the fleet is not set up") }
        return made
    }

    /// The installation, as those outside the fleet reach it.
    var installation: Installation {
        guard let made = self.madeInstallation else { preconditionFailure("the fleet is not set up") }
        return made
    }

    /// The event loop of those outside the fleet.
    var outsideLoop: any EventLoop {
        guard let made = self.madeOutsideLoop else { preconditionFailure("the fleet is not set up") }
        return made
    }

    /// The publisher of sends.
    var publisher: Publisher {
        guard let made = self.madePublisher else { preconditionFailure("the fleet is not set up") }
        return made
    }

    /// The publisher that has mailboxes of its own.
    var namedPublisher: Publisher {
        guard let made = self.madeNamedPublisher else { preconditionFailure("the fleet is not set up") }
        return made
    }

    /// The barrier of those who want a replica to have what they changed.
    var barrier: ReplicaBarrier {
        guard let made = self.madeBarrier else { preconditionFailure("the fleet is not set up") }
        return made
    }

    // MARK: Processes

    /// Creates a process with event loops.
    func process(_ name: String, loops: Int) -> (process: SimulatedProcess, group: SimulatedLoops) {
        self.pids += 1
        let process = SimulatedProcess(name, pid: self.pids, scheduler: self.scheduler)
        self.processes.append(process)
        process.onDeath = { [network = self.network] in network.process(process, hasDied: true) }
        return (process, SimulatedLoops((0..<loops).map { _ in SimulatedLoop(process, self.network) }))
    }

    /// Begins a task of a process.
    func begin(_ process: SimulatedProcess, _ body: @escaping @Sendable () async throws -> Void) {
        self.scheduler.run(for: process) {
            _ = Task.detached {
                do {
                    try await body()
                } catch {
                    self.logger.error("\(process.name) ended: \(error)")
                }
            }
        }
    }

    /// Runs a task of a process to its end.
    func perform<Value: Sendable>(
        _ what: String,
        in process: SimulatedProcess,
        within seconds: Int64 = 60,
        _ body: @escaping @Sendable () async throws -> Value,
    ) throws -> Value {
        let box = PendingResult<Value>()
        self.begin(process) {
            do { box.result = .success(try await body()) } catch { box.result = .failure(error) }
        }
        _ = self.scheduler.run(until: { box.result != nil }, within: seconds * 1_000_000_000)
        guard let result = box.result else { throw SimulationFailure("\(what) has not ended within \(seconds) s") }
        return try result.get()
    }

    private final class PendingResult<Value>: @unchecked Sendable {
        var result: Result<Value, any Error>?
    }

    /// Reads what came into a stream of receipts after an entry; nothing when Redis does not answer.
    ///
    /// - Returns: the receipts, and the last entry that was read.
    func receipts(
        in stream: String,
        on tag: HashTag,
        after cursor: String,
    ) async -> (receipts: [SendReceipt], cursor: String) {
        let command = RedisCommand("XREAD", "STREAMS", .text(stream), .text(cursor))
        let client = self.installation.streams.client
        guard let reply = try? await client.send(command, on: tag, options: .idempotent),
            let entries = reply.root.element(0)?.element(1)?.children
        else { return ([], cursor) }
        let receipts = entries.compactMap { entry in
            entry.element(1)?.element(1)?.bytes.flatMap { try? SendReceipt.decode($0) }
        }
        return (receipts, Array(entries).last?.element(0)?.string ?? cursor)
    }

    // MARK: Setting up

    /// Starts Redis and the providers, and initialises the installation.
    func setUp(_ plan: SimulationPlan) throws {
        self.simulatedApps = Array(Self.allApps.prefix(plan.apps))
        let ports = (0..<plan.masters).map { Self.redisPort + $0 }
        self.cluster = plan.masters > 1 ? ModelCluster(ports: ports) : nil
        for (index, port) in ports.enumerated() { try self.startMaster(index, port) }
        let (providers, providerLoops) = self.process("providers", loops: 1)
        self.providers = providers
        var configuration = SimulatorConfiguration()
        configuration.usesTLS = false
        configuration.controlPort = nil
        configuration.apnsPort = 2_197
        configuration.fcmPort = 2_198
        configuration.webPushPort = 2_199
        configuration.apps = self.simulatedApps
        configuration.apps[0].accountKeyPEM = Vectors.rsaKeyPEM
        let fixed = configuration
        let simulator = try self.perform("the start of the providers", in: providers) {
            try await Simulator.start(fixed, clock: SteadyClock(), on: providerLoops)
        }
        self.madeSimulator = simulator
        try simulator.writeCredentials(to: self.folder.path)
        try self.folder.write(Self.authority, Vectors.authorityPEM)
        try self.folder.write(Self.webhookSecret, String(repeating: "w", count: 32) + "\n")
        try self.writeRecordKeys([Self.recordKey])
        try self.writeConfiguration(plan)
        let (receiver, receiverLoops) = self.process("webhook", loops: 1)
        let (webhook, receiverLoop) = (self.webhook, receiverLoops.any())
        try self.perform("the start of the webhook", in: receiver) { try await webhook.listen(on: receiverLoop) }
        let (outside, loops) = self.process("outside", loops: 1)
        self.outside = outside
        self.madeOutsideLoop = loops.any()
        let (logger, redisURL) = (self.logger, self.redisURL)
        let client = try self.scheduler.run(for: outside) {
            try RedisClient(
                configuration: RedisConfiguration(url: redisURL, clientName: "outside"),
                eventLoopGroup: loops,
                logger: logger
            )
        }
        let mutation = self.mutation
        let installation = try self.perform("apus init", in: outside) {
            try await Installation.initialize(client, keyspace: Keyspace(queueShards: 2, devicePartitions: 4))
            try await mutation?.load(on: client)
            return try await Installation(client, clock: SystemClock())
        }
        if plan.isEncrypted { installation.setRecordKeys([Self.recordKey]) }
        self.madeInstallation = installation
        self.madeBarrier = ReplicaBarrier(client)
        func publisher(_ name: String?) throws -> Publisher {
            try self.perform("the publisher", in: outside) {
                try await Publisher(client.configuration, name: name, eventLoopGroup: loops)
            }
        }
        self.madePublisher = try publisher(nil)
        self.madeNamedPublisher = try publisher(Self.publisherName)
    }

    private func startMaster(_ index: Int, _ port: Int) throws {
        let (process, loops) = self.process("redis", loops: 1)
        let model = RedisModel(seed: self.scheduler.random.next())
        model.cluster = self.cluster.map { ($0, index) }
        model.runID = RedisModel.identity(UInt64(index + 1))
        let master = SimulatedMaster(port: port, process: process, server: ModelServer(model))
        let loop = loops.any()
        let listener = try self.perform("the start of Redis", in: process) {
            try await ModelListener(socketPath: nil, port: port, eventLoop: loop) { master.server }
        }
        self.listeners.append(listener)
        self.masters.append(master)
    }

    /// Starts a service.
    func start(_ service: SimulatedService) -> SimulatedProcess {
        let (process, loops) = self.process(service.rawValue, loops: service == .dispatcher ? 2 : 1)
        let (logger, source) = (self.logger, self.source)
        self.begin(process) {
            let made: any Service
            switch service {
            case .dispatcher:
                let settings = try LiveSettings<DispatcherSettings>(source, for: .dispatcher)
                process.onReload = { _ = settings.reload() }
                let metrics = DispatcherMetrics.self
                made = Dispatcher(ServiceContext(settings, metrics: metrics, eventLoopGroup: loops, logger: logger))
            case .feedback:
                let settings = try LiveSettings<FeedbackSettings>(source, for: .feedback)
                process.onReload = { _ = settings.reload() }
                let metrics = FeedbackMetrics.self
                made = Feedback(ServiceContext(settings, metrics: metrics, eventLoopGroup: loops, logger: logger))
            case .registration:
                let settings = try LiveSettings<RegistrationSettings>(source, for: .registration)
                process.onReload = { _ = settings.reload() }
                let metrics = RegistrationMetrics.self
                made = try Registration(
                    ServiceContext(settings, metrics: metrics, eventLoopGroup: loops, logger: logger)
                )
            }
            let named = ServiceGroupConfiguration.ServiceConfiguration(service: made, serviceName: service.rawValue)
            let group = ServiceGroup(configuration: .init(services: [named], logger: logger))
            process.onStop = { Task.detached { await group.triggerGracefulShutdown() } }
            try await group.run()
            process.hasEnded = true
        }
        return process
    }

    /// Asks the service of a process to stop, as SIGTERM does.
    func stop(_ process: SimulatedProcess) { self.scheduler.run(for: process) { process.onStop() } }

    /// Lets the service of a process read its settings again, as it does when a file of them has changed.
    func reload(_ process: SimulatedProcess) { self.scheduler.run(for: process) { process.onReload() } }

    /// Writes the keys of records, the current one first, and gives them to those outside.
    private func writeRecordKeys(_ keys: [[UInt8]]) throws {
        try self.folder.write(Self.recordKeys, keys.map { Hexadecimal.encode($0) + "\n" }.joined())
        self.madeInstallation?.setRecordKeys(keys)
    }

    /// The steps in which the key of records is exchanged: all services have read one before the next begins.
    enum KeyExchange: CaseIterable {
        /// The new key stands below the current one.
        case learning
        /// The new key is the current one.
        case current
        /// The former key is gone.
        case alone
    }

    /// Takes a step of the exchange of the key of records.
    func exchangeKey(_ step: KeyExchange) throws {
        switch step {
        case .learning: try self.writeRecordKeys([Self.recordKey, Self.newRecordKey])
        case .current: try self.writeRecordKeys([Self.newRecordKey, Self.recordKey])
        case .alone: try self.writeRecordKeys([Self.newRecordKey])
        }
    }

    private var redisURL: String {
        guard self.cluster != nil else { return "redis://127.0.0.1:\(Self.redisPort)" }
        return "redis+cluster://" + self.masters.map { "127.0.0.1:\($0.port)" }.joined(separator: ",")
    }

    private var source: SettingsSource { SettingsSource(file: "\(self.folder.path)/apus.yaml", environment: [:]) }

    /// Writes the configuration that services start with.
    ///
    /// - Parameter hasFCM: false when the routes to Google are taken out.
    func writeConfiguration(_ plan: SimulationPlan, hasFCM: Bool = true) throws {
        let apps = self.simulatedApps.map { self.configuration(of: $0, hasFCM: hasFCM) }
        let leaseSeconds = plan.leaseSeconds
        let keys = plan.isEncrypted ? "store: {encryption_key_file: \"\(self.folder.path)/\(Self.recordKeys)\"}" : ""
        try self.folder.write(
            "apus.yaml",
            """
            redis: {url: "\(self.redisURL)"}
            \(keys)
            dispatcher:
              lease: \(leaseSeconds)s
              removed_route_after: 20s
              \(self.mutation?.dispatcherSetting ?? "")
            feedback:
              lease: \(leaseSeconds)s
              \(plan.events[.misjudge] == nil ? "" : "suspects_min: 1")
              \(plan.hasWebhook ? self.webhookSettings : "")
            registration:
              lease: \(leaseSeconds)s
              janitor_interval: 20s
              listen: "127.0.0.1:\(SimulatedHTTPClient.port)"
              wait_for_replica: true
            publishers: {\(Self.publisherName): {apps: [\(self.apps.joined(separator: ", "))]}}
            apps:
            """ + "\n" + apps.joined(separator: "\n")
        )
    }

    private var webhookSettings: String {
        let url = "http://127.0.0.1:\(SimulatedWebhook.port)/receipts"
        return "webhook: {url: \"\(url)\", secret_file: \"\(self.folder.path)/\(Self.webhookSecret)\", timeout: 2s}"
    }

    private func configuration(of app: SimulatedApp, hasFCM: Bool) -> String {
        let authority = "\(self.folder.path)/\(Self.authority)"
        let google = """
                fcm:
                  project_id: "\(app.projectID ?? "")"
                  service_account_file: "\(self.folder.path)/\(app.name)-service-account.json"
                  base_url: "https://127.0.0.1:2198"
                  ca_file: "\(authority)"
                  ramp: 0s
            """
        return """
              \(app.name):
                auth:
                  api_keys: {backend: {sha256: \(SimulatedHTTPClient.keySHA256), role: admin}}
                apns:
                  team_id: "\(app.teamID)"
                  key_id: "\(app.keyID)"
                  key_file: "\(self.folder.path)/AuthKey_\(app.keyID).p8"
                  topic: "\(app.bundleID ?? "")"
                  host: 127.0.0.1
                  port: 2197
                  ca_file: "\(authority)"
                webpush:
                  key_file: "\(self.folder.path)/\(app.name)-vapid.pem"
                  subject: "mailto:push@apus.example"
                  connect_url: "https://127.0.0.1:2199"
                  ca_file: "\(authority)"
            """ + (hasFCM ? "\n" + google : "")
    }
}

extension ModelReply {
    fileprivate var text: String? {
        switch self {
        case .status(let text): text
        case .bulk(let bytes): String(decoding: bytes, as: UTF8.self)
        default: nil
        }
    }

    fileprivate var texts: [String] { if case .array(let replies) = self { replies.compactMap(\.text) } else { [] } }

    fileprivate var integer: Int64? { if case .integer(let number) = self { number } else { nil } }
}
