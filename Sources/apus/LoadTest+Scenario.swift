import ApusCommand
import ApusLoadTest
import ArgumentParser
import Foundation

extension LoadScenario: ExpressibleByArgument {}

extension LoadTest {
    /// Performs a scenario on a fleet of its own.
    func perform(_ scenario: LoadScenario) async throws {
        guard scenario.isLoad else { return try await self.measureMemory() }
        var order = LoadOrder(scenario)
        order.ratePerSecond = self.rate ?? order.ratePerSecond
        order.bulkRatePerSecond = self.bulkRate ?? order.bulkRatePerSecond
        order.seconds = self.duration
        order.warmUpSeconds = self.warmUp
        order.devices = self.devices ?? order.devices
        order.seed = self.seed
        order.saturatesSink = self.saturateSink
        let revision = Console.variable("APUS_REVISION") ?? "unknown"
        let (chosen, latencyMax) = (order, self.stepLatency)
        Console.talk(Console.bold("== \(scenario.rawValue): \(scenario.abstract)"))
        guard !self.step else {
            let report = try await Interruption.whileWatching {
                try await LoadSession.search(chosen, latencyMillisecondsMax: latencyMax) { Console.talk("   \($0)") }
            }
            if let best = report.best { try self.writeDistribution(best.latency) }
            self.output.write(report.json(revision: revision), else: report.lines)
            return try Self.judge(report.problems)
        }
        let result = try await Interruption.whileWatching {
            try await LoadSession.measure(chosen) { Console.talk("   \($0)") }
        }
        if result.verdict.refusals.isEmpty { try self.writeDistribution(result.latency) }
        self.output.write(result.json(revision: revision), else: result.lines)
        try Self.judge(result.problems)
    }

    /// Fills stores of their own with devices, and weighs them.
    private func measureMemory() async throws {
        let memory = StoreMemory(devices: self.devices ?? StoreMemory.standardDevices)
        Console.talk(Console.bold("== memory: \(LoadScenario.memory.abstract)"))
        let report = try await Interruption.whileWatching { try await memory.run { Console.talk("   \($0)") } }
        self.output.write(report.json(revision: Console.variable("APUS_REVISION") ?? "unknown"), else: report.lines)
        try Self.judge(report.problems)
    }

    /// Writes latencies where `--hgrm` says.
    func writeDistribution(_ latency: LatencySummary) throws {
        guard let hgrm else { return }
        do {
            try Data(latency.distribution.utf8).write(to: URL(filePath: hgrm))
        } catch {
            throw CommandFailure("the latencies cannot be written to \(hgrm): \(error.localizedDescription)")
        }
    }

    private static func judge(_ problems: [String]) throws {
        guard problems.isEmpty else { throw CommandFailure(problems.joined(separator: "; ")) }
    }
}
