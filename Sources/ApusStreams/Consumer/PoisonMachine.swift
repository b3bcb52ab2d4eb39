/// How long each state of the gate may last.
struct PoisonTimes: Hashable, Sendable {
    /// For what is in hand, to end before a poison entry runs.
    var emptyingMax = StreamLimits.poisonEmptyingMax
    /// For the turn of a poison entry.
    var turnMax = StreamLimits.poisonTurnMax
    /// The same two for a poison entry that becomes a dead letter with the next end of its process.
    var lastEmptyingMax = StreamLimits.poisonLastEmptyingMax
    var lastTurnMax = StreamLimits.poisonLastTurnMax
    /// For poison entries, to follow one another.
    var shutMax = StreamLimits.poisonShutMax
    /// For entries that came back, before the next poison entry.
    var rest = StreamLimits.poisonRest
    /// For them, after a poison entry that made no progress.
    var slowRest = StreamLimits.poisonSlowRest
}

/// Decides which entries may begin in a process where poison entries run one at a time. Pure.
///
/// A poison entry has been delivered again and again without progress: maybe it ends every process that begins it. Should a process end
/// during its turn, that must be its own doing and nobody else's:
///
/// - Entries at their first delivery always begin at once. One of them that ends the process in the turn of another's comes back as a second
///   delivery, so it can put the blame on the other no second time.
/// - Entries that came back, of which one may be what ended their last owner, do not begin during a turn.
/// - What was in hand before the turn gets a bounded time to end. Of that, what came back before is excused: this delivery does not
///   count against it.
///
/// So a poison entry keeps nothing new waiting. However many poison entries there are, the entries that came back get their time between them.
struct PoisonMachine {
    /// One entry's place at the gate.
    typealias Visitor = UInt64

    /// What the deliveries of an entry say of it.
    enum Standing: Hashable {
        /// It was never delivered before.
        case first
        /// It came back.
        case returned
        /// It came back so often that its turn must be its own; with `isLastChance` it becomes a dead letter with the next end of its process.
        case poison(isLastChance: Bool)
    }

    /// What the driver does.
    enum Action: Hashable {
        /// Let it begin.
        case admit(Visitor)
        /// It may not begin any more.
        case refuse(Visitor)
        /// Excuse what is in hand and came back, but for this one, then say `excused`.
        case excuse(Visitor)
        /// Say `timePassed` after that.
        case start(Clock, Duration)
    }

    /// What time passes for.
    enum Clock: Hashable {
        /// For what is in hand, to end before that poison entry runs.
        case emptying(Visitor)
        /// For the turn of that poison entry.
        case turn(Visitor)
        /// For entries that came back, after that poison entry.
        case rest(Visitor)
        /// For poison entries, from that one on.
        case shut(Visitor)
    }

    private enum State: Hashable {
        /// Everybody but poison may begin. Can become `emptying` or `excusing`.
        case open
        /// A poison entry waits for what was in hand to end. Can become `excusing`.
        case emptying(Visitor)
        /// What did not end is being excused. Can become `turn`.
        case excusing(Visitor)
        /// A poison entry runs. Can become any other.
        case turn(Visitor)
    }

    private let times: PoisonTimes
    private var state = State.open
    private var running: Set<Visitor> = []
    /// Of those that were running when the state became `emptying`, the ones that still are.
    private var outstanding: Set<Visitor> = []
    /// Entries that came back, and wait for the end of a turn.
    private var waiting: [Visitor] = []
    private var poisonEntries: [Visitor] = []
    /// Poison entries that have not run and become dead letters with the next end of their process.
    private var lastChances: Set<Visitor> = []
    /// The poison entry from which on no entry that came back could begin.
    private var shutBy: Visitor?
    /// That was long ago.
    private var isShutLong = false
    /// Entries that came back have their time after that poison entry.
    private var resting: Visitor?
    private var isStopped = false

    init(times: PoisonTimes = PoisonTimes()) {
        self.times = times
    }

    /// Whether an entry that came back would begin at once, or never. A first delivery does in any case.
    var isOpen: Bool { self.isStopped || self.state == .open }

    /// Admits an entry that need not wait for another; false: it must be announced by ``arrived(_:_:)``.
    mutating func admits(_ visitor: Visitor, _ standing: Standing) -> Bool {
        guard !self.isStopped else { return false }
        switch standing {
        case .first: break
        case .returned: guard self.state == .open else { return false }
        case .poison: return false
        }
        self.running.insert(visitor)
        return true
    }

    mutating func arrived(_ visitor: Visitor, _ standing: Standing) -> [Action] {
        guard !self.isStopped else { return [.refuse(visitor)] }
        guard case .poison(let isLastChance) = standing else {
            if self.admits(visitor, standing) { return [.admit(visitor)] }
            self.waiting.append(visitor)
            return []
        }
        self.poisonEntries.append(visitor)
        if isLastChance { self.lastChances.insert(visitor) }
        return self.state == .open ? self.callNext() : []
    }

    mutating func ended(_ visitor: Visitor) -> [Action] {
        self.running.remove(visitor)
        switch self.state {
        case .turn(visitor): return self.open(after: visitor)
        case .emptying(let poison):
            guard self.outstanding.remove(visitor) != nil, self.outstanding.isEmpty else { return [] }
            return self.excuse(poison)
        default: return []
        }
    }

    /// It made progress: it is no poison entry any more.
    mutating func progressed(_ visitor: Visitor) -> [Action] {
        guard self.state == .turn(visitor) else { return [] }
        self.running.insert(visitor)
        return self.open(after: visitor)
    }

    mutating func excused(_ poison: Visitor) -> [Action] {
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

    /// Stops: what has not begun may not begin any more.
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

    private mutating func excuse(_ poison: Visitor) -> [Action] {
        self.state = .excusing(poison)
        self.outstanding = []
        return [.excuse(poison)]
    }

    /// Begins the turn of the next poison entry, or lets in those that came back.
    private mutating func open(after poison: Visitor) -> [Action] {
        guard !self.poisonEntries.isEmpty, self.waiting.isEmpty, !self.isShutLong else {
            return self.rest(after: poison, for: self.times.rest)
        }
        return self.callNext()
    }

    /// Lets in those that came back; the next poison entry's turn comes after that time.
    private mutating func rest(after poison: Visitor, for duration: Duration) -> [Action] {
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
    /// Tells how the entry takes its turn, by its deliveries. One that came too often is handled only to become a dead letter: it is
    /// no poison any more.
    var standing: PoisonMachine.Standing {
        guard self.deliveries > 1 else { return .first }
        guard self.isPoison else { return .returned }
        return .poison(isLastChance: self.deliveries + 1 >= StreamLimits.deliveriesMax)
    }
}
