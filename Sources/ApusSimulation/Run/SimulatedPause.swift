/// A pause of a route or of a send by an operator.
final class SimulatedPause: @unchecked Sendable {
    /// The name of the route, or the app and the id of the send.
    let name: String
    /// The time at which the operator was told that it is in force; nil while that is not known.
    private(set) var begin: Int64?
    /// The number of writes of each master at that time, if one may forget it with later ones.
    private var writes: [Int]?
    /// The time at which the operator asked to end it, or at which Redis may have forgotten it.
    private(set) var end: Int64?
    /// True once nobody asks to end it any more.
    var isOver = false

    init(name: String) { self.name = name }

    /// Notes that the operator was told that it is in force.
    ///
    /// - Parameter writes: the number of writes of each master, if one may forget it with later ones.
    func begin(at time: Int64, writes: [Int]?) {
        self.begin = time
        self.writes = writes
    }

    /// Notes that the operator asks to end it.
    func end(at time: Int64) { self.end = self.end ?? time }

    /// Notes that a master has kept that many writes only.
    func forget(after writes: Int, of master: Int, at time: Int64) {
        guard let own = self.writes, own[master] > writes else { return }
        self.writes = nil
        self.end(at: time)
    }

    /// Returns true when it is in force at a time, and was for so long before.
    func isInForce(at time: Int64, for nanoseconds: Int64) -> Bool {
        guard let begin = self.begin else { return false }
        return time > begin + nanoseconds && time < self.end ?? .max
    }
}

/// A fault that has struck, with the time for which it lasted.
struct SimulatedIncident: Sendable {
    let event: SimulationPlan.Event
    let begin: Int64
    /// The time at which it was over at the latest.
    let end: Int64
}
