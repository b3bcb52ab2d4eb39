/// How long each state of the quarantine may last.
struct PoisonTimes: Hashable, Sendable {
    /// For what is in hand, to end before a poison entry runs.
    var emptyingMax = StreamLimits.poisonEmptyingMax
    /// For a poison entry alone.
    var aloneMax = StreamLimits.poisonAloneMax
    /// The same two for a poison entry that becomes a dead letter with the next end of its process.
    var lastEmptyingMax = StreamLimits.poisonLastEmptyingMax
    var lastAloneMax = StreamLimits.poisonLastAloneMax
    /// For poison entries, to follow one another.
    var shutMax = StreamLimits.poisonShutMax
    /// For the others, before the next poison entry.
    var rest = StreamLimits.poisonRest
    /// For the others, after a poison entry that made no progress.
    var slowRest = StreamLimits.poisonSlowRest
}

/// Decides which entries may begin in a process where poison entries run alone. Pure.
///
/// A poison entry has been delivered again and again without progress: maybe it ends every process that begins it. While it runs, nothing
/// else begins, what is in hand gets a bounded time to end and is excused, so that the poison entry's next end counts against nobody else.
/// However many poison entries there are, the others get their time between them.
struct PoisonMachine {
    /// One entry's place at the gate.
    typealias Visitor = UInt64

    /// What the driver does.
    enum Action: Hashable {
        /// Let it begin.
        case admit(Visitor)
        /// It may not begin any more.
        case refuse(Visitor)
        /// Excuse everything in hand but this one, then say `excused`.
        case excuse(Visitor)
        /// Say `timePassed` after that.
        case start(Clock, Duration)
    }

    /// What time passes for.
    enum Clock: Hashable {
        /// For what is in hand, to end before that poison entry runs.
        case emptying(Visitor)
        /// For that poison entry alone.
        case alone(Visitor)
        /// For the others, after that poison entry.
        case rest(Visitor)
        /// For poison entries, from that one on.
        case shut(Visitor)
    }

    private enum State: Hashable {
        /// Everybody may begin. Can become `emptying` or `excusing`.
        case open
        /// A poison entry waits for what is in hand to end. Can become `excusing`.
        case emptying(Visitor)
        /// What did not end is being excused. Can become `alone`.
        case excusing(Visitor)
        /// A poison entry runs. Can become any other.
        case alone(Visitor)
    }

    private let times: PoisonTimes
    private var state = State.open
    private var running: Set<Visitor> = []
    private var waiting: [Visitor] = []
    private var poisonEntries: [Visitor] = []
    /// Poison entries that have not run and become dead letters with the next end of their process.
    private var lastChances: Set<Visitor> = []
    /// The poison entry from which on nobody else could begin.
    private var shutBy: Visitor?
    /// That was long ago.
    private var isShutLong = false
    /// The others have their time after that poison entry.
    private var resting: Visitor?
    private var isStopped = false

    init(times: PoisonTimes = PoisonTimes()) {
        self.times = times
    }

    /// Whether no entry has to wait: they begin at once, or never.
    var isOpen: Bool { self.isStopped || self.state == .open }

    /// Admits an entry that need not wait for another; false: it must be announced by ``arrived(_:isPoison:isLastChance:)``.
    mutating func admits(_ visitor: Visitor, isPoison: Bool) -> Bool {
        guard !self.isStopped, !isPoison, self.state == .open else { return false }
        self.running.insert(visitor)
        return true
    }

    /// - Parameter isLastChance: it becomes a dead letter with the next end of its process.
    mutating func arrived(_ visitor: Visitor, isPoison: Bool, isLastChance: Bool = false) -> [Action] {
        guard !self.isStopped else { return [.refuse(visitor)] }
        guard isPoison else {
            if self.admits(visitor, isPoison: false) { return [.admit(visitor)] }
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
        case .alone(visitor): return self.open(after: visitor)
        case .emptying(let poison) where self.running.isEmpty: return self.excuse(poison)
        default: return []
        }
    }

    /// It made progress: it is no poison entry any more.
    mutating func progressed(_ visitor: Visitor) -> [Action] {
        guard self.state == .alone(visitor) else { return [] }
        self.running.insert(visitor)
        return self.open(after: visitor)
    }

    mutating func excused(_ poison: Visitor) -> [Action] {
        guard self.state == .excusing(poison) else { return [] }
        self.state = .alone(poison)
        let isLastChance = self.lastChances.remove(poison) != nil
        let aloneMax = isLastChance ? self.times.lastAloneMax : self.times.aloneMax
        return [.admit(poison), .start(.alone(poison), aloneMax)]
    }

    mutating func timePassed(_ clock: Clock) -> [Action] {
        switch clock {
        case .emptying(let poison):
            return self.state == .emptying(poison) ? self.excuse(poison) : []
        case .alone(let poison):
            guard self.state == .alone(poison) else { return [] }
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
        case .open, .alone: break
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
        let emptyingMax = self.lastChances.contains(poison) ? self.times.lastEmptyingMax : self.times.emptyingMax
        return actions + [.start(.emptying(poison), emptyingMax)]
    }

    private mutating func excuse(_ poison: Visitor) -> [Action] {
        self.state = .excusing(poison)
        return [.excuse(poison)]
    }

    /// Begins the next poison entry's turn, or that of all others.
    private mutating func open(after poison: Visitor) -> [Action] {
        guard !self.poisonEntries.isEmpty, self.waiting.isEmpty, !self.isShutLong else {
            return self.rest(after: poison, for: self.times.rest)
        }
        return self.callNext()
    }

    /// Begins the turn of all others; the next poison entry's comes after that time.
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
