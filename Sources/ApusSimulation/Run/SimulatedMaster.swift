internal import ApusFleet

/// A master of the simulated Redis: the only one, or one of a cluster.
final class SimulatedMaster: @unchecked Sendable {
    /// The port that it is reached at.
    let port: Int
    /// Its process.
    let process: SimulatedProcess
    /// The modelled server, past its connections.
    let server: ModelServer
    /// The time since when it has a copy.
    var copySince: Int64 = 0
    /// The number of slots that are being moved from it or to it.
    var moves = 0
    /// The number of its writes that a copy must have before it may take over: keys came from another master, which has them no longer.
    var writesOwed = 0

    init(port: Int, process: SimulatedProcess, server: ModelServer) {
        self.port = port
        self.process = process
        self.server = server
    }

    /// The number of its writes.
    var writes: Int { self.server.model.writes }

    /// True when a server without the last writes may take its place.
    var mayLoseWrites: Bool {
        // A master that has just taken over has no copy yet. Moves and failovers together lose keys, whatever the clients do.
        guard let copy = self.server.copy, self.moves == 0 else { return false }
        return copy.writes >= self.writesOwed
    }
}
