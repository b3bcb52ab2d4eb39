internal import NIOCore

/// Follows the reports that a worker's runs write to one Redis server: while it takes none of them, none of these runs sends.
///
/// A run holds itself back when its own report is not written. That alone is not enough: runs have their turns one after the other, and
/// each that begins while Redis is away would send until it learns that for itself.
final class ServerReports {
    /// The number of the runs that write to the server.
    var runs = 0
    /// The runs that have missed their turns while they were held back.
    private var parked: [ActiveRun] = []
    /// The number of reports that were taken and are not written.
    private var pending = 0
    /// The last time at which a report was written, or none waited to be.
    private var answeredAt = NIODeadline.uptimeNanoseconds(0)

    /// Records that a report is about to be written.
    func taken(now: NIODeadline) {
        if self.pending == 0 { self.answeredAt = max(self.answeredAt, now) }
        self.pending += 1
    }

    /// Records that a report is written.
    func written(now: NIODeadline) {
        self.pending -= 1
        self.answeredAt = max(self.answeredAt, now)
    }

    /// Records that a report is given up.
    func givenUp() { self.pending -= 1 }

    /// Records that the server has answered something else of a run.
    func answered(at time: NIODeadline) { self.answeredAt = max(self.answeredAt, time) }

    /// Returns true when reports wait to be written, and none was for so long.
    func isSilent(now: NIODeadline, for time: TimeAmount) -> Bool {
        self.pending > 0 && now - self.answeredAt > time
    }

    /// Keeps a run that has missed its turn.
    func park(_ active: ActiveRun) {
        if !self.parked.contains(where: { $0 === active }) { self.parked.append(active) }
    }

    /// Returns the runs that have missed their turns, once each.
    func takeParked() -> [ActiveRun] {
        defer { self.parked.removeAll(keepingCapacity: true) }
        return self.parked
    }

    /// Forgets a run that has ended.
    func remove(_ active: ActiveRun) { self.parked.removeAll { $0 === active } }
}
