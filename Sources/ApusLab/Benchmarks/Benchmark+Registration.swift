internal import ApusCore
internal import ApusPublisher
internal import ApusTestKit
internal import NIOPosix

extension Benchmark {
    /// The maximum 99th percentile of a sustained rate, in milliseconds.
    private static let sustainedRegistrationMilliseconds = 100.0

    /// The lines of the import.
    private static let importedDevices = 100_000

    static let registration = Benchmark(
        "registration",
        "New devices per second over HTTP, by import and by stream, and how long each of 500 per second took to be in the store.",
        figure: "http_p99_ms",
        bar: 5,
    ) { run in
        var order = ScenarioOptions(.register)
        order.seed = run.seed
        order.seconds = 5
        order.warmUpSeconds = 1
        let result = try await ScenarioRunner.measure(order, say: run.say)
        guard result.problems.isEmpty else { throw LocalClusterError(result.problems.joined(separator: "; ")) }
        let search = try await ScenarioRunner.search(
            order,
            latencyMillisecondsMax: Self.sustainedRegistrationMilliseconds,
            say: run.say,
        )
        run.say("by import")
        let imported = try await LoadEnvironment.with(order, say: run.say) { environment in
            try await environment.importDevices(Self.importedDevices)
        }
        run.say("by stream")
        let plan = order.plan
        let stream = try await LocalCluster.with { cluster in
            _ = try await cluster.startRegistration()
            let publisher = try await Publisher(
                redis: cluster.redisURL,
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            )
            do {
                let found = try await RegisterStreamLoad(cluster: cluster, publisher: publisher).run(plan)
                await publisher.close()
                try await cluster.terminate()
                return found
            } catch {
                await publisher.close()
                throw error
            }
        }
        return [
            "lost": Double(result.lost + stream.lost + imported.lost),
            "import_per_second": imported.ratePerSecond,
            "import_cpu_seconds_per_million": imported.secondsPerMillion(LoadProcess.registration) ?? 0,
            "import_redis_cpu_seconds_per_million": imported.secondsPerMillion(LoadProcess.redis) ?? 0,
            "redis_cpu_seconds_per_million": result.secondsPerMillion(LoadProcess.redis) ?? 0,
            "http_sustained_per_second": search.search.knee ?? 0,
            "http_p50_ms": result.latency.milliseconds(percentile: 50) ?? .infinity,
            "http_p99_ms": result.latency.milliseconds(percentile: 99) ?? .infinity,
            "stream_per_second": stream.ratePerSecond,
            "stream_p50_ms": stream.latency.milliseconds(percentile: 50) ?? .infinity,
            "stream_p99_ms": stream.latency.milliseconds(percentile: 99) ?? .infinity,
            "stream_late_p99_ms": stream.lateness.milliseconds(percentile: 99) ?? .infinity,
            "registration_cpu_seconds_per_million": result.secondsPerMillion(LoadProcess.registration) ?? 0,
        ]
    }
}
