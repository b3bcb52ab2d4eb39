internal import ApusCore
internal import ApusMessages
internal import ApusSimulator
internal import ApusStreams

extension Benchmark {
    private static let mebibyte = 1_048_576.0
    private static let stallSeconds = 30

    static let memory = Benchmark(
        "memory",
        "What a dispatcher occupies beyond its idle size while it sends to a million and the providers stall.",
        figure: "stalled_over_idle_mib",
        bar: 64,
    ) { run in
        var configuration = LocalClusterConfiguration()
        configuration.simulator.isFast = true
        configuration.simulator.keepsLongTokens = false
        return try await LocalCluster.with(configuration) { cluster in
            let devices = run.devices ?? 1_000_000
            _ = try await cluster.register(devices)
            let feedback = try await cluster.startFeedback()
            let dispatcher = try await cluster.startDispatcher()
            try await Task.sleep(for: .seconds(1))
            let idle = try Self.size(dispatcher)
            var plan = FaultPlan(seed: run.seed)
            plan.apns.silence = 1
            plan.fcm.silence = 1
            cluster.simulator.setFaults(plan)
            try await cluster.send(.everyone([]), id: "bulk")
            var stalled = idle
            for _ in 0..<(Self.stallSeconds * 10) {
                try await Task.sleep(for: .milliseconds(100))
                stalled = max(stalled, try Self.size(dispatcher))
            }
            let taken = cluster.simulator.ledger.snapshot.count
            run.say("\(taken) requests without an answer, \(stalled) MiB")
            cluster.simulator.setFaults(FaultPlan())
            for provider in [Provider.apns, .fcm] {
                try await cluster.simulator.setListening(false, at: provider)
                try await cluster.simulator.setListening(true, at: provider)
            }
            var sending = stalled
            let ledger = try await cluster.completion(of: "bulk", timeout: .seconds(1_800)) {
                try await cluster.makeRetriesDue()
                sending = max(sending, try Self.size(dispatcher))
                try await Task.sleep(for: .milliseconds(100))
            }
            try await dispatcher.terminate()
            try await feedback.terminate()
            return [
                "idle_mib": idle, "stalled_mib": stalled, "stalled_over_idle_mib": stalled - idle,
                "sending_over_idle_mib": sending - idle, "unanswered": Double(taken),
                "lost": Double(ledger.planned - ledger.total(.accepted)),
            ]
        }
    }

    private static func size(_ service: ServiceProcess) throws -> Double {
        try service.checkIsRunning()
        return Double(ProcessStatistics.residentBytes(of: service.processID) ?? 0) / Self.mebibyte
    }

    static let kills = Benchmark(
        "kills",
        "Twenty kills at random moments for each of two windows: what one repeats, as a share of what it may.",
        figure: "repeated_over_bound",
        bar: 1,
    ) { run in
        let report = try await Drill.twentyKills.run(.long, seed: run.seed, say: run.say)
        guard report.devices > 0, report.complaints.isEmpty else {
            throw LocalClusterError(report.complaints.joined(separator: "; "))
        }
        return [
            "lost": Double(report.lost), "repeated": Double(report.repeated), "bound": Double(report.bound),
            "repeated_over_bound": report.worstShareOfBound,
            "takeover_seconds_max": report.takeoverSeconds.max() ?? 0,
            "takeover_seconds_median": report.takeoverSeconds.isEmpty
                ? 0 : BenchmarkReport.Spread(report.takeoverSeconds).median,
        ]
    }
}
