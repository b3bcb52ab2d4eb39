internal import ApusCore
internal import ApusRedis
internal import ApusSimulator
internal import ApusTLS
internal import ApusTestKit
internal import NIOCore
internal import NIOPosix

/// The cluster of a demo: an installation of the default sizes and one of each service.
struct DemoEnvironment: Sendable {
    /// The recipients of a route and event loop whose outcomes may be unwritten at once.
    static let window = 200

    /// The options of the demo.
    let options: DemoOptions
    /// The cluster.
    let cluster: LocalCluster
    /// The API key of registration.
    let key: String
    /// The port of registration's API.
    let registrationPort: Int
    /// The services, by name.
    let services: [String: ServiceProcess]

    /// Starts everything and waits until it is ready; after a failure nothing is left.
    static func start(_ options: DemoOptions) async throws -> DemoEnvironment {
        let key = "apus_demo_" + Hexadecimal.encode(SecureRandom.bytes(16))
        var configuration = LocalClusterConfiguration()
        configuration.keyspace = Keyspace()
        if options.masters > 1 {
            configuration.keyspace = Keyspace(queueShards: Keyspace.queueShardsOfCluster)
            configuration.masters = options.masters
            configuration.spares = 1
            configuration.redis.isAppendOnly = true
        }
        configuration.eventLoops = 0
        configuration.keyDigest = Hexadecimal.encode(SHA256.hash(Array(key.utf8)))
        configuration.usesDefaultPorts = await Self.areDefaultPortsFree()
        configuration.simulator.isFast = options.isFast
        configuration.hasWebPush = !options.isFast
        configuration.simulator.deadShare = DeadShare(options.deadShare, seed: options.seed)
        let cluster = try await LocalCluster.start(configuration)
        do {
            let registration = try await cluster.startRegistration()
            let services = [
                "registration": registration.service,
                "dispatcher": try await cluster.startDispatcher(
                    options.masters > 1 ? ["window": "\(Self.window)"] : [:]
                ),
                "feedback": try await cluster.startFeedback(),
            ]
            return DemoEnvironment(
                options: options,
                cluster: cluster,
                key: key,
                registrationPort: registration.port,
                services: services,
            )
        } catch {
            await cluster.stop()
            throw error
        }
    }

    /// The dispatcher's process id.
    var dispatcherID: Int32 { self.services["dispatcher"]?.processID ?? 0 }

    /// The port of the simulator's control listener.
    var controlPort: Int { self.cluster.simulator.addresses.controlPort ?? 0 }

    /// Stops everything, the services in order, so that they finish their work.
    func stop() async {
        // A service that does not stop in order is killed.
        try? await self.cluster.terminate()
        await self.cluster.stop()
    }

    /// Throws when a service has ended by itself.
    func checkIsRunning() throws { for service in self.services.values { try service.checkIsRunning() } }

    /// Returns true when the default ports are free, where dashboards and scrapers of the examples expect the services.
    private static func areDefaultPortsFree() async -> Bool {
        for service in LocalCluster.services {
            let bootstrap = ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            guard let channel = try? await bootstrap.bind(host: "127.0.0.1", port: service.port).get() else {
                return false
            }
            try? await channel.close().get()
        }
        return true
    }
}
