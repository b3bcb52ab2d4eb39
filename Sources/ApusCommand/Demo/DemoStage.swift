internal import ApusCore
internal import ApusInstallation
internal import ApusPublisher
internal import ApusRedis
internal import ApusTLS
internal import ApusTestKit
internal import FoundationEssentials
internal import Glibc
internal import NIOCore
internal import NIOPosix
internal import Synchronization

/// Everything that a demo runs: a private Redis, a simulated Apple and Google, and the three services, each a process of its
/// own.
///
/// All of it ends with this process, however that ends, and leaves no file behind.
final class DemoStage: Sendable {
    /// How long a program may take until it is ready: a loaded machine is slow.
    private static let startPatience = Duration.seconds(60)
    /// How long a service may take to finish after SIGTERM; more than its own drain timeout.
    private static let stopPatience = Duration.seconds(20)

    /// The options that it was started with.
    let options: DemoOptions
    /// Redis.
    let redis: RedisServer
    /// What the simulator wrote.
    let simulator: SimulatorFiles
    /// The API key of registration.
    let key: String
    /// The port of registration's API.
    let registrationPort: Int
    /// Ports of the admin endpoints, by service.
    let adminPorts: [String: Int]
    /// The dispatcher's process id.
    let dispatcherID: Int32
    /// The folder of it all.
    let root: String

    private let crew: Crew

    /// What was started, in order: kept apart, so that a start that fails half-way stops it too.
    private final class Crew: Sendable {
        let redis = Mutex<RedisServer?>(nil)
        let processes = Mutex<[DemoProcess]>([])
        let folder = Mutex<WatchedProcess?>(nil)

        /// Ends everything, services first. Idempotent.
        func stop() async {
            let processes = self.processes.withLock { processes in
                defer { processes = [] }
                return processes
            }
            await withTaskGroup(of: Void.self) { group in
                for process in processes where process.name != DemoStage.simulatorName {
                    group.addTask { await process.stop(within: DemoStage.stopPatience) }
                }
            }
            for process in processes where process.name == DemoStage.simulatorName {
                await process.stop(within: .seconds(5))
            }
            let redis = self.redis.withLock { redis in
                defer { redis = nil }
                return redis
            }
            await redis?.stop()
            let folder = self.folder.withLock { folder in
                defer { folder = nil }
                return folder
            }
            await folder?.end(keepingDirectory: false)
        }
    }

    private static let simulatorName = "simulator"

    private init(
        options: DemoOptions,
        redis: RedisServer,
        simulator: SimulatorFiles,
        key: String,
        registrationPort: Int,
        adminPorts: [String: Int],
        dispatcherID: Int32,
        root: String,
        crew: Crew,
    ) {
        self.options = options
        self.redis = redis
        self.simulator = simulator
        self.key = key
        self.registrationPort = registrationPort
        self.adminPorts = adminPorts
        self.dispatcherID = dispatcherID
        self.root = root
        self.crew = crew
    }

    /// Starts everything and waits until it is ready; on failure nothing is left.
    static func start(_ options: DemoOptions, programs: DemoPrograms) async throws -> DemoStage {
        let crew = Crew()
        do {
            return try await Self.start(options, programs, crew)
        } catch {
            await crew.stop()
            throw error
        }
    }

    private static func start(_ options: DemoOptions, _ programs: DemoPrograms, _ crew: Crew) async throws -> DemoStage
    {
        let root = try TemporaryDirectory.make("apus-demo")
        // It does nothing but take the folder away with us.
        let folder = try await WatchedProcess(["/bin/sleep", "infinity"], directory: root)
        crew.folder.withLock { $0 = folder }

        let redis = try await Self.startRedis()
        crew.redis.withLock { $0 = redis }
        try await RedisAccess.withClient(redis.url) { client in
            try await Installation.initialize(client, keyspace: Keyspace())
        }

        let simulator = try await Self.startSimulator(options, programs, root, crew)
        let key = "apus_demo_" + Hexadecimal.encode(SecureRandom.bytes(16))
        let configuration = DemoConfiguration(
            redisURL: redis.url,
            folder: root,
            simulator: simulator,
            keyDigest: Hexadecimal.encode(SHA256.hash(Array(key.utf8))),
            usesStandardPorts: await Self.areStandardPortsFree(),
        )
        let file = "\(root)/apus.yaml"
        try Data(configuration.yaml.utf8).write(to: URL(filePath: file))
        var dispatcherID: Int32 = 0
        for service in DemoConfiguration.services {
            let program = programs.path("apus-\(service.name)")
            let process = try await DemoProcess(service.name, [program, "--config", file], in: root)
            crew.processes.withLock { $0.append(process) }
            if service.name == "dispatcher" { dispatcherID = process.processID }
        }
        let processes = crew.processes.withLock { $0 }
        var adminPorts: [String: Int] = [:]
        for service in DemoConfiguration.services {
            adminPorts[service.name] = try await Self.port(configuration.adminPortFile(service.name), processes)
        }
        let registrationPort = try await Self.port(configuration.registrationPortFile, processes)
        for (name, port) in adminPorts {
            try await Self.wait("\(name) to be ready", processes) { await Self.isReady(port) }
        }
        return DemoStage(
            options: options,
            redis: redis,
            simulator: simulator,
            key: key,
            registrationPort: registrationPort,
            adminPorts: adminPorts,
            dispatcherID: dispatcherID,
            root: root,
            crew: crew,
        )
    }

