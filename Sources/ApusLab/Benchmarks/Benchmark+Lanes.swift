internal import ApusCore
internal import ApusMessages
internal import ApusPublisher
internal import ApusSimulator
internal import ApusStreams
internal import ApusTestKit

extension Benchmark {
    /// The express sends per second: enough for a 99th percentile, too few to be a load.
    private static let expressRate = 200.0
    private static let seconds = 10
    /// The event loops of the simulator: like many servers, one connection's requests must not delay another's.
    private static let providerLoops = 8

    static let lanes = Benchmark(
        "lanes",
        "The 99th percentile of express sends under a bulk send to a million, against their idle value.",
        figure: "p99_ratio",
        bar: 3,
    ) { run in
        try await Self.expressUnderBulk(run.devices ?? 1_000_000, [.apns, .fcm])
    }

    static let browsers = Benchmark(
        "browsers",
        "The 99th percentile of express sends to phones under a send to 100,000 browsers, against their idle value.",
        figure: "p99_ratio",
        bar: 1.5,
    ) { run in
        try await Self.expressUnderBulk(run.devices ?? 100_000, [.webpush])
    }

    /// Measures express sends to phones, first alone and then under a bulk send to devices of other providers.
    private static func expressUnderBulk(_ devices: Int, _ providers: [Provider]) async throws -> [String: Double] {
        var configuration = LocalClusterConfiguration()
        configuration.hasWebPush = providers.contains(.webpush)
        configuration.simulator.isFast = true
        configuration.simulator.keepsLongTokens = false
        configuration.simulator.eventLoops = Self.providerLoops
        return try await LocalCluster.with(configuration) { cluster in
            _ = try await cluster.register(devices, providers: providers, topics: { _ in ["bulk"] })
            let feedback = try await cluster.startFeedback()
            let dispatcher = try await cluster.startDispatcher()
            let publisher = try await Publisher(redis: cluster.redisURL)
            do {
                _ = try await Self.express(cluster, publisher, "warm", seconds: 3)
                let calm = try await Self.express(cluster, publisher, "idle", seconds: Self.seconds)
                let idle = try await Self.latencies(of: calm, in: cluster)
                try await cluster.send(.topic("bulk"), id: "bulk")
                try await eventually("the bulk send is on its way") {
                    cluster.simulator.ledger.snapshot.timeline.accepted(from: 0) > devices / 50
                }
                // Only sends that are published during the bulk send count.
                let loaded = try await Self.express(cluster, publisher, "busy", seconds: Self.seconds) {
                    cluster.simulator.ledger.snapshot.timeline.accepted(from: 0) > devices * 9 / 10
                }
                let ledger = try await cluster.completion(of: "bulk", timeout: .seconds(1_800))
                let busy = try await Self.latencies(of: loaded, in: cluster)
                await publisher.close()
                try await dispatcher.terminate()
                try await feedback.terminate()
                var figures = [
                    "bulk_accepted": Double(ledger.total(.accepted)),
                    "lost": Double(ledger.planned - ledger.total(.accepted)) + Double(idle.missing + busy.missing),
                    "express_sends_under_bulk": Double(busy.latency.count),
                ]
                for (name, value) in [("p50", 50.0), ("p99", 99.0)] {
                    let before = idle.latency.milliseconds(percentile: value) ?? 0
                    let under = busy.latency.milliseconds(percentile: value) ?? .infinity
                    figures["idle_\(name)_ms"] = before
                    figures["bulk_\(name)_ms"] = under
                    figures["\(name)_ratio"] = under / before
                }
                return figures
            } catch {
                await publisher.close()
                throw error
            }
        }
    }

    /// Publishes single sends at a constant rate.
    ///
    /// - Parameter isOver: returns true to stop before all are sent; called every second.
    private static func express(
        _ cluster: LocalCluster,
        _ publisher: Publisher,
        _ name: String,
        seconds: Int,
        isOver: () async throws -> Bool = { false },
    ) async throws -> [OpenLoopPublisher.Publication] {
        var publications: [OpenLoopPublisher.Publication] = []
        for second in 0..<seconds {
            if try await isOver() { break }
            let plan = LoadPlan(ratePerSecond: Self.expressRate, warmUp: 0, measured: Int(Self.expressRate))
            let test = OpenLoopPublisher(plan, publisher: publisher, lane: .express, clock: cluster.clock) { index in
                var generator = SeededGenerator(seed: UInt64(second * 100_000 + index))
                let address = Address(provider: .apns, token: SampleToken.apple(&generator))
                return cluster.command(.addresses([address]), id: "\(name)-\(second)-\(index)")
            }
            publications += try await test.run()
        }
        return publications
    }

    /// Returns the latencies from the scheduled time to the acceptance, and the number of sends that were never accepted.
    private static func latencies(
        of publications: [OpenLoopPublisher.Publication],
        in cluster: LocalCluster,
    ) async throws -> (latency: LatencySummary, missing: Int) {
        var firsts = cluster.simulator.ledger.snapshot.firstAcceptances
        for _ in 0..<20 where publications.contains(where: { firsts[$0.send] == nil }) {
            try await Task.sleep(for: .milliseconds(500))
            firsts = cluster.simulator.ledger.snapshot.firstAcceptances
        }
        var latency = LatencySummary()
        for publication in publications {
            guard let first = firsts[publication.send] else { continue }
            latency.record(nanoseconds: first - publication.dueNanoseconds)
        }
        return (latency, publications.count - latency.count)
    }
}
