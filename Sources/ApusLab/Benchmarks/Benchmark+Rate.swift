internal import ApusCore
internal import ApusMessages
internal import ApusSimulator
internal import ApusStreams
internal import ApusTestKit

extension Benchmark {
    private static let perSecond = 2_000
    /// The measured seconds, beginning one second after the first acceptance.
    private static let seconds = 10

    static let rate = Benchmark(
        "rate",
        "How far a send that two dispatchers share with a rate of its own is off: the mean of ten seconds, and the fullest second.",
        figure: "deviation",
        bar: 0.05,
        usesWorstRun: true,
    ) { run in
        var configuration = LocalClusterConfiguration()
        configuration.simulator.isFast = true
        configuration.rates.applePerSecond = Self.perSecond
        return try await LocalCluster.with(configuration) { cluster in
            let devices = Self.perSecond * (Self.seconds + 2)
            _ = try await cluster.register(devices, providers: [.apns]) { _ in [] }
            let feedback = try await cluster.startFeedback()
            let dispatchers = [try await cluster.startDispatcher(), try await cluster.startDispatcher()]
            try await cluster.send(.everyone([]), id: "limited")
            let ledger = try await cluster.completion(of: "limited", timeout: .seconds(120))
            let shares = try await Self.delivered(by: dispatchers)
            for dispatcher in dispatchers { try await dispatcher.terminate() }
            try await feedback.terminate()
            let timeline = cluster.simulator.ledger.snapshot.timeline
            let perBucket = timeline.buckets.map { Double($0.count(.apns)) }.drop { $0 == 0 }
            let bucketsPerSecond = Int(1_000_000_000 / AcceptanceTimeline.bucketNanoseconds)
            let looked = Array(perBucket.dropFirst(bucketsPerSecond).prefix(Self.seconds * bucketsPerSecond))
            // Any span of a second counts, not only those that begin with the clock's.
            let seconds = (0...(looked.count - bucketsPerSecond)).map {
                looked[$0..<($0 + bucketsPerSecond)].reduce(0, +)
            }
            let rate = Double(Self.perSecond)
            let most = (seconds.max() ?? 0) / rate
            let mean = looked.reduce(0, +) / Double(looked.count) * Double(bucketsPerSecond) / rate
            return [
                "deviation": max(most - 1, abs(mean - 1)),
                "second_max_over_rate": most,
                "second_min_over_rate": (seconds.min() ?? 0) / rate,
                "mean_over_rate": mean,
                "smaller_share": (shares.min() ?? 0) / max(1, shares.reduce(0, +)),
                "lost": Double(devices) - Double(ledger.total(.accepted)),
            ]
        }
    }

    private static func delivered(by dispatchers: [ServiceProcess]) async throws -> [Double] {
        var shares: [Double] = []
        for dispatcher in dispatchers {
            shares.append(try await dispatcher.metric("apus_dispatcher_deliveries_total"))
        }
        return shares
    }
}
