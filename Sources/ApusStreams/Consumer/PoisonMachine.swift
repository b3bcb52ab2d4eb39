/// Sets how long each state of the gate may last.
struct PoisonTimes: Hashable, Sendable {
    /// The time for entries in hand to end before a poison entry runs.
    var emptyingMax = StreamLimits.poisonEmptyingMax
    /// The time of a poison entry's turn.
    var turnMax = StreamLimits.poisonTurnMax
    /// The same two times for a poison entry that becomes a dead letter when its process ends once more.
    var lastEmptyingMax = StreamLimits.poisonLastEmptyingMax
    var lastTurnMax = StreamLimits.poisonLastTurnMax
    /// The time to tell Redis which entries are not to be blamed.
    var excusingMax = StreamLimits.poisonExcusingMax
    /// The time that poison entries may follow one another.
    var shutMax = StreamLimits.poisonShutMax
    /// The time for redelivered entries before the next poison entry.
    var rest = StreamLimits.poisonRest
    /// The time for redelivered entries after a poison entry that made no progress.
    var slowRest = StreamLimits.poisonSlowRest
}

/// Decides which entries may begin in a process where poison entries run one at a time. It is pure.
///
/// A poison entry has been delivered again and again without progress, so it may end every process that begins it. Should a process end
/// during its turn, the entry must be the only one to blame:
///
/// - Entries at their first delivery always begin at once. One of them that ends the process in another's turn comes back as a second
///   delivery, so it can put the blame on another only once.
/// - Redelivered entries, of which one may have ended its last owner, do not begin during a turn.
/// - Entries in hand before the turn get a bounded time to end. The redelivered ones among them that do not end are excused: this delivery
///   does not count against them.
///
/// A poison entry thus delays nothing new, and redelivered entries get their time between poison entries, however many of these there are.
struct PoisonMachine {
    /// Identifies one entry's place at the gate.
    typealias Ticket = UInt64

    /// Classifies an entry by its deliveries.
    enum Standing: Hashable {
        /// The entry has not been delivered before.
        case first
        /// The entry was redelivered.
        case returned
        /// The entry was redelivered so often that it needs a turn of its own; with `isLastChance` it becomes a dead letter when its
        /// process ends once more.
        case poison(isLastChance: Bool)
    }

    /// An action for the driver.
    enum Action: Hashable {
        /// Lets the entry begin.
        case admit(Ticket)
        /// Refuses the entry: it may not begin any more.
        case refuse(Ticket)
        /// Exempts the redelivered entries in hand except this one from blame; the driver then calls `excused`.
        case excuse(Ticket)
        /// Starts a timer; the driver calls `timePassed` after that time.
        case start(Clock, Duration)
    }

    /// The reason for a timer.
    enum Clock: Hashable {
        /// Entries in hand are to end before the poison entry runs.
        case emptying(Ticket)
        /// The poison entry has its turn.
        case turn(Ticket)
        /// Redelivered entries have their time after the poison entry.
        case rest(Ticket)
        /// Poison entries follow one another, beginning with this one.
        case shut(Ticket)
    }

    private enum State: Hashable {
        /// Every entry but poison may begin. Can become `emptying` or `excusing`.
        case open
        /// A poison entry waits for the entries in hand to end. Can become `excusing`.
        case emptying(Ticket)
        /// The entries that did not end are being excused. Can become `turn`.
        case excusing(Ticket)
        /// A poison entry runs. Can become any other.
        case turn(Ticket)
    }

    private let times: PoisonTimes
    private var state = State.open
    private var running: Set<Ticket> = []
    /// The entries that were running when the state became `emptying` and have not ended.
    private var outstanding: Set<Ticket> = []
    /// The redelivered entries that wait for the end of a turn.
    private var waiting: [Ticket] = []
    private var poisonEntries: [Ticket] = []
    /// The poison entries that have not run and become dead letters when their process ends once more.
    private var lastChances: Set<Ticket> = []
    /// The poison entry since which no redelivered entry could begin.
    private var shutBy: Ticket?
    /// True when that poison entry began longer ago than redelivered entries should wait.
    private var isShutLong = false
    /// The poison entry after which redelivered entries have their time.
    private var resting: Ticket?
    private var isStopped = false

    init(times: PoisonTimes = PoisonTimes()) {
        self.times = times
    }

    /// True when a redelivered entry would begin at once, or never. A first delivery does in any case.
    var isOpen: Bool { self.isStopped || self.state == .open }

    /// Admits an entry that need not wait for another. When it returns false, the entry must be announced by ``arrived(_:_:)``.
    mutating func admits(_ ticket: Ticket, _ standing: Standing) -> Bool {
        guard !self.isStopped else { return false }
        switch standing {
        case .first: break
        case .returned: guard self.state == .open else { return false }
        case .poison: return false
        }
        self.running.insert(ticket)
        return true
    }

