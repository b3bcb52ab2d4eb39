internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusRedis
internal import ApusSimulator
internal import ApusStreams
internal import ApusTestKit

extension Benchmark {
    static let scaling = Benchmark(
        "scaling",
        "Processor time of Redis for a million notifications on 1, 3 and 6 masters, and of 1 and 4 dispatchers: the worst ratio to one.",
        figure: "worst_ratio",
        bar: 1.10,
    ) { run in
        var figures: [String: Double] = [:]
        for masters in [1, 3, 6] {
            run.say("\(masters) masters, one dispatcher")
            let used = try await Scaling.measure(masters: masters, dispatchers: 1, run)
            figures["redis_cpu_seconds_per_million_\(masters)"] = used.redis.reduce(0, +)
            figures["redis_idle_cores_\(masters)"] = used.idleRedis
            figures["redis_idle_share_\(masters)"] = used.idleRedis / used.perSecond * 1e6 / used.redis.reduce(0, +)
            figures["dispatcher_cpu_seconds_per_million_\(masters)_masters"] = used.dispatchers
            figures["accepted_per_second_\(masters)"] = used.perSecond
            // As a multiple of an equal share.
            let largest = (used.redis.max() ?? 0) / used.redis.reduce(0, +) * Double(masters)
            if masters > 1 { figures["largest_share_\(masters)"] = largest }
        }
        run.say("one master, four dispatchers")
        let four = try await Scaling.measure(masters: 1, dispatchers: 4, run)
        let one = figures["dispatcher_cpu_seconds_per_million_1_masters"] ?? 0
        figures["dispatcher_cpu_seconds_per_million_4_dispatchers"] = four.dispatchers
        figures["dispatcher_idle_cores_4_dispatchers"] = four.idleDispatchers
        figures["dispatchers_4_over_1"] = four.dispatchers / one
        for masters in [3, 6] {
            figures["redis_\(masters)_over_1"] =
                (figures["redis_cpu_seconds_per_million_\(masters)"] ?? 0)
                / (figures["redis_cpu_seconds_per_million_1"] ?? 1)
        }
        let ratios = ["redis_3_over_1", "redis_6_over_1", "largest_share_3", "largest_share_6", "dispatchers_4_over_1"]
        figures["worst_ratio"] = ratios.compactMap { figures[$0] }.max() ?? 0
        return figures
    }
}

/// Measures a fleet of some masters and dispatchers.
private enum Scaling {
    /// The devices of the audience. Each queue shard is the home of one send to all of them, 12 million notifications in all: a chunk of the
    /// store has as many of them as in a large fan-out, and what is done whatever is sent weighs little.
    private static let devices = 200_000
    private static let topic = "news"
    /// The time for which nothing is sent, to measure what is done whatever is sent.
    private static let idleTime = Duration.seconds(10)
    /// The longest time of a send.
    private static let patience = Duration.seconds(1_800)

    /// The processor seconds for a million notifications.
    struct Used {
        /// The processor seconds of each master.
        var redis: [Double]
        /// The processor seconds of all dispatchers together.
        var dispatchers: Double
        /// The processor seconds of all masters in a second in which nothing is sent. They are part of `redis`.
        var idleRedis: Double
        /// The same of all dispatchers.
        var idleDispatchers: Double
        /// The notifications a second.
        var perSecond: Double
    }

    static func measure(masters: Int, dispatchers count: Int, _ run: BenchmarkRun) async throws -> Used {
        var configuration = LocalClusterConfiguration()
        configuration.simulator.isFast = true
        configuration.simulator.keepsLongTokens = false
        configuration.keyspace = Keyspace(queueShards: Keyspace.queueShardsOfCluster)
        configuration.masters = masters
        configuration.replicas = 0
        // Redis' own default: no master fails here, and with a second more than half of an idle master's time would go into pings.
        configuration.nodeTimeoutMilliseconds = 15_000
        // One master is reached in the same way as several.
        configuration.spares = masters == 1 ? 1 : 0
        let devices = run.devices ?? Self.devices
        return try await LocalCluster.with(configuration) { cluster in
            guard let redis = cluster.redisCluster else { throw LocalClusterError("Redis is one server") }
            _ = try await cluster.register(devices, providers: [.apns], topics: { _ in [Self.topic] })
            let feedback = try await cluster.startFeedback()
            var services: [ServiceProcess] = []
            for _ in 0..<count { services.append(try await cluster.startDispatcher()) }
            let sends = Self.sends(over: cluster.installation.keyspace)
            // The first sends open connections and fill caches.
            for send in sends.prefix(6) { try await cluster.send(.topic(Self.topic), id: "warm-\(send)") }
            for send in sends.prefix(6) { _ = try await cluster.completion(of: "warm-\(send)", timeout: .seconds(600)) }

            func seconds(_ processes: [Int32?]) -> [Double] {
                processes.map { $0.flatMap { ProcessStatistics.processorSeconds(of: $0) } ?? 0 }
            }
            let servers = redis.masters.map(\.processID)
            let (idleBefore, ownIdleBefore) = (seconds(servers), seconds(services.map(\.processID)))
            let idleStart = ContinuousClock.now
            try await Task.sleep(for: Self.idleTime)
            let idle = (ContinuousClock.now - idleStart) / .seconds(1)
            let idleRedis = (seconds(servers).reduce(0, +) - idleBefore.reduce(0, +)) / idle
            let idleDispatchers = (seconds(services.map(\.processID)).reduce(0, +) - ownIdleBefore.reduce(0, +)) / idle
            let (before, ownBefore) = (seconds(servers), seconds(services.map(\.processID)))
            let start = ContinuousClock.now
            for send in sends { try await cluster.send(.topic(Self.topic), id: send) }
            var accepted = 0
            for send in sends {
                let ledger = try await cluster.completion(of: send, timeout: Self.patience)
                accepted += Int(ledger.total(.accepted))
            }
            let duration = (ContinuousClock.now - start) / .seconds(1)
            let (after, ownAfter) = (seconds(servers), seconds(services.map(\.processID)))
            for service in services { try await service.terminate() }
            try await feedback.terminate()
            guard accepted == devices * sends.count else {
                throw LocalClusterError("\(accepted) of \(devices * sends.count) were accepted")
            }
            let millions = Double(accepted) / 1e6
            return Used(
                redis: zip(after, before).map { ($0 - $1) / millions },
                dispatchers: (ownAfter.reduce(0, +) - ownBefore.reduce(0, +)) / millions,
                idleRedis: idleRedis,
                idleDispatchers: idleDispatchers,
                perSecond: Double(accepted) / duration,
            )
        }
    }

    /// Returns one id for each queue shard, which is its home.
    private static func sends(over keyspace: Keyspace) -> [String] {
        var sends = [String?](repeating: nil, count: keyspace.queueShards)
        var number = 0
        while sends.contains(where: { $0 == nil }) {
            let id = "scaling-\(number)"
            let home = keyspace.shard(app: LocalCluster.app, id: id)
            if sends[home] == nil { sends[home] = id }
            number += 1
        }
        return sends.compactMap(\.self)
    }
}
