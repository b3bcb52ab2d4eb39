internal import ApusCore
internal import ApusSimulator
internal import ApusTestKit
internal import CSendLimit
internal import NIOPosix

extension Benchmark {
    private static let ratePerSecond = 1_000.0
    /// The maximum 99th percentile of a sustained rate, in milliseconds: beyond it, sends wait in the mailbox.
    private static let sustainedMilliseconds = 100.0

    static let transactional = Benchmark(
        "transactional",
        "From when each of 1,000 sends per second was due until its provider accepted it, and the rate that one dispatcher sustains.",
        figure: "p99_ms",
        bar: 5,
    ) { run in
        var order = ScenarioOptions(.transactional)
        order.ratePerSecond = Self.ratePerSecond
        order.devices = run.devices ?? order.devices
        order.seed = run.seed
        let result = try await ScenarioRunner.measure(order, say: run.say)
        guard result.problems.isEmpty else { throw LocalClusterError(result.problems.joined(separator: "; ")) }
        let users = try await Self.measureUsers(order, run)
        let limit = try await Self.measureLimit(order, run)
        order.seconds = 5
        order.warmUpSeconds = 1
        let search = try await ScenarioRunner.search(
            order,
            latencyMillisecondsMax: Self.sustainedMilliseconds,
            say: run.say,
        )
        if !search.bounds.isEmpty { run.say("above the knee: \(search.bounds.joined(separator: ", "))") }
        var figures = [
            "lost": Double(result.lost), "repeated": Double(result.repeated),
            "sustained_per_second": search.search.knee ?? 0,
            "dispatcher_cpu_seconds_per_million": result.secondsPerMillion(LoadProcess.dispatcher) ?? 0,
            "redis_cpu_seconds_per_million": result.secondsPerMillion(LoadProcess.redis) ?? 0,
            // The limits of the rate are reported as zeros and ones: a saturated simulator or driver is not the dispatcher.
            "sustained_is_bound_by_sink": search.bounds.contains("sink_saturated") ? 1 : 0,
            "sustained_is_bound_by_driver": search.bounds.contains("driver_late") ? 1 : 0,
        ]
        for process in [LoadProcess.dispatcher, LoadProcess.redis] {
            guard let one = result.secondsPerMillion(process), let three = users.secondsPerMillion(process), one > 0
            else { continue }
            figures["users_\(process)_cpu_seconds_per_million"] = three
            figures["users_\(process)_ratio"] = three / one
            guard let least = limit[process], least > 0 else { continue }
            figures["limit_\(process)_cpu_seconds_per_million"] = least
            figures["\(process)_over_limit"] = one / least
        }
        figures["users_p99_ms"] = users.latency.milliseconds(percentile: 99) ?? .infinity
        for percentile in LatencySummary.percentiles {
            figures["\(percentile.name)_ms"] = result.latency.milliseconds(percentile: percentile.value) ?? .infinity
        }
        return figures
    }

    /// Measures as many sends to users, each with three devices of two providers.
    private static func measureUsers(_ order: ScenarioOptions, _ run: BenchmarkRun) async throws -> LoadResult {
        var users = order
        users.scenario = .users
        let result = try await ScenarioRunner.measure(users, say: run.say)
        guard result.problems.isEmpty else { throw LocalClusterError(result.problems.joined(separator: "; ")) }
        return result
    }

    /// Measures what as many sends at the same rate cost at least: three threads of C that do nothing but read, send and acknowledge them.
    ///
    /// - Returns: the processor seconds for a million, by process.
    private static func measureLimit(_ order: ScenarioOptions, _ run: BenchmarkRun) async throws -> [String: Double] {
        var configuration = LocalClusterConfiguration()
        configuration.simulator.isFast = true
        configuration.simulator.keepsLongTokens = false
        return try await LocalCluster.with(configuration) { cluster in
            guard let redis = cluster.redis.processID, let port = cluster.simulator.addresses.ports[.apns],
                let before = ProcessStatistics.processorSeconds(of: redis)
            else { throw LocalClusterError("the servers of the limit do not run") }
            run.say("measuring the limit: three threads of C")
            let count = UInt32(order.ratePerSecond * order.seconds)
            let (socket, authority) = (cluster.redis.socketPath, "\(cluster.folder)/ca.pem")
            let seconds = try await NIOThreadPool.singleton.runIfActive {
                try Self.runLimit(count, order.ratePerSecond, redisSocket: socket, port: port, caFile: authority)
            }
            let after = ProcessStatistics.processorSeconds(of: redis) ?? before
            return [
                LoadProcess.dispatcher: seconds.dispatcher_seconds * 1e6 / Double(count),
                LoadProcess.redis: (after - before) * 1e6 / Double(count),
            ]
        }
    }

    private static func runLimit(
        _ count: UInt32,
        _ ratePerSecond: Double,
        redisSocket: String,
        port: Int,
        caFile: String,
    ) throws(LocalClusterError) -> send_limit_result {
        var result = send_limit_result()
        var problem = [CChar](repeating: 0, count: 256)
        let code = unsafe redisSocket.withCString { socket in
            unsafe caFile.withCString { file in
                var order = unsafe send_limit_order(
                    redis_socket: socket,
                    provider_port: Int32(port),
                    ca_file: file,
                    count: count,
                    per_second: ratePerSecond
                )
                return unsafe send_limit_run(&order, &result, &problem, UInt32(problem.count))
            }
        }
        guard code == 0 else {
            let text = String(decoding: problem.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            throw LocalClusterError("the limit could not be measured: \(text)")
        }
        return result
    }
}
