import ApusSimulation
import ArgumentParser

/// Simulates a fleet (`apus-fleet`).
@main
struct Fleet: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "apus-fleet",
        abstract: "Simulate a fleet in one process from one seed."
    )

    @Option(help: "The seed.")
    var seed: UInt64 = 1
    @Option(help: "The least level of the services' log lines to show: trace, debug, info, notice, warning or error.")
    var log: String?

    func run() throws {
        let plan = TrialPlan(seed: self.seed)
        let result = FleetProgram.run(plan, logs: self.log)
        print(
            "seed \(self.seed): \(result.summary); \(result.seconds) s simulated in \(result.realSeconds) s, \(result.steps) steps"
        )
        for complaint in result.complaints { print("  \(complaint)") }
        if !result.complaints.isEmpty { throw ExitCode(1) }
    }
}
