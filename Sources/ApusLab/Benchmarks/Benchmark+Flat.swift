internal import ApusCore
internal import ApusMessages
internal import ApusSimulator
internal import ApusStreams
internal import ApusTestKit

extension Benchmark {
    private static let topic = "flat"
    /// The number of sends that are measured one at a time, and of the first ones among those that wait together.
    private static let measuredSends = 10
    /// The number of sends that wait together.
    private static let queuedSends = 100

    static let flat = Benchmark(
        "flat",
        "Throughput while a hundred sends to everybody wait, ten million recipients, against that of one send at a time.",
        figure: "queued_over_single",
        bar: 0.9,
        isMinimum: true,
    ) { run in
        var configuration = LocalClusterConfiguration()
        configuration.simulator.isFast = true
        configuration.simulator.keepsLongTokens = false
        return try await LocalCluster.with(configuration) { cluster in
            let devices = run.devices ?? 100_000
            _ = try await cluster.register(devices, providers: [.apns], topics: { _ in [Self.topic] })
            let feedback = try await cluster.startFeedback()
            let dispatcher = try await cluster.startDispatcher()
            var lost: Int64 = 0
            func complete(_ send: String) async throws {
                let ledger = try await cluster.completion(of: send, timeout: .seconds(1_800))
                lost += Int64(devices) - Int64(ledger.total(.accepted))
            }
            try await cluster.send(.topic(Self.topic), id: "warm")
            try await complete("warm")

            var single: [Double] = []
            for number in 0..<Self.measuredSends {
                cluster.simulator.reset()
                try await cluster.send(.topic(Self.topic), id: "single-\(number)")
                try await complete("single-\(number)")
                single.append(try Self.rate(of: devices, in: cluster))
            }
            cluster.simulator.reset()
            for number in 0..<Self.queuedSends { try await cluster.send(.topic(Self.topic), id: "queued-\(number)") }
            let measured = devices * Self.measuredSends
            try await eventually("the first ten sends' worth is accepted", timeout: .seconds(1_800)) {
                cluster.simulator.ledger.snapshot.timeline.accepted(from: 0) >= measured
            }
            let queued = try Self.rate(of: measured, in: cluster)
            // The other sends are only counted by the services: the simulator's ledger would fill the memory.
            for number in 0..<Self.queuedSends {
                try await complete("queued-\(number)")
                cluster.simulator.reset()
            }
            try await dispatcher.terminate()
            try await feedback.terminate()
            let alone = BenchmarkReport.Spread(single).median
            return [
                "queued_recipients": Double(devices * Self.queuedSends), "single_per_second": alone,
                "queued_per_second": queued, "queued_over_single": queued / alone, "lost": Double(lost),
            ]
        }
    }

    /// Returns the acceptances per second, from the first one to the given number.
    private static func rate(of count: Int, in cluster: LocalCluster) throws -> Double {
        let timeline = cluster.simulator.ledger.snapshot.timeline
        guard let seconds = timeline.seconds(untilAccepted: count) else {
            throw LocalClusterError("the simulator accepted less than the services say")
        }
        return Double(count) / seconds
    }
}

extension AcceptanceTimeline {
    /// Returns the seconds from the first interval with an acceptance to the end of the one that reached the count; nil
    /// when it was never reached.
    package func seconds(untilAccepted count: Int) -> Double? {
        guard let first = self.buckets.firstIndex(where: { $0.count(nil) > 0 }) else { return nil }
        var sum = 0
        for index in first..<self.buckets.count {
            sum += self.buckets[index].count(nil)
            if sum >= count { return Double(index - first + 1) * Double(Self.bucketNanoseconds) / 1e9 }
        }
        return nil
    }
}
