internal import ApusCore
internal import ApusLoadTest
internal import ApusRedis
internal import ApusSimulator
internal import ApusTLS
internal import NIOCore
internal import NIOPosix

/// What a demo runs in: a laboratory with an installation of the usual sizes and one of each service.
struct DemoStage: Sendable {
    /// The options that it was started with.
    let options: DemoOptions
    /// All of it.
    let laboratory: Laboratory
    /// The API key of registration.
    let key: String
    /// The port of registration's API.
    let registrationPort: Int
    /// The services, by name.
    let services: [String: ServiceProcess]

    /// Starts everything and waits until it is ready; on failure nothing is left.
    static func start(_ options: DemoOptions) async throws -> DemoStage {
        let key = "apus_demo_" + Hexadecimal.encode(SecureRandom.bytes(16))
        var configuration = LaboratoryConfiguration()
        configuration.keyspace = Keyspace()
        configuration.eventLoops = 0
        configuration.keyDigest = Hexadecimal.encode(SHA256.hash(Array(key.utf8)))
        configuration.usesStandardPorts = await Self.areStandardPortsFree()
        configuration.simulator.isBlind = options.isBlind
        configuration.simulator.deadShare = DeadShare(options.deadShare, seed: options.seed)
        let laboratory = try await Laboratory.start(configuration)
        do {
            let registration = try await laboratory.startRegistration()
            let services = [
                "registration": registration.service,
                "dispatcher": try await laboratory.startDispatcher(),
                "feedback": try await laboratory.startFeedback(),
            ]
            return DemoStage(
                options: options,
                laboratory: laboratory,
                key: key,
                registrationPort: registration.port,
                services: services,
            )
        } catch {
            await laboratory.stop()
            throw error
        }
    }

    /// The dispatcher's process id.
    var dispatcherID: Int32 { self.services["dispatcher"]?.processID ?? 0 }

    /// The port of the simulator's control listener.
    var controlPort: Int { self.laboratory.simulator.addresses.controlPort ?? 0 }

    /// Ends everything: services in order, so that they finish what they have in hand.
    func stop() async {
        // One that does not end in order is killed.
        try? await self.laboratory.terminate()
        await self.laboratory.stop()
    }

    /// Complains when a service has ended by itself.
    func checkIsRunning() throws { for service in self.services.values { try service.checkIsRunning() } }

    /// Whether dashboards and scrapers find the services where the examples look for them.
    private static func areStandardPortsFree() async -> Bool {
        for service in Laboratory.services {
            let bootstrap = ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            guard let channel = try? await bootstrap.bind(host: "127.0.0.1", port: service.port).get() else {
                return false
            }
            try? await channel.close().get()
        }
        return true
    }
}
