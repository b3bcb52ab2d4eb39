internal import ApusCore

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
}
