package import ApusCore
package import ApusInstallation
package import ApusRedis
package import ApusSimulator
package import ApusTestKit
internal import FoundationEssentials
internal import Logging
internal import NIOPosix
internal import Synchronization

/// A private redis-server with an installation in it, a simulated Apple and Google, and services as processes of their own:
/// what drills, benchmarks, the demo and the integration tests run in.
///
/// All of it ends with this process, however that ends, and leaves no file behind.
package final class Laboratory: Sendable {
    /// The services, and the standard ports of their admin endpoints.
    package static let services: [(name: String, port: Int)] = [
        ("registration", 9_101), ("dispatcher", 9_102), ("feedback", 9_103),
    ]

    /// How it is set up.
    package let configuration: LaboratoryConfiguration
    /// Redis.
    package let redis: RedisServer
    /// A client of it.
    package let client: RedisClient
    /// What is laid out in it.
    package let installation: Installation
    /// Apple and Google.
    package let simulator: Simulator
    /// The time.
    package let clock = SystemClock()

    private let credentials: SimulatorCredentials
    private let programs: ServicePrograms
    private let crew: Crew

    /// What was started, kept apart so that a start that fails half-way ends it too.
    private final class Crew: Sendable {
        private struct State {
            var services: [ServiceProcess] = []
            var started = 0
            var redis: RedisServer?
            var client: RedisClient?
            var simulator: Simulator?
            var folder: WatchedProcess?
        }

        private let state = Mutex(State())

        func add(_ redis: RedisServer) { self.state.withLock { $0.redis = redis } }
        func add(_ client: RedisClient) { self.state.withLock { $0.client = client } }
        func add(_ simulator: Simulator) { self.state.withLock { $0.simulator = simulator } }
        func add(_ folder: WatchedProcess) { self.state.withLock { $0.folder = folder } }
        func add(_ service: ServiceProcess) { self.state.withLock { $0.services.append(service) } }

        /// The number of the next service.
        func nextNumber() -> Int {
            self.state.withLock { state in
                state.started += 1
                return state.started
            }
        }

        var services: [ServiceProcess] { self.state.withLock { $0.services } }

        /// Ends everything, services first. Idempotent.
        func stop() async {
            let state = self.state.withLock { state in
                defer { state = State() }
                return state
            }
            for service in state.services { await service.kill() }
            await state.simulator?.stop()
            await state.client?.close()
            await state.redis?.stop()
            await state.folder?.end(keepingDirectory: false)
        }
    }

    private init(
        _ configuration: LaboratoryConfiguration,
        redis: RedisServer,
        client: RedisClient,
        installation: Installation,
        simulator: Simulator,
        credentials: SimulatorCredentials,
        programs: ServicePrograms,
        crew: Crew,
    ) {
        self.configuration = configuration
        self.redis = redis
        self.client = client
        self.installation = installation
        self.simulator = simulator
        self.credentials = credentials
        self.programs = programs
        self.crew = crew
    }

    /// Runs `body` in a laboratory of its own; nothing is left afterwards.
    package static func with<Result>(
        _ configuration: LaboratoryConfiguration = LaboratoryConfiguration(),
        _ body: (Laboratory) async throws -> Result,
    ) async throws -> Result {
        let laboratory = try await Self.start(configuration)
        do {
            let result = try await body(laboratory)
            await laboratory.stop()
            return result
        } catch {
            await laboratory.stop()
            throw error
        }
    }

    /// Starts everything but the services; on failure nothing is left.
    package static func start(_ configuration: LaboratoryConfiguration) async throws -> Laboratory {
        let crew = Crew()
        do {
            return try await Self.start(configuration, crew)
        } catch {
            await crew.stop()
            throw error
        }
    }

    private static func start(_ configuration: LaboratoryConfiguration, _ crew: Crew) async throws -> Laboratory {
        let programs = try configuration.programs ?? ServicePrograms.besideThis()
        let root = try TemporaryDirectory.make("apus-lab")
        // It does nothing but take the folder away with us.
        crew.add(try await WatchedProcess(["/bin/sleep", "infinity"], directory: root))
        let redis = try await RedisServer.start(configuration.redis)
        crew.add(redis)
        let client = try RedisClient(
            configuration: RedisConfiguration(url: redis.url, clientName: "apus-laboratory"),
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "laboratory") { _ in SwiftLogNoOpLogHandler() },
        )
        crew.add(client)
        try await Installation.initialize(client, keyspace: configuration.keyspace)
        let simulator = try await Self.startSimulator(configuration.simulator)
        crew.add(simulator)
        return Laboratory(
            configuration,
            redis: redis,
            client: client,
            installation: try await Installation(client, clock: SystemClock()),
            simulator: simulator,
            credentials: try simulator.writeCredentials(to: root),
            programs: programs,
            crew: crew,
        )
    }

    /// Another process may take a port between our look and the simulator's.
    private static func startSimulator(_ configuration: SimulatorConfiguration) async throws -> Simulator {
        var configuration = configuration
        for _ in 0..<10 {
            configuration.apnsPort = try FreePort.find()
            configuration.fcmPort = try FreePort.find()
            if let simulator = try? await Simulator.start(configuration) { return simulator }
        }
        return try await Simulator.start(configuration)
    }

    /// Ends everything at once. Idempotent; not ended by cancellation.
    package func stop() async { await self.crew.stop() }

    /// The folder of it all.
    package var folder: String { self.credentials.folder }

    // MARK: Services

    /// Starts a service and waits until it is ready.
    ///
    /// - Parameters:
    ///   - name: `dispatcher`, `feedback` or `registration`.
    ///   - settings: what is not standard.
    ///   - apple: in Apple's place.
    ///   - certificate: the file of a client certificate for Apple with its key; nil: the apps sign with their keys.
    ///   - sandboxPort: of a simulator that stands in for Apple's sandbox; nil: the apps do not use it.
    ///   - broadcastPort: of a simulator that takes the broadcasts; nil: the one that takes the rest does.
    ///   - missing: apps that its configuration leaves out.
    package func start(
        _ name: String,
        _ settings: ServiceSettingsText = [:],
        apple: ServiceConfiguration.AppleStandIn? = nil,
        certificate: String? = nil,
        sandboxPort: Int? = nil,
        broadcastPort: Int? = nil,
        missing: Set<String> = [],
    ) async throws -> ServiceProcess {
        var services = ServiceConfiguration(
            redisURL: self.redis.url,
            credentials: self.credentials,
            addresses: self.simulator.addresses,
        )
        services.eventLoops = self.configuration.eventLoops
        services.logLevel = self.configuration.logLevel
        services.keyDigest = self.configuration.keyDigest
        services.identitySecretFile = self.configuration.identitySecretFile
        services.traceEndpoint = self.configuration.traceEndpoint
        services.traceCAFile = self.configuration.traceCAFile
        services.apple = apple
        services.appleCertificate = certificate
        services.sandboxPort = sandboxPort
        services.broadcastPort = broadcastPort
        services.credentials.apps.removeAll { missing.contains($0.app.name) }
        services.rates = self.configuration.rates
        let standard = Self.services.first { $0.name == name }?.port ?? 0
        let service = try await ServiceProcess.start(
            name,
            program: self.programs.path("apus-\(name)"),
            directory: "\(self.folder)/\(name)-\(self.crew.nextNumber())",
            configuration: services.yaml(name, settings),
            adminPort: self.configuration.usesStandardPorts ? standard : 0,
        )
        self.crew.add(service)
        return service
    }

    /// Starts a dispatcher.
    package func startDispatcher(
        _ settings: ServiceSettingsText = [:],
        apple: ServiceConfiguration.AppleStandIn? = nil,
    ) async throws -> ServiceProcess {
        try await self.start("dispatcher", settings, apple: apple)
    }

    /// Starts a feedback.
    package func startFeedback(_ settings: ServiceSettingsText = [:]) async throws -> ServiceProcess {
        try await self.start("feedback", settings)
    }

    /// Starts a registration; the port of its API stands beside it.
    package func startRegistration(
        _ settings: ServiceSettingsText = [:]
    ) async throws -> (service: ServiceProcess, port: Int) {
        let file = "\(self.folder)/registration-\(self.crew.nextNumber()).port"
        let listening = ["listen": "127.0.0.1:0", "port_file": file]
        let service = try await self.start("registration", settings.merging(listening) { given, _ in given })
        return (service, ServiceProcess.port(in: file))
    }

    /// Services that run.
    package var running: [ServiceProcess] { self.crew.services.filter(\.isRunning) }

    /// Asks every service that runs to end, and waits until they have; dispatchers before feedback.
    package func terminate() async throws {
        for service in self.running where service.name != "feedback" { try await service.terminate() }
        for service in self.running { try await service.terminate() }
    }
}
