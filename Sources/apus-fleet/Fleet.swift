import ApusSimulation
import ArgumentParser
import Foundation

/// Simulates a fleet (`apus-fleet`).
@main
struct Fleet: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "apus-fleet",
        abstract: "Simulate a whole fleet in one process, and find what it must not do.",
        discussion: """
            A seed decides everything: how many services of each kind and devices there are, what is sent, what goes wrong, \
            in which order everything runs, and when each byte arrives. The services and the functions in Redis are \
            those of production; Redis, the network and the providers are models. The same seed does the same again.

            With --seeds each seed runs in a process of its own. A seed that fails is made smaller, by leaving out what it \
            does not need, and its command is printed.
            """,
    )

    @Option(help: "The seed, or the first of several.")
    var seed: UInt64 = 1
    @Option(help: "The number of seeds to run, one after the other.")
    var seeds: UInt64?
    @Option(help: "The number of processes at once, with --seeds.")
    var jobs = max(1, ProcessInfo.processInfo.activeProcessorCount)
    @Option(help: "The number of dispatchers; otherwise the seed decides.")
    var dispatchers: Int?
    @Option(help: "The number of feedback services.")
    var feedbacks: Int?
    @Option(help: "The number of registration services.")
    var registrations: Int?
    @Option(help: "The number of masters of Redis; several are a cluster.")
    var masters: Int?
    @Option(help: "The number of apps, whose devices, users and sends have the same names: 1 or 2.")
    var apps: Int?
    @Option(help: "Whether records of devices are encrypted in Redis: true or false.")
    var encrypted: Bool?
    @Option(help: "Whether receipts are posted to a webhook: true or false.")
    var webhook: Bool?
    @Option(help: "The number of devices.")
    var devices: Int?
    @Option(help: "The number of sends.")
    var sends: Int?
    @Option(
        help:
            "What must not happen, separated by commas: \(SimulationPlan.Event.allCases.map(\.rawValue).joined(separator: ", "))."
    )
    var without: String?
    @Option(help: "What must happen, from the same list.")
    var with: String?
    @Option(help: "What may happen, from the same list: this and nothing else.")
    var only: String?
    @Option(help: "The mean seconds between two events of a kind; otherwise the seed decides.")
    var every: Double?
    @Option(
        help:
            "The seconds within which everything must have ended after the last fault, \(SimulationPlan.endSecondsMax) by default."
    )
    var endWithin: Int64 = SimulationPlan.endSecondsMax
    @Option(help: "A fault to put into the functions on purpose: \(Mutation.all.map(\.name).joined(separator: ", ")).")
    var mutation: String?
    @Option(help: "The least level of the services' log lines to show: trace, debug, info, notice, warning or error.")
    var log: String?

    func run() throws {
        if let seeds {
            let runner = SeedRunner(mutation: self.mutation, jobs: self.jobs)
            let plans = try (self.seed..<(self.seed + seeds)).map { seed in try self.plan(seed) }
            guard runner.run(plans) else { throw ExitCode(1) }
            return
        }
        try SeedRunner.startAnewWithoutRandomHashing()
        let result = FleetProgram.run(try self.plan(self.seed), try self.chosenMutation(), logs: self.log)
        let speed = String(
            format: "%.1f s simulated in %.2f s, %d steps",
            result.seconds,
            result.realSeconds,
            result.steps
        )
        print("seed \(self.seed): \(result.summary); \(speed)")
        for complaint in result.complaints { print("  \(complaint)") }
        if !result.complaints.isEmpty { throw ExitCode(1) }
    }

    private func plan(_ seed: UInt64) throws -> SimulationPlan {
        var plan = SimulationPlan(seed: seed)
        plan.dispatchers = self.dispatchers ?? plan.dispatchers
        plan.feedbacks = self.feedbacks ?? plan.feedbacks
        plan.registrations = self.registrations ?? plan.registrations
        plan.masters = self.masters ?? plan.masters
        plan.apps = self.apps ?? plan.apps
        plan.isEncrypted = self.encrypted ?? plan.isEncrypted
        plan.hasWebhook = self.webhook ?? plan.hasWebhook
        plan.devices = self.devices ?? plan.devices
        plan.sends = self.sends ?? plan.sends
        let counts = [plan.dispatchers, plan.feedbacks, plan.registrations, plan.masters, plan.devices, plan.sends]
        guard counts.allSatisfy({ $0 > 0 }) else {
            throw ValidationError("there must be at least one of each")
        }
        guard (1...SimulationPlan.appsMax).contains(plan.apps) else {
            throw ValidationError("--apps is from 1 to \(SimulationPlan.appsMax)")
        }
        guard plan.devices >= plan.apps else { throw ValidationError("each app must have a device") }
        if let every {
            guard every > 0 else { throw ValidationError("time passes between two events: --every is more than 0") }
            plan.meanSeconds = every
        }
        guard self.endWithin > 0 else {
            throw ValidationError("everything takes time to end: --end-within is more than 0")
        }
        plan.endSeconds = self.endWithin
        if let only = try self.events(self.only) {
            for event in SimulationPlan.Event.allCases { plan.set(event, only.contains(event)) }
        }
        for event in try self.events(self.with) ?? [] { plan.set(event, true) }
        for event in try self.events(self.without) ?? [] { plan.set(event, false) }
        return plan
    }

    private func events(_ names: String?) throws -> [SimulationPlan.Event]? {
        try names?.split(separator: ",").map { name in
            guard let event = SimulationPlan.Event(rawValue: String(name)) else {
                throw ValidationError("nothing is called \(name); see --help")
            }
            return event
        }
    }

    private func chosenMutation() throws -> Mutation? {
        guard let mutation else { return nil }
        guard let found = Mutation.all.first(where: { $0.name == mutation }) else {
            throw ValidationError("no mutation is called \(mutation); see --help")
        }
        return found
    }
}
