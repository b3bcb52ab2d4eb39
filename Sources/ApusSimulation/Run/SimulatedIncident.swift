/// A fault that has struck, with the time for which it lasted.
struct SimulatedIncident: Sendable {
    let event: SimulationPlan.Event
    let begin: Int64
    /// The time at which it was over at the latest.
    let end: Int64
}
