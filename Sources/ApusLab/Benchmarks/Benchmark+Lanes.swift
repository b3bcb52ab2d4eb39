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
        try await Self.expressUnderBulk(run.devices ?? 1_000_000)
    }

    static let browsers = Benchmark(
        "browsers",
        "The 99th percentile of express sends to phones under sends to 100,000 browsers, against their idle value in the same run.",
        figure: "p99_ratio",
        bar: 1.5,
    ) { run in
        try await Self.phonesBesideBrowsers(run)
    }

    /// The number of times that the idle value and the one under a send are measured, in turn.
    private static let rounds = 5

    /// Measures express sends to phones of both providers, alone and under a send to browsers in turn, so that whatever else changes on the
    /// machine meets both.
    private static func phonesBesideBrowsers(_ run: BenchmarkRun) async throws -> [String: Double] {
        let (browsers, phones) = (run.devices ?? 100_000, [Provider.apns, .fcm])
        return try await Self.withCluster([.webpush], devices: browsers) { cluster, publisher in
            var (idle, busy) = (Latencies(), Latencies())
            _ = try await Self.express(cluster, publisher, "warm", to: phones, seconds: 3)
            for round in 0..<Self.rounds {
                let calm = try await Self.express(cluster, publisher, "idle-\(round)", to: phones, seconds: 4)
                try await idle.record(calm, in: cluster)
                let loaded = try await Self.express(cluster, publisher, under: "bulk-\(round)", browsers, to: phones)
                try await busy.record(loaded, in: cluster)
                run.say("round \(round + 1) of \(Self.rounds): \(loaded.count) sends under the one to browsers")
            }
            var figures: [String: Double] = [:]
            var missing = idle.missing + busy.missing
            for round in 0..<Self.rounds {
                let ledger = try await cluster.completion(of: "bulk-\(round)", timeout: .seconds(1_800))
                figures["bulk_accepted", default: 0] += Double(ledger.total(.accepted))
                missing += Int(ledger.planned - ledger.total(.accepted))
            }
            figures["lost"] = Double(missing)
            for provider in phones {
                figures["\(provider.name)_express_sends_under_bulk"] = Double(busy[provider].count)
                for (name, value) in [("p50", 50.0), ("p99", 99.0)] {
                    let before = idle[provider].milliseconds(percentile: value) ?? 0
                    let under = busy[provider].milliseconds(percentile: value) ?? .infinity
                    figures["\(provider.name)_idle_\(name)_ms"] = before
                    figures["\(provider.name)_bulk_\(name)_ms"] = under
                    figures["\(provider.name)_\(name)_ratio"] = under / before
                    // The slower one of both decides.
                    figures["\(name)_ratio"] = max(figures["\(name)_ratio"] ?? 0, under / before)
                }
            }
            return figures
        }
    }

    /// Runs `body` in a cluster whose devices are in the topic of bulk sends.
    private static func withCluster(
        _ providers: [Provider],
        devices: Int,
        _ body: (LocalCluster, Publisher) async throws -> [String: Double],
    ) async throws -> [String: Double] {
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
                let figures = try await body(cluster, publisher)
                await publisher.close()
                try await dispatcher.terminate()
                try await feedback.terminate()
                return figures
            } catch {
                await publisher.close()
                throw error
            }
        }
    }

    /// Publishes express sends while a bulk send is on its way: only those that are published during it count.
    private static func express(
        _ cluster: LocalCluster,
        _ publisher: Publisher,
        under bulk: String,
        _ devices: Int,
        to providers: [Provider],
    ) async throws -> [OpenLoopPublisher.Publication] {
        // A fast simulator reads no send's id in what is encrypted.
        let before = cluster.simulator.ledger.snapshot.timeline.accepted(from: 0)
        func accepted() -> Int { cluster.simulator.ledger.snapshot.timeline.accepted(from: 0) - before }
        try await cluster.send(.topic("bulk"), id: bulk)
        try await eventually("the bulk send is on its way") { accepted() > devices / 50 }
        let name = "under-\(bulk)"
        return try await Self.express(cluster, publisher, name, to: providers, seconds: Self.seconds) {
            accepted() > devices * 9 / 10
        }
    }

    /// Measures express sends, first alone and then under a bulk send.
    private static func expressUnderBulk(_ devices: Int) async throws -> [String: Double] {
        try await Self.withCluster([.apns, .fcm], devices: devices) { cluster, publisher in
            var (idle, busy) = (Latencies(), Latencies())
            _ = try await Self.express(cluster, publisher, "warm", to: [.apns], seconds: 3)
            let calm = try await Self.express(cluster, publisher, "idle", to: [.apns], seconds: Self.seconds)
            try await idle.record(calm, in: cluster)
            let loaded = try await Self.express(cluster, publisher, under: "bulk", devices, to: [.apns])
            let ledger = try await cluster.completion(of: "bulk", timeout: .seconds(1_800))
            try await busy.record(loaded, in: cluster)
            var figures = [
                "bulk_accepted": Double(ledger.total(.accepted)),
                "lost": Double(ledger.planned - ledger.total(.accepted)) + Double(idle.missing + busy.missing),
                "express_sends_under_bulk": Double(busy[.apns].count),
            ]
            for (name, value) in [("p50", 50.0), ("p99", 99.0)] {
                let before = idle[.apns].milliseconds(percentile: value) ?? 0
                let under = busy[.apns].milliseconds(percentile: value) ?? .infinity
                figures["idle_\(name)_ms"] = before
                figures["bulk_\(name)_ms"] = under
                figures["\(name)_ratio"] = under / before
            }
            return figures
        }
    }

    /// Publishes single sends at a constant rate, to the providers in turn.
    ///
    /// - Parameter isOver: returns true to stop before all are sent; called every second.
    private static func express(
        _ cluster: LocalCluster,
        _ publisher: Publisher,
        _ name: String,
        to providers: [Provider],
        seconds: Int,
        isOver: () async throws -> Bool = { false },
    ) async throws -> [OpenLoopPublisher.Publication] {
        var publications: [OpenLoopPublisher.Publication] = []
        for second in 0..<seconds {
            if try await isOver() { break }
            let plan = LoadPlan(ratePerSecond: Self.expressRate, warmUp: 0, measured: Int(Self.expressRate))
            let test = OpenLoopPublisher(plan, publisher: publisher, lane: .express, clock: cluster.clock) { index in
                var generator = SeededGenerator(seed: UInt64(second * 100_000 + index))
                let provider = providers[index % providers.count]
                let address = Address(provider: provider, token: SampleToken.random(of: provider, &generator))
                return cluster.command(.addresses([address]), id: "\(provider.name)-\(name)-\(second)-\(index)")
            }
            publications += try await test.run()
        }
        return publications
    }
}

/// The latencies of single sends by provider, from the scheduled time to the acceptance.
private struct Latencies {
    private var summaries: [Provider: LatencySummary] = [:]
    /// The number of sends that were never accepted.
    private(set) var missing = 0

    subscript(provider: Provider) -> LatencySummary { self.summaries[provider] ?? LatencySummary() }

    /// Adds sends whose ids begin with their provider's name, and waits a while for those that are not accepted yet.
    mutating func record(_ publications: [OpenLoopPublisher.Publication], in cluster: LocalCluster) async throws {
        var firsts = cluster.simulator.ledger.snapshot.firstAcceptances
        for _ in 0..<20 where publications.contains(where: { firsts[$0.send] == nil }) {
            try await Task.sleep(for: .milliseconds(500))
            firsts = cluster.simulator.ledger.snapshot.firstAcceptances
        }
        for publication in publications {
            guard let first = firsts[publication.send] else {
                self.missing += 1
                continue
            }
            let provider = publication.send.split(separator: "-").first.flatMap { Provider(name: $0) }
            guard let provider else { preconditionFailure("the id \(publication.send) names no provider") }
            self.summaries[provider, default: LatencySummary()].record(
                nanoseconds: first - publication.dueNanoseconds
            )
        }
    }
}
