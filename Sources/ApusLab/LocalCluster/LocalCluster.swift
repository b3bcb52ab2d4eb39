package import ApusCore
package import ApusInstallation
package import ApusRedis
package import ApusSimulator
package import ApusTestKit
internal import FoundationEssentials
internal import Logging
internal import NIOPosix
internal import Synchronization

/// Runs a private redis-server, a Redis Cluster of several, or a master and a replica with Sentinels, with an installation, simulated providers, and the services as
/// processes of their own. Drills, benchmarks, the demo and the integration tests run in it.
///
/// Everything ends with this process, however that ends, and leaves no file behind.
package final class LocalCluster: Sendable {
    /// The services, and the default ports of their admin endpoints.
    package static let services: [(name: String, port: Int)] = [
        ("registration", 9_101), ("dispatcher", 9_102), ("feedback", 9_103),
    ]

    /// The configuration of the cluster.
    package let configuration: LocalClusterConfiguration
    /// Redis; of several masters, the first.
    package let redis: RedisServer
    /// The masters and replicas; nil where Redis is one server.
    package let redisCluster: RedisCluster?
    /// The master, its replica and their Sentinels; nil where nobody watches Redis.
    package let redisSentinels: RedisSentinels?
    /// The client of its Redis.
    package let client: RedisClient
    /// The installation in its Redis.
    package let installation: Installation
    /// The simulator of Apple and Google.
    package let simulator: Simulator
    /// The time.
    package let clock = SystemClock()

    private let credentials: SimulatorCredentials
    let programs: ServicePrograms
    private let members: Members

    /// Holds all that was started, apart from the cluster, so that a start that fails half-way stops it too.
    private final class Members: Sendable {
        private struct State {
            var services: [ServiceProcess] = []
            var started = 0
            var redis: RedisServer?
            var redisCluster: RedisCluster?
            var redisSentinels: RedisSentinels?
            var client: RedisClient?
            var simulator: Simulator?
            var folder: WatchedProcess?
        }

        private let state = Mutex(State())

        func add(_ redis: RedisServer) { self.state.withLock { $0.redis = redis } }
        func add(_ cluster: RedisCluster) { self.state.withLock { $0.redisCluster = cluster } }
        func add(_ sentinels: RedisSentinels) { self.state.withLock { $0.redisSentinels = sentinels } }
        func add(_ client: RedisClient) { self.state.withLock { $0.client = client } }
        func add(_ simulator: Simulator) { self.state.withLock { $0.simulator = simulator } }
        func add(_ folder: WatchedProcess) { self.state.withLock { $0.folder = folder } }
        func add(_ service: ServiceProcess) { self.state.withLock { $0.services.append(service) } }

        /// Returns the number of the next service.
        func nextNumber() -> Int {
            self.state.withLock { state in
                state.started += 1
                return state.started
            }
        }

        var services: [ServiceProcess] { self.state.withLock { $0.services } }

        /// Stops everything, services first. May be called twice.
        func stop() async {
            let state = self.state.withLock { state in
                defer { state = State() }
                return state
            }
            for service in state.services { await service.kill() }
            await state.simulator?.stop()
            await state.client?.close()
            await state.redis?.stop()
            await state.redisCluster?.stop()
            await state.redisSentinels?.stop()
            await state.folder?.end(keepingDirectory: false)
        }
    }

    private init(
        _ configuration: LocalClusterConfiguration,
        redis: RedisServer,
        redisCluster: RedisCluster?,
        redisSentinels: RedisSentinels?,
        client: RedisClient,
        installation: Installation,
        simulator: Simulator,
        credentials: SimulatorCredentials,
        programs: ServicePrograms,
        members: Members,
    ) {
        self.configuration = configuration
        self.redis = redis
        self.redisCluster = redisCluster
        self.redisSentinels = redisSentinels
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
            let refused = await cluster.refusedCommands()
            guard refused.isEmpty else {
                throw LocalClusterError(
                    "Redis refused to the services' users: \(refused.sorted().joined(separator: ", "))"
                )
            }
            await cluster.stop()
            return result
        } catch {
            await cluster.stop()
            throw error
        }
    }

    /// Starts everything except the services; after a failure nothing is left.
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
        var configuration = configuration
        if configuration.hasRedisUsers {
            for (service, user) in Self.users {
                let rules = user.line(named: service, password: ">\(configuration.redisPassword)").dropFirst(
                    "user \(service) ".count
                )
                configuration.redis.settings["user \(service)"] = String(rules)
            }
        }
        let programs = try configuration.programs ?? ServicePrograms.besideThis()
        let root = try TemporaryDirectory.make("apus-lab")
        // This process only removes the folder together with us.
        members.add(try await WatchedProcess(["/bin/sleep", "infinity"], directory: root))
        let redis: RedisServer
        var redisCluster: RedisCluster?
        var redisSentinels: RedisSentinels?
        if configuration.hasSentinels {
            precondition(configuration.masters == 1 && configuration.spares == 0)
            // One machine runs everything and may stop a server for seconds. A failover nobody has asked for could choose one without data.
            var options = RedisSentinels.Options()
            options.downAfter = 2 * RedisSentinels.downAfter
            let made = try await RedisSentinels.start(options, servers: configuration.redis)
            members.add(made)
            (redis, redisSentinels) = (made.master, made)
        } else if configuration.masters > 1 || configuration.spares > 0 {
            let made = try await RedisCluster.start(
                masters: configuration.masters,
                replicas: configuration.replicas,
                spares: configuration.spares,
                nodeTimeout: configuration.nodeTimeoutMilliseconds,
                configuration.redis,
            )
            members.add(made)
            (redis, redisCluster) = (made.masters[0], made)
        } else {
            redis = try await RedisServer.start(configuration.redis)
            members.add(redis)
        }
        let client = try Self.client(of: redisCluster?.url ?? redisSentinels?.url ?? redis.url)
        members.add(client)
        try await Installation.initialize(client, keyspace: configuration.keyspace)
        let simulator = try await Self.startSimulator(configuration.simulator)
        members.add(simulator)
        return LocalCluster(
            configuration,
            redis: redis,
            redisCluster: redisCluster,
            redisSentinels: redisSentinels,
            client: client,
            installation: try await Installation(client, clock: SystemClock()),
            simulator: simulator,
            credentials: try simulator.writeCredentials(to: root),
            programs: programs,
            members: members,
        )
    }

    private static func client(of url: String) throws -> RedisClient {
        try RedisClient(
            configuration: RedisConfiguration(url: url, clientName: "apus-cluster"),
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "cluster") { _ in SwiftLogNoOpLogHandler() },
        )
    }

    /// Initializes the installation once more, as `apus init` does: servers that have joined Redis get the functions.
    package func initializeAgain() async throws {
        // A client of its own, as the command has: it learns of the servers anew.
        let client = try Self.client(of: self.redisURL)
        do {
            try await Installation.initialize(client, keyspace: self.configuration.keyspace)
        } catch {
            await client.close()
            throw error
        }
        await client.close()
    }

    /// Starts the simulator again when another process took its port after our check.
    private static func startSimulator(_ configuration: SimulatorConfiguration) async throws -> Simulator {
        var configuration = configuration
        for _ in 0..<10 {
            configuration.apnsPort = try FreePort.find()
            configuration.fcmPort = try FreePort.find()
            if let simulator = try? await Simulator.start(configuration) { return simulator }
        }
        return try await Simulator.start(configuration)
    }

    /// Stops everything at once. May be called twice; cancellation does not end it.
    package func stop() async { await self.members.stop() }

    /// Returns the path of a program beside those of the services.
    ///
    /// - Throws: an error that says how to build it.
    func program(_ name: String) throws(LocalClusterError) -> String {
        let path = self.programs.path(name)
        guard FileManager.default.isExecutableFile(atPath: path) else {
            throw LocalClusterError("\(path) is missing: run Scripts/build-release \(name)")
        }
        return path
    }

    /// The address of Redis.
    package var redisURL: String { self.redisCluster?.url ?? self.redisSentinels?.url ?? self.redis.url }

    /// The users of Redis, by the name of the service.
    static let users: [(service: String, user: RedisUser)] = [
        ("registration", .registration), ("dispatcher", .dispatcher), ("feedback", .feedback),
    ]

    /// Returns the address of Redis for a service, with the service's user if it has one of its own.
    package func redisURL(of service: String) -> String {
        let url = self.redisURL
        guard self.configuration.hasRedisUsers, let end = url.firstRange(of: "://")?.upperBound else { return url }
        return "\(url[..<end])\(service):\(self.configuration.redisPassword)@\(url[end...])"
    }

    /// The folder of the cluster.
    package var folder: String { self.credentials.folder }

    // MARK: Services

    /// Starts a service and waits until it is ready.
    ///
    /// - Parameters:
    ///   - name: `dispatcher`, `feedback` or `registration`.
    ///   - settings: settings that differ from the default.
    ///   - apple: the server in Apple's place.
    ///   - certificate: the file of a client certificate for Apple with its key; nil when the apps sign with their keys.
    ///   - sandboxPort: the port of a simulator for Apple's sandbox; nil when the apps do not use it.
    ///   - broadcastPort: the port of a simulator for broadcasts; nil for the one of other notifications.
    ///   - missing: the apps that its configuration omits.
    ///   - appsWithoutGoogle: the apps of which its configuration omits Google.
    ///   - redisURL: the address of a proxy to Redis; nil for Redis itself.
    ///   - vapidKeys: the places of an app's VAPID keys that its configuration names, the current one first.
    ///   - webPushSettings: settings of `webpush` that differ from those for the simulator.
    package func start(
        _ name: String,
        _ settings: ServiceSettingsText = [:],
        apple: ServiceConfiguration.AppleReplacement? = nil,
        certificate: String? = nil,
        sandboxPort: Int? = nil,
        broadcastPort: Int? = nil,
        missing: Set<String> = [],
        appsWithoutGoogle: Set<String> = [],
        redisURL: String? = nil,
        vapidKeys: [Int] = [0],
        webPushSettings: ServiceSettingsText = [:],
    ) async throws -> ServiceProcess {
        var services = ServiceConfiguration(
            redisURL: redisURL ?? self.redisURL(of: name),
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
        services.hasWebPush = self.configuration.hasWebPush
        services.publishers = self.configuration.publishers
        services.encryptionKeyFile = self.configuration.encryptionKeyFile
        services.vapidKeys = vapidKeys
        services.webPushSettings = webPushSettings
        let defaultPort = Self.services.first { $0.name == name }?.port ?? 0
        let service = try await ServiceProcess.start(
            name,
            program: self.programs.path("apus-\(name)"),
            directory: "\(self.folder)/\(name)-\(self.members.nextNumber())",
            sharedFile: self.configuration.sharedFile,
            configuration: services.yaml(name, settings),
            adminPort: self.configuration.usesDefaultPorts ? defaultPort : 0,
        )
        self.members.add(service)
        return service
    }

    /// Returns the section of an app in a configuration; nil without credentials for it.
    package func section(of app: String) -> String? {
        ServiceConfiguration(
            redisURL: self.redisURL,
            credentials: self.credentials,
            addresses: self.simulator.addresses
        ).section(of: app)
    }

    /// Starts a dispatcher.
    package func startDispatcher(
        _ settings: ServiceSettingsText = [:],
        apple: ServiceConfiguration.AppleReplacement? = nil,
    ) async throws -> ServiceProcess {
        try await self.start("dispatcher", settings, apple: apple)
    }

    /// Starts a feedback service.
    package func startFeedback(_ settings: ServiceSettingsText = [:]) async throws -> ServiceProcess {
        try await self.start("feedback", settings)
    }

    /// Starts a registration service and returns the port of its API, too.
    package func startRegistration(
        _ settings: ServiceSettingsText = [:],
        redisURL: String? = nil,
    ) async throws -> (service: ServiceProcess, port: Int) {
        let file = "\(self.folder)/registration-\(self.members.nextNumber()).port"
        let listening = ["listen": "127.0.0.1:0", "port_file": file]
        let service = try await self.start(
            "registration",
            settings.merging(listening) { given, _ in given },
            redisURL: redisURL
        )
        return (service, ServiceProcess.port(in: file))
    }

    /// The running services.
    package var running: [ServiceProcess] { self.members.services.filter(\.isRunning) }

    /// Stops every running service in order, dispatchers before feedback, and waits until they have ended.
    package func terminate() async throws {
        for service in self.running where service.name != "feedback" { try await service.terminate() }
        for service in self.running { try await service.terminate() }
    }
}

/// Reports an error of a cluster in one sentence that also names the remedy.
package struct LocalClusterError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The error's sentence.
    package let description: String

    /// Creates an error.
    package init(_ sentence: String) { self.description = sentence }
}
