internal import ApusCore
internal import ApusMessages
internal import ApusPublisher
internal import ApusSimulator
internal import ApusStreams
internal import ApusTestKit

extension Benchmark {
    /// Express sends per second: enough for a 99th percentile, too few to be a load.
    private static let expressRate = 200.0
    private static let seconds = 10
    /// Threads of the simulator: as Apple's and Google's many servers, what takes one connection's requests keeps no other waiting.
    private static let providerLoops = 8

    static let lanes = Benchmark(
        "lanes",
        "The 99th percentile of express sends under a bulk send to a million, against their idle value.",
        figure: "p99_ratio",
        bar: 3,
    ) { run in
        var configuration = LaboratoryConfiguration()
        configuration.simulator.isBlind = true
        configuration.simulator.keepsLongTokens = false
        configuration.simulator.eventLoops = Self.providerLoops
        return try await Laboratory.with(configuration) { laboratory in
            let devices = run.devices ?? 1_000_000
            _ = try await laboratory.register(devices, topics: { _ in ["bulk"] })
            let feedback = try await laboratory.startFeedback()
            let dispatcher = try await laboratory.startDispatcher()
            let publisher = try await Publisher(redis: laboratory.redis.url)
            do {
                _ = try await Self.express(laboratory, publisher, "warm", seconds: 3)
                let calm = try await Self.express(laboratory, publisher, "idle", seconds: Self.seconds)
                let idle = try await Self.latencies(of: calm, in: laboratory)
                try await laboratory.send(.topic("bulk"), id: "bulk")
                try await eventually("the bulk send is on its way") {
                    laboratory.simulator.ledger.snapshot.timeline.accepted(from: 0) > devices / 50
                }
                // Only what is published while the bulk send goes on counts.
                let loaded = try await Self.express(laboratory, publisher, "busy", seconds: Self.seconds) {
                    laboratory.simulator.ledger.snapshot.timeline.accepted(from: 0) > devices * 9 / 10
                }
                let ledger = try await laboratory.completion(of: "bulk", timeout: .seconds(1_800))
                let busy = try await Self.latencies(of: loaded, in: laboratory)
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

    /// Single sends at a constant rate.
    ///
    /// - Parameter isOver: whether it is enough before all are sent; asked every second.
    private static func express(
        _ laboratory: Laboratory,
        _ publisher: Publisher,
        _ name: String,
        seconds: Int,
        isOver: () async throws -> Bool = { false },
    ) async throws -> [LoadTest.Publication] {
        var publications: [LoadTest.Publication] = []
        for second in 0..<seconds {
            if try await isOver() { break }
            let plan = LoadPlan(ratePerSecond: Self.expressRate, warmUp: 0, measured: Int(Self.expressRate))
            let test = LoadTest(plan, publisher: publisher, lane: .express, clock: laboratory.clock) { index in
                var generator = SeededGenerator(seed: UInt64(second * 100_000 + index))
                let address = Address(provider: .apns, token: SampleToken.apple(&generator))
                return laboratory.command(.addresses([address]), id: "\(name)-\(second)-\(index)")
            }
            publications += try await test.run()
        }
        return publications
    }

    /// How long each took from when it was due until a provider accepted it, and how many never were.
    private static func latencies(
        of publications: [LoadTest.Publication],
        in laboratory: Laboratory,
    ) async throws -> (latency: LatencySummary, missing: Int) {
        var firsts = laboratory.simulator.ledger.snapshot.firstAcceptances
        for _ in 0..<20 where publications.contains(where: { firsts[$0.send] == nil }) {
            try await Task.sleep(for: .milliseconds(500))
            firsts = laboratory.simulator.ledger.snapshot.firstAcceptances
        }
        var latency = LatencySummary()
        for publication in publications {
            guard let first = firsts[publication.send] else { continue }
            latency.record(nanoseconds: first - publication.dueNanoseconds)
        }
        return (latency, publications.count - latency.count)
    }
}
