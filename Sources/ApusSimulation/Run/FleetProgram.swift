internal import ApusBuiltInProviders
internal import CVirtualTime
internal import Logging

/// Runs simulations.
package enum FleetProgram {
    /// The result of a simulation.
    package struct Result: Sendable {
        /// The sentences about what must not have happened; none when all is well.
        package var complaints: [String]
        /// The simulated seconds.
        package var seconds: Double
        /// The real seconds.
        package var realSeconds: Double
        /// The units of work.
        package var steps: Int
        /// The events that took place, and what was sent.
        package var summary: String
    }

    /// Runs the simulation of a plan. A process runs one at most, so that nothing of an earlier one has an influence.
    package static func run(_ plan: SimulationPlan, _ mutation: Mutation?, logs level: String?) -> Result {
        BuiltInProviders.install()
        SimulatedExecutors.install()
        let start = virtual_real_time()
        virtual_start(Scheduler.startNanoseconds, plan.seed)
        let scheduler = Scheduler(seed: plan.seed)
        scheduler.wallOffset = SimulatedFleet.wallOffset
        Scheduler.current = scheduler
        var complaints: [String]
        var summary = ""
        do {
            let fleet = try SimulatedFleet(scheduler, mutation, logs: level.flatMap { Logger.Level(rawValue: $0) })
            let simulation = Simulation(plan, fleet, scheduler)
            complaints = try simulation.run()
            let events = simulation.counts.sorted { $0.key.rawValue < $1.key.rawValue }.map {
                "\($0.value) \($0.key.rawValue)"
            }
            let copy = plan.hasCopy ? [plan.hasReplica ? "a replica" : "a file on disk"] : []
            let masters = plan.masters > 1 ? ["\(plan.masters) masters"] : []
            let records = plan.isEncrypted ? ["encrypted"] : []
            let apps = plan.apps > 1 ? ["\(plan.apps) apps"] : []
            let counts = ["\(simulation.devices.count) devices", "\(simulation.sends.count) sends"]
            let parts = masters + apps + records + counts + copy + events
            summary = parts.joined(separator: ", ")
        } catch {
            complaints = ["\(error)"]
        }
        return Result(
            complaints: complaints,
            seconds: Double(scheduler.now - Scheduler.startNanoseconds) / 1e9,
            realSeconds: Double(virtual_real_time() - start) / 1e9,
            steps: scheduler.steps,
            summary: summary
        )
    }
}
