import ApusLab
import ApusTerminal
import ArgumentParser
import FoundationEssentials

extension LoadScenario: ExpressibleByArgument {}

extension LoadTest {
    /// Runs a scenario in a cluster of its own.
    func perform(_ scenario: LoadScenario) async throws {
        guard scenario.isLoad else { return try await self.measureMemory() }
        var order = ScenarioOptions(scenario)
        order.ratePerSecond = self.rate ?? order.ratePerSecond
        order.bulkRatePerSecond = self.bulkRate ?? order.bulkRatePerSecond
        order.seconds = self.duration
        order.warmUpSeconds = self.warmUp
        order.devices = self.devices ?? order.devices
        order.seed = self.seed
        order.saturatesSink = self.saturateSink
        let revision = Console.variable("APUS_REVISION") ?? "unknown"
        let (chosen, latencyMax) = (order, self.stepLatency)
        Console.message(Console.bold("== \(scenario.rawValue): \(scenario.abstract)"))
        guard !self.step else {
            let report = try await Interruption.whileWatching {
                try await ScenarioRunner.search(chosen, latencyMillisecondsMax: latencyMax) {
                    Console.message("   \($0)")
                }
            }
            if let best = report.best { try self.writeDistribution(best.latency) }
            self.output.write(report.json(revision: revision), else: report.lines)
            return try Self.requireNone(report.problems)
        }
        let result = try await Interruption.whileWatching {
            try await ScenarioRunner.measure(chosen) { Console.message("   \($0)") }
        }
        if result.validation.problems.isEmpty { try self.writeDistribution(result.latency) }
        self.output.write(result.json(revision: revision), else: result.lines)
        try Self.requireNone(result.problems)
    }

    /// Fills separate stores with devices, and measures their memory.
    private func measureMemory() async throws {
        let memory = StoreMemory(devices: self.devices ?? StoreMemory.defaultDevices)
        Console.message(Console.bold("== memory: \(LoadScenario.memory.abstract)"))
        let report = try await Interruption.whileWatching { try await memory.run { Console.message("   \($0)") } }
        self.output.write(report.json(revision: Console.variable("APUS_REVISION") ?? "unknown"), else: report.lines)
        try Self.requireNone(report.problems)
    }

    /// Writes latencies to the file of `--hgrm`.
    func writeDistribution(_ latency: LatencySummary) throws {
        guard let hgrm else { return }
        do {
            try Data(latency.distribution.utf8).write(to: URL(filePath: hgrm))
        } catch {
            throw CommandFailure(
                "the latencies cannot be written to \(hgrm): is its folder there, and may you write to it?"
            )
        }
    }

    private static func requireNone(_ problems: [String]) throws {
        guard problems.isEmpty else { throw CommandFailure(problems.joined(separator: "; ")) }
    }
}
