/// Follows the keys of a modelled server some way behind, as a replica does, or a file on disk: what a failover or a restart comes back to.
/// Pure: time is an argument, in µs.
///
/// It looks at the server's keys, has them a lag later, and the server knows that after another. Then it looks again. So what it has is
/// always a state that the server once had, and what it has confirmed is in it.
package struct ModelCopy {
    /// A state of the keys, with the number of writes that led to it.
    private struct State {
        var database: RedisModel.Database
        var writes: Int
    }

    /// The time from a look to its arrival.
    package var lag: Int64
    /// True when it confirms writes, as `WAIT` tells; a disk confirms none.
    package let isReplica: Bool
    /// True while it hears of nothing and confirms nothing.
    package var isSilent = false
    private var kept: State
    /// The number of writes that the server knows the copy to have.
    private(set) var confirmed: Int
    private var underWay: (state: State, arrival: Int64, confirmation: Int64)?
    /// The last time that it was told.
    private var seen = Int64.min

    /// Creates a copy that has everything.
    package init(of model: RedisModel, lag: Int64, isReplica: Bool) {
        precondition(lag > 0)
        self.lag = lag
        self.isReplica = isReplica
        self.kept = State(database: model.database, writes: model.writes)
        self.confirmed = model.writes
    }

    /// The keys that it has.
    package var database: RedisModel.Database { self.kept.database }
    /// The number of writes that it has.
    package var writes: Int { self.kept.writes }

    /// The time at which something arrives; nil when nothing is under way.
    var nextDeadline: Int64? {
        guard !self.isSilent, let underWay else { return nil }
        return underWay.state.writes > self.kept.writes ? underWay.arrival : underWay.confirmation
    }

    /// Looks at the server's keys, unless an earlier look is still under way or they are the same.
    mutating func follow(_ model: RedisModel, now: Int64) {
        self.advance(to: now)
        guard !self.isSilent, self.underWay == nil, model.writes > self.kept.writes else { return }
        let state = State(database: model.database, writes: model.writes)
        self.underWay = (state, now + self.lag, now + 2 * self.lag)
    }

    /// Lets time pass.
    mutating func advance(to now: Int64) {
        // The server's clock may go back, and nothing waits for it.
        if now < self.seen {
            self.underWay?.arrival -= self.seen - now
            self.underWay?.confirmation -= self.seen - now
        }
        self.seen = now
        guard !self.isSilent, let underWay else { return }
        if now >= underWay.arrival { self.kept = underWay.state }
        guard now >= underWay.confirmation else { return }
        self.confirmed = underWay.state.writes
        self.underWay = nil
    }
}
