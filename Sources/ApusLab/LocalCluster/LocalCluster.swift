package import ApusCore
package import ApusInstallation
package import ApusRedis
package import ApusSimulator
package import ApusTestKit
internal import FoundationEssentials
internal import Logging
internal import NIOPosix
internal import Synchronization

/// Runs a private redis-server with an installation, simulated providers, and the services as processes of their own. Drills,
/// benchmarks, the demo and the integration tests run in it.
///
/// All of it ends with this process, however that ends, and leaves no file behind.
package final class LocalCluster: Sendable {
    /// The services, and the default ports of their admin endpoints.
    package static let services: [(name: String, port: Int)] = [
        ("registration", 9_101), ("dispatcher", 9_102), ("feedback", 9_103),
    ]

    /// Its configuration.
    package let configuration: LocalClusterConfiguration
    /// Redis.
    package let redis: RedisServer
    /// A client of it.
    package let client: RedisClient
    /// The installation in it.
    package let installation: Installation
    /// Apple and Google.
    package let simulator: Simulator
    /// The time.
    package let clock = SystemClock()

    private let credentials: SimulatorCredentials
    private let programs: ServicePrograms
    private let members: Members

    /// Everything that was started, kept apart so that a start that fails half-way ends it too.
    private final class Members: Sendable {
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
        _ configuration: LocalClusterConfiguration,
        redis: RedisServer,
        client: RedisClient,
        installation: Installation,
        simulator: Simulator,
        credentials: SimulatorCredentials,
        programs: ServicePrograms,
        members: Members,
    ) {
        self.configuration = configuration
        self.redis = redis
        self.client = client
        self.installation = installation
        self.simulator = simulator
        self.credentials = credentials
        self.programs = programs
        self.members = members
    }

    /// Runs `body` in a cluster of its own; nothing is left afterwards.
    package static func with<Result>(
        _ configuration: LocalClusterConfiguration = LocalClusterConfiguration(),
        _ body: (LocalCluster) async throws -> Result,
    ) async throws -> Result {
        let cluster = try await Self.start(configuration)
        do {
            let result = try await body(cluster)
            await cluster.stop()
            return result
        } catch {
            await cluster.stop()
            throw error
        }
    }

    /// Starts everything but the services; on failure nothing is left.
    package static func start(_ configuration: LocalClusterConfiguration) async throws -> LocalCluster {
        let members = Members()
        do {
            return try await Self.start(configuration, members)
        } catch {
            await members.stop()
            throw error
        }
    }

    private static func start(
        _ configuration: LocalClusterConfiguration,
        _ members: Members
    ) async throws -> LocalCluster {
        let programs = try configuration.programs ?? ServicePrograms.besideThis()
        let root = try TemporaryDirectory.make("apus-lab")
        // It does nothing but take the folder away with us.
        members.add(try await WatchedProcess(["/bin/sleep", "infinity"], directory: root))
        let redis = try await RedisServer.start(configuration.redis)
        members.add(redis)
        let client = try RedisClient(
            configuration: RedisConfiguration(url: redis.url, clientName: "apus-cluster"),
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "cluster") { _ in SwiftLogNoOpLogHandler() },
        )
        members.add(client)
        try await Installation.initialize(client, keyspace: configuration.keyspace)
        let simulator = try await Self.startSimulator(configuration.simulator)
        members.add(simulator)
        return LocalCluster(
            configuration,
            redis: redis,
            client: client,
            installation: try await Installation(client, clock: SystemClock()),
            simulator: simulator,
            credentials: try simulator.writeCredentials(to: root),
            programs: programs,
            members: members,
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
    package func stop() async { await self.members.stop() }

    /// The folder of it all.
    package var folder: String { self.credentials.folder }

    // MARK: Services

    /// Starts a service and waits until it is ready.
    ///
    /// - Parameters:
    ///   - name: `dispatcher`, `feedback` or `registration`.
    ///   - settings: settings that differ from the default.
    ///   - apple: in Apple's place.
    ///   - certificate: the file of a client certificate for Apple with its key; nil: the apps sign with their keys.
    ///   - sandboxPort: of a simulator that stands in for Apple's sandbox; nil: the apps do not use it.
    ///   - broadcastPort: of a simulator that takes the broadcasts; nil: the one that takes the rest does.
    ///   - missing: apps that its configuration leaves out.
    ///   - appsWithoutGoogle: apps of which its configuration leaves out Google.
    package func start(
        _ name: String,
        _ settings: ServiceSettingsText = [:],
        apple: ServiceConfiguration.AppleStandIn? = nil,
        certificate: String? = nil,
        sandboxPort: Int? = nil,
        broadcastPort: Int? = nil,
        missing: Set<String> = [],
        appsWithoutGoogle: Set<String> = [],
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
        services.appsWithoutGoogle = appsWithoutGoogle
        services.rates = self.configuration.rates
        let defaultPort = Self.services.first { $0.name == name }?.port ?? 0
        let service = try await ServiceProcess.start(
            name,
            program: self.programs.path("apus-\(name)"),
            directory: "\(self.folder)/\(name)-\(self.members.nextNumber())",
            configuration: services.yaml(name, settings),
            adminPort: self.configuration.usesDefaultPorts ? defaultPort : 0,
        )
        self.members.add(service)
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
        let file = "\(self.folder)/registration-\(self.members.nextNumber()).port"
        let listening = ["listen": "127.0.0.1:0", "port_file": file]
        let service = try await self.start("registration", settings.merging(listening) { given, _ in given })
        return (service, ServiceProcess.port(in: file))
    }

    /// Services that run.
    package var running: [ServiceProcess] { self.members.services.filter(\.isRunning) }

    /// Asks every service that runs to end, and waits until they have; dispatchers before feedback.
    package func terminate() async throws {
        for service in self.running where service.name != "feedback" { try await service.terminate() }
        for service in self.running { try await service.terminate() }
    }
}

/// An error of a cluster: one sentence that also names the cure.
package struct LocalClusterError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The sentence.
    package let description: String

    /// An error.
    package init(_ sentence: String) { self.description = sentence }
}
