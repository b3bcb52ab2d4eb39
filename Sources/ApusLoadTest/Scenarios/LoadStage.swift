internal import ApusCore
internal import ApusInstallation
internal import ApusPublisher
internal import ApusRedis
internal import ApusSimulator
internal import ApusTLS
internal import ApusTestKit
internal import NIOPosix

/// A fleet of real processes that a scenario is performed on, as often as one likes.
struct LoadStage: Sendable {
    /// The topic of every device.
    static let topic = "news"
    private static let pollInterval = Duration.milliseconds(100)

    let laboratory: Laboratory
    let publisher: Publisher
    /// Those that are in the store before it begins.
    let devices: [LaboratoryDevice]
    let services: [String: ServiceProcess]
    /// The port and the API key of registration; nil: it does not run.
    let registration: (port: Int, key: String)?
    /// Bytes of Redis's memory for each of ``devices``; nil: there are none.
    let redisBytesPerDevice: Double?
    let say: @Sendable (String) -> Void

    /// Sets the stage, lets `body` play on it, and ends everything.
    static func with<Result>(
        _ order: LoadOrder,
        say: @escaping @Sendable (String) -> Void,
        _ body: (LoadStage) async throws -> Result,
    ) async throws -> Result {
        precondition(order.scenario != .memory, "a store alone needs no stage: see StoreMemory")
        let key = "apus_load_" + Hexadecimal.encode(SecureRandom.bytes(16))
        var configuration = LaboratoryConfiguration()
        configuration.simulator.isBlind = true
        configuration.simulator.keepsLongTokens = false
        configuration.keyDigest = Hexadecimal.encode(SHA256.hash(Array(key.utf8)))
        return try await Laboratory.with(configuration) { laboratory in
            let publisher = try await Publisher(
                redis: laboratory.redis.url,
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            )
            do {
                let stage = try await Self.assemble(order, laboratory, publisher, key: key, say: say)
                let result = try await body(stage)
                await publisher.close()
                try await laboratory.terminate()
                return result
            } catch {
                await publisher.close()
                throw error
            }
        }
    }

    private static func assemble(
        _ order: LoadOrder,
        _ laboratory: Laboratory,
        _ publisher: Publisher,
        key: String,
        say: @escaping @Sendable (String) -> Void,
    ) async throws -> LoadStage {
        guard order.scenario != .register else {
            let (service, port) = try await laboratory.startRegistration()
            return LoadStage(
                laboratory: laboratory,
                publisher: publisher,
                devices: [],
                services: [LoadProcess.registration: service],
                registration: (port, key),
                redisBytesPerDevice: nil,
                say: say,
            )
        }
        say("filling the store with \(order.devices) devices")
        let before = try await laboratory.redisBytes()
        // Apple's alone, as the limit programs have it.
        let devices = try await laboratory.register(order.devices, providers: [.apns], topics: { _ in [Self.topic] })
        let bytes = try await laboratory.redisBytes() - before
        return LoadStage(
            laboratory: laboratory,
            publisher: publisher,
            devices: devices,
            services: [
                LoadProcess.feedback: try await laboratory.startFeedback(),
                LoadProcess.dispatcher: try await laboratory.startDispatcher(),
            ],
            registration: nil,
            redisBytesPerDevice: Double(bytes) / Double(order.devices),
            say: say,
        )
    }

    /// Performs a scenario.
    ///
    /// - Parameter number: of the performance on this stage, from 0: what it makes has names of its own.
    func perform(_ order: LoadOrder, number: Int) async throws -> LoadResult {
        self.say("\(DrillReport.number(order.ratePerSecond, 1).text) \(order.scenario.unit) per second")
        self.laboratory.simulator.reset()
        var result = LoadResult(order)
        result.redisBytesPerDevice = self.redisBytesPerDevice
        let meter = LoadMeter(
            processes: self.processes,
            simulator: self.laboratory.simulator,
            clock: self.laboratory.clock,
        )
        let sampling = Task { await meter.run() }
        defer { sampling.cancel() }
        let burden = order.saturatesSink ? try await SinkBurden.start(on: self.laboratory.simulator) : nil
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
        result.usage = LoadUsage(samples, from: span.begin, to: span.done)
        result.usage.sinkShare = LoadUsage(samples, from: span.begin, to: span.end).sinkShare
        for service in self.services.values { try service.checkIsRunning() }
        return result
    }

    private var processes: [String: Int32] {
        var processes = self.services.mapValues(\.processID)
        processes[LoadProcess.redis] = self.laboratory.redis.processID
        return processes
    }

    /// Waits until nobody has anything left to do.
    ///
    /// - Returns: false: not within that time.
    func awaitDone(within patience: Double) async throws -> Bool {
        let deadline = ContinuousClock.now + .seconds(patience)
        while try await !self.laboratory.unfinished().isEmpty {
            guard ContinuousClock.now < deadline else { return false }
            try await Task.sleep(for: Self.pollInterval)
        }
        return true
    }
}

/// The times of what is measured, in nanoseconds since 1970.
struct LoadSpan: Hashable, Sendable {
    /// The first was due.
    var begin: Int64
    /// The last was due or accepted, whatever was later.
    var end: Int64
    /// Nothing was left to do.
    var done: Int64
}

extension Laboratory {
    /// Bytes of memory that Redis has allocated.
    package func redisBytes() async throws -> Int64 {
        try await self.client.usedBytes(self.installation.keyspace.tag(shard: 0))
    }
}