    mutating func arrived(_ ticket: Ticket, _ standing: Standing) -> [Action] {
        guard !self.isStopped else { return [.refuse(ticket)] }
        guard case .poison(let isLastChance) = standing else {
            if self.admits(ticket, standing) { return [.admit(ticket)] }
            self.waiting.append(ticket)
            return []
        }
        self.poisonEntries.append(ticket)
        if isLastChance { self.lastChances.insert(ticket) }
        return self.state == .open ? self.callNext() : []
    }

    mutating func ended(_ ticket: Ticket) -> [Action] {
        self.running.remove(ticket)
        switch self.state {
        case .turn(ticket): return self.open(after: ticket)
        case .emptying(let poison):
            guard self.outstanding.remove(ticket) != nil, self.outstanding.isEmpty else { return [] }
            return self.excuse(poison)
        default: return []
        }
    }

    /// Records that an entry made progress, so that it is not a poison entry any more.
    mutating func progressed(_ ticket: Ticket) -> [Action] {
        guard self.state == .turn(ticket) else { return [] }
        self.running.insert(ticket)
        return self.open(after: ticket)
    }

    mutating func excused(_ poison: Ticket) -> [Action] {
        guard self.state == .excusing(poison) else { return [] }
        self.state = .turn(poison)
        let isLastChance = self.lastChances.remove(poison) != nil
        let turnMax = isLastChance ? self.times.lastTurnMax : self.times.turnMax
        return [.admit(poison), .start(.turn(poison), turnMax)]
    }

    mutating func timePassed(_ clock: Clock) -> [Action] {
        switch clock {
        case .emptying(let poison):
            return self.state == .emptying(poison) ? self.excuse(poison) : []
        case .turn(let poison):
            guard self.state == .turn(poison) else { return [] }
            self.running.insert(poison)
            return self.rest(after: poison, for: self.times.slowRest)
        case .rest(let poison):
            guard self.resting == poison else { return [] }
            self.resting = nil
            return self.state == .open ? self.callNext() : []
        case .shut(let poison):
            if self.shutBy == poison { self.isShutLong = true }
            return []
        }
    }

    /// Stops the machine: what has not begun may not begin any more.
    mutating func stop() -> [Action] {
        self.isStopped = true
        var refused = self.waiting + self.poisonEntries
        switch self.state {
        case .emptying(let poison), .excusing(let poison):
            refused.append(poison)
            self.state = .open
        case .open, .turn: break
        }
        self.waiting = []
        self.poisonEntries = []
        return refused.map { .refuse($0) }
    }

    private mutating func callNext() -> [Action] {
        guard self.resting == nil, !self.poisonEntries.isEmpty else { return [] }
        let poison = self.poisonEntries.removeFirst()
        var actions: [Action] = []
        if self.shutBy == nil {
            self.shutBy = poison
            actions.append(.start(.shut(poison), self.times.shutMax))
        }
        guard !self.running.isEmpty else { return actions + self.excuse(poison) }
        self.state = .emptying(poison)
        self.outstanding = self.running
        let emptyingMax = self.lastChances.contains(poison) ? self.times.lastEmptyingMax : self.times.emptyingMax
        return actions + [.start(.emptying(poison), emptyingMax)]
    }

    private mutating func excuse(_ poison: Ticket) -> [Action] {
        self.state = .excusing(poison)
        self.outstanding = []
        return [.excuse(poison)]
    }

    /// Begins the turn of the next poison entry, or lets redelivered entries in.
    private mutating func open(after poison: Ticket) -> [Action] {
        guard !self.poisonEntries.isEmpty, self.waiting.isEmpty, !self.isShutLong else {
            return self.rest(after: poison, for: self.times.rest)
        }
        return self.callNext()
    }

    /// Lets redelivered entries in; the next poison entry's turn comes after that time.
    private mutating func rest(after poison: Ticket, for duration: Duration) -> [Action] {
        self.state = .open
        self.resting = poison
        self.shutBy = nil
        self.isShutLong = false
        let admitted = self.waiting
        self.waiting = []
        self.running.formUnion(admitted)
        return admitted.map { .admit($0) } + [.start(.rest(poison), duration)]
    }
}

extension StreamEntry {
    /// Classifies an entry by its deliveries. One that was delivered too often is handled only to become a dead letter, so it is not poison
    /// any more.
    var standing: PoisonMachine.Standing {
        guard self.deliveries > 1 else { return .first }
        guard self.isPoison else { return .returned }
        return .poison(isLastChance: self.deliveries + 1 >= StreamLimits.deliveriesMax)
    }
}
