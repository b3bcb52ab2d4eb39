internal import ApusCore
internal import ApusMessages
internal import ApusSimulator
internal import ApusTestKit

extension Benchmark {
    /// The time that a provider takes to answer: so long that Apple's part of the send outlasts a minute.
    private static let answerMilliseconds: Int64 = 250

    static let bulkheads = Benchmark(
        "bulkheads",
        "Apple's throughput while Google refuses connections for a minute, against a send without Google.",
        figure: "refusing_over_absent",
        bar: 0.9,
        isMinimum: true,
    ) { run in
        let devices = run.devices ?? 100_000
        let absent = try await Self.appleRate(devices / 3, targets: [.apns], refusing: false)
        let healthy = try await Self.appleRate(devices / 3, targets: [], refusing: false)
        let refusing = try await Self.appleRate(devices, targets: [], refusing: true)
        return [
            "apns_per_second_absent": absent, "apns_per_second_healthy": healthy, "apns_per_second_refusing": refusing,
            "refusing_over_absent": refusing / absent, "refusing_over_healthy": refusing / healthy,
        ]
    }

    /// Returns the acceptances by Apple per second, from the first to the last.
    ///
    /// Answers are delayed, so that the window, not this machine's processors, limits a route.
    private static func appleRate(_ devices: Int, targets: [Provider], refusing: Bool) async throws -> Double {
        var configuration = LocalClusterConfiguration()
        configuration.simulator.isFast = true
        configuration.simulator.faults.apns.delayMilliseconds = Self.answerMilliseconds
        configuration.simulator.faults.fcm.delayMilliseconds = Self.answerMilliseconds
        return try await LocalCluster.with(configuration) { cluster in
            let audience = try await cluster.register(devices)
            let apple = audience.count { $0.provider == .apns }
            let feedback = try await cluster.startFeedback()
            let dispatcher = try await cluster.startDispatcher(["window": "200"])
            if refusing { try await cluster.simulator.setListening(false, at: .fcm) }
            try await cluster.send(.everyone(targets), id: "bulk")
            try await eventually("Apple has all", timeout: .seconds(300)) {
                cluster.simulator.ledger.snapshot.timeline.accepted(.apns, from: 0) >= apple
            }
            let timeline = cluster.simulator.ledger.snapshot.timeline
            let busy = timeline.buckets.indices.filter { timeline.buckets[$0].count(.apns) > 0 }
            let width = Double(AcceptanceTimeline.bucketNanoseconds) / 1e9
            let seconds = Double((busy.last ?? 0) - (busy.first ?? 0) + 1) * width
            if refusing { try await cluster.simulator.setListening(true, at: .fcm) }
            _ = try await cluster.completion(of: "bulk", timeout: .seconds(300)) {
                try await cluster.makeRetriesDue()
            }
            try await dispatcher.terminate()
            try await feedback.terminate()
            return Double(apple) / seconds
        }
    }
}