    /// Ends everything: services first, so that they finish what they have in hand.
    func stop() async { await self.crew.stop() }

    /// Complains when a program has ended by itself.
    func checkIsRunning() throws { try Self.checkIsRunning(self.crew.processes.withLock { $0 }) }

    // MARK: Parts

    private static func startRedis() async throws -> RedisServer {
        guard Programs.isInstalled("redis-server") else {
            throw CommandFailure("redis-server is not installed: run Scripts/setup run")
        }
        do {
            return try await RedisServer.start()
        } catch {
            throw CommandFailure("the private redis-server did not start: \(error)")
        }
    }

    private static func startSimulator(
        _ options: DemoOptions,
        _ programs: DemoPrograms,
        _ root: String,
        _ crew: Crew,
    ) async throws -> SimulatorFiles {
        let folder = "\(root)/credentials"
        let app = "\(DemoConfiguration.app):example.apus.demo:apus-demo"
        var arguments = [
            programs.path("apus"), "simulate", "--json", "--folder", folder, "--app", app,
            "--dead", "\(options.deadShare)", "--seed", "\(options.seed)",
        ]
        if options.isBlind { arguments.append("--blind") }
        let process = try await DemoProcess(Self.simulatorName, arguments, in: root)
        crew.processes.withLock { $0.append(process) }
        let found = Mutex<SimulatorFiles?>(nil)
        try await Self.wait("the simulator to listen", [process]) {
            guard let data = FileManager.default.contents(atPath: "\(folder)/ports.json") else { return false }
            found.withLock { $0 = SimulatorFiles(json: Array(data)) }
            return found.withLock { $0 != nil }
        }
        guard let files = found.withLock({ $0 }) else { preconditionFailure("it was waited for") }
        return files
    }

    /// Whether dashboards and scrapers find the services where the examples look for them.
    private static func areStandardPortsFree() async -> Bool {
        for service in DemoConfiguration.services {
            let bootstrap = ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            guard let channel = try? await bootstrap.bind(host: "127.0.0.1", port: service.port).get() else {
                return false
            }
            try? await channel.close().get()
        }
        return true
    }

    private static func port(_ file: String, _ processes: [DemoProcess]) async throws -> Int {
        let found = Mutex(0)
        try await Self.wait("\(file) to be written", processes) {
            let text = String(decoding: FileManager.default.contents(atPath: file) ?? Data(), as: UTF8.self)
            guard let port = Int(text.prefix { $0.isNumber }), port > 0 else { return false }
            found.withLock { $0 = port }
            return true
        }
        return found.withLock { $0 }
    }

    private static func isReady(_ port: Int) async -> Bool {
        let group = MultiThreadedEventLoopGroup.singleton
        guard let connection = try? await HTTPConnection.connect(host: "127.0.0.1", port: port, on: group) else {
            return false
        }
        let answer = try? await connection.send(HTTPOrder("GET", "/readyz"))
        await connection.close()
        return answer?.status == 200
    }

    private static func wait(
        _ what: String,
        _ processes: [DemoProcess],
        _ condition: () async -> Bool,
    ) async throws {
        let deadline = ContinuousClock.now + Self.startPatience
        while !(await condition()) {
            try Self.checkIsRunning(processes)
            guard ContinuousClock.now < deadline else {
                let words = processes.map { "\($0.name): \($0.lastWords)" }.joined(separator: "\n")
                throw CommandFailure("waited in vain for \(what). The last lines of the logs:\n\(words)")
            }
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    private static func checkIsRunning(_ processes: [DemoProcess]) throws {
        guard let gone = processes.first(where: { !$0.isRunning }) else { return }
        throw CommandFailure("\(gone.name) ended by itself. The last lines of its log:\n\(gone.lastWords)")
    }
}
