internal import ApusCore
internal import ApusInstallation
internal import ApusPublisher
internal import ApusRedis
internal import ApusSimulator
internal import ApusTLS
internal import ApusTerminal
internal import ApusTestKit
internal import NIOPosix

/// A cluster of real processes in which a scenario runs any number of times.
struct LoadEnvironment: Sendable {
    /// The topic of every device.
    static let topic = "news"
    private static let pollInterval = Duration.milliseconds(100)

    let cluster: LocalCluster
    let publisher: Publisher
    /// The devices that are in the store before the scenario begins.
    let devices: [SampleDevice]
    let services: [String: ServiceProcess]
    /// The port and the API key of registration; nil when it does not run.
    let registration: (port: Int, key: String)?
    /// The bytes of Redis's memory for each of ``devices``; nil when there are none.
    let redisBytesPerDevice: Double?
    let say: @Sendable (String) -> Void

    /// Starts a cluster, runs `body` in it, and stops everything.
    static func with<Result>(
        _ order: ScenarioOptions,
        say: @escaping @Sendable (String) -> Void,
        _ body: (LoadEnvironment) async throws -> Result,
    ) async throws -> Result {
        precondition(order.scenario != .memory, "a store alone needs no environment: see StoreMemory")
        let key = "apus_load_" + Hexadecimal.encode(SecureRandom.bytes(16))
        var configuration = LocalClusterConfiguration()
        configuration.simulator.isFast = true
        configuration.simulator.keepsLongTokens = false
        configuration.keyDigest = Hexadecimal.encode(SHA256.hash(Array(key.utf8)))
        return try await LocalCluster.with(configuration) { cluster in
            let publisher = try await Publisher(
                redis: cluster.redisURL,
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            )
            do {
                let environment = try await Self.assemble(order, cluster, publisher, key: key, say: say)
                let result = try await body(environment)
                await publisher.close()
                try await cluster.terminate()
                return result
            } catch {
                await publisher.close()
                throw error
            }
        }
    }

    private static func assemble(
        _ order: ScenarioOptions,
        _ cluster: LocalCluster,
        _ publisher: Publisher,
        key: String,
        say: @escaping @Sendable (String) -> Void,
    ) async throws -> LoadEnvironment {
        guard order.scenario != .register else {
            let (service, port) = try await cluster.startRegistration()
            return LoadEnvironment(
                cluster: cluster,
                publisher: publisher,
                devices: [],
                services: [LoadProcess.registration: service],
                registration: (port, key),
                redisBytesPerDevice: nil,
                say: say,
            )
        }
        say("filling the store with \(order.devices) devices")
        let before = try await cluster.redisBytes()
        let scenario = order.scenario
        let devices = try await cluster.register(
            order.devices,
            providers: scenario.providers,
            topics: { _ in [Self.topic] },
            user: { scenario == .users ? Self.user(ofDevice: $0, scenario) : "" },
        )
        let bytes = try await cluster.redisBytes() - before
        return LoadEnvironment(
            cluster: cluster,
            publisher: publisher,
            devices: devices,
            services: [
                LoadProcess.feedback: try await cluster.startFeedback(),
                LoadProcess.dispatcher: try await cluster.startDispatcher(),
            ],
            registration: nil,
            redisBytesPerDevice: Double(bytes) / Double(order.devices),
            say: say,
        )
    }

    /// Returns the user of a device, by its position in the store.
    static func user(ofDevice index: Int, _ scenario: LoadScenario) -> String {
        "user-\(index / scenario.devicesPerSend)"
    }

    /// Runs a scenario.
    ///
    /// - Parameter number: the number of the run in this environment, from 0, which is part of the names of its sends.
    func perform(_ order: ScenarioOptions, number: Int) async throws -> LoadResult {
        self.say("\(NumberText.json(order.ratePerSecond, 1).text) \(order.scenario.unit) per second")
        self.cluster.simulator.reset()
        var result = LoadResult(order)
        result.redisBytesPerDevice = self.redisBytesPerDevice
        let meter = ProcessSampler(
            processes: self.processes,
            simulator: self.cluster.simulator,
            clock: self.cluster.clock,
        )
        let sampling = Task { await meter.run() }
        defer { sampling.cancel() }
        let burden = order.saturatesSink ? try await SinkSaturator.start(on: self.cluster.simulator) : nil
        defer { burden?.stop() }
        let span: LoadSpan
        if let registration = self.registration {
            span = try await self.register(order, number: number, registration, &result)
        } else {
            span = try await self.send(order, number: number, &result)
        }
        let last = await meter.sample()
        sampling.cancel()
        let samples = await sampling.value + (last.map { [$0] } ?? [])
        result.usage = ResourceUsage(samples, from: span.begin, to: span.done)
        result.usage.sinkShare = ResourceUsage(samples, from: span.begin, to: span.end).sinkShare
        for service in self.services.values { try service.checkIsRunning() }
        return result
    }

    /// The process identifiers of services and Redis, by name.
    var processes: [String: Int32] {
        var processes = self.services.mapValues(\.processID)
        processes[LoadProcess.redis] = self.cluster.redis.processID
        return processes
    }

    /// Waits until no unfinished work is left in Redis.
    ///
    /// - Returns: false when work is left after that time.
    func waitUntilDone(within patience: Double) async throws -> Bool {
        let deadline = ContinuousClock.now + .seconds(patience)
        // One look reads one key after the other: what moves from a key that is still to be read to one that was read is not seen.
        var emptyLooks = 0
        while emptyLooks < 3 {
            emptyLooks = try await self.cluster.unfinishedEntries().isEmpty ? emptyLooks + 1 : 0
            guard ContinuousClock.now < deadline else { return false }
            try await Task.sleep(for: Self.pollInterval)
        }
        return true
    }
}

/// The times of the measured part, in nanoseconds since 1970.
struct LoadSpan: Hashable, Sendable {
    /// The first scheduled time.
    var begin: Int64
    /// The last scheduled time or acceptance, whichever was later.
    var end: Int64
    /// The time at which all work was done.
    var done: Int64
}

extension LocalCluster {
    /// Returns the bytes of memory that Redis has allocated.
    package func redisBytes() async throws -> Int64 {
        try await self.client.usedBytes(self.installation.keyspace.tag(shard: 0))
    }
}
