/// How long each state of the quarantine may last.
struct QuarantineTimes: Hashable, Sendable {
    /// For what is in hand, to end before a suspect runs.
    var emptyingMax = StreamLimits.quarantineEmptyingMax
    /// For a suspect alone.
    var aloneMax = StreamLimits.quarantineAloneMax
    /// The same two for a suspect that the next end of its process buries.
    var lastEmptyingMax = StreamLimits.quarantineLastEmptyingMax
    var lastAloneMax = StreamLimits.quarantineLastAloneMax
    /// For suspects, to follow one another.
    var shutMax = StreamLimits.quarantineShutMax
    /// For the others, before the next suspect.
    var rest = StreamLimits.quarantineRest
    /// For the others, after a suspect that made no progress.
    var slowRest = StreamLimits.quarantineSlowRest
}

/// Who may begin in a process where suspects run alone. Pure.
///
/// A suspect has been delivered again and again without progress: maybe it ends every process that begins it. While it runs, nothing
/// else begins, what is in hand gets a bounded time to end and is excused, so that the suspect's next end counts against nobody else.
/// However many suspects there are, the others get their time between them.
struct QuarantineMachine {
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
        /// For what is in hand, to end before that suspect runs.
        case emptying(Visitor)
        /// For that suspect alone.
        case alone(Visitor)
        /// For the others, after that suspect.
        case rest(Visitor)
        /// For suspects, from that one on.
        case shut(Visitor)
    }

    private enum State: Hashable {
        /// Everybody may begin. Can become `emptying` or `excusing`.
        case open
        /// A suspect waits for what is in hand to end. Can become `excusing`.
        case emptying(Visitor)
        /// What did not end is being excused. Can become `alone`.
        case excusing(Visitor)
        /// A suspect runs. Can become any other.
        case alone(Visitor)
    }

    private let times: QuarantineTimes
    private var state = State.open
    private var running: Set<Visitor> = []
    private var waiting: [Visitor] = []
    private var suspects: [Visitor] = []
    /// Suspects that have not run and that the next end of their process buries.
    private var lastChances: Set<Visitor> = []
    /// The suspect from which on nobody else could begin.
    private var shutBy: Visitor?
    /// That was long ago.
    private var isShutLong = false
    /// The others have their time after that suspect.
    private var resting: Visitor?
    private var isStopped = false

    init(times: QuarantineTimes = QuarantineTimes()) {
        self.times = times
    }

    /// Whether nobody need wait: entries begin at once, or never.
    var isOpen: Bool { self.isStopped || self.state == .open }

    /// Lets in at once whom nobody need wait for; false: to be asked for by ``arrived(_:isSuspect:)``.
    mutating func admits(_ visitor: Visitor, isSuspect: Bool) -> Bool {
        guard !self.isStopped, !isSuspect, self.state == .open else { return false }
        self.running.insert(visitor)
        return true
    }

    /// - Parameter isLastChance: the next end of its process buries it.
    mutating func arrived(_ visitor: Visitor, isSuspect: Bool, isLastChance: Bool = false) -> [Action] {
        guard !self.isStopped else { return [.refuse(visitor)] }
        guard isSuspect else {
            if self.admits(visitor, isSuspect: false) { return [.admit(visitor)] }
            self.waiting.append(visitor)
            return []
        }
        self.suspects.append(visitor)
        if isLastChance { self.lastChances.insert(visitor) }
        return self.state == .open ? self.callNext() : []
    }

    mutating func ended(_ visitor: Visitor) -> [Action] {
        self.running.remove(visitor)
        switch self.state {
        case .alone(visitor): return self.open(after: visitor)
        case .emptying(let suspect) where self.running.isEmpty: return self.excuse(suspect)
        default: return []
        }
    }

    /// It made progress: it is no suspect any more.
    mutating func progressed(_ visitor: Visitor) -> [Action] {
        guard self.state == .alone(visitor) else { return [] }
        self.running.insert(visitor)
        return self.open(after: visitor)
    }

    mutating func excused(_ suspect: Visitor) -> [Action] {
        guard self.state == .excusing(suspect) else { return [] }
        self.state = .alone(suspect)
        let isLastChance = self.lastChances.remove(suspect) != nil
        let aloneMax = isLastChance ? self.times.lastAloneMax : self.times.aloneMax
        return [.admit(suspect), .start(.alone(suspect), aloneMax)]
    }

    mutating func timePassed(_ clock: Clock) -> [Action] {
        switch clock {
        case .emptying(let suspect):
            return self.state == .emptying(suspect) ? self.excuse(suspect) : []
        case .alone(let suspect):
            guard self.state == .alone(suspect) else { return [] }
            self.running.insert(suspect)
            return self.rest(after: suspect, for: self.times.slowRest)
        case .rest(let suspect):
            guard self.resting == suspect else { return [] }
            self.resting = nil
            return self.state == .open ? self.callNext() : []
        case .shut(let suspect):
            if self.shutBy == suspect { self.isShutLong = true }
            return []
        }
    }

    /// Whoever has not begun may not begin any more.
    mutating func stop() -> [Action] {
        self.isStopped = true
        var refused = self.waiting + self.suspects
        switch self.state {
        case .emptying(let suspect), .excusing(let suspect):
            refused.append(suspect)
            self.state = .open
        case .open, .alone: break
        }
        self.waiting = []
        self.suspects = []
        return refused.map { .refuse($0) }
    }

    private mutating func callNext() -> [Action] {
        guard self.resting == nil, !self.suspects.isEmpty else { return [] }
        let suspect = self.suspects.removeFirst()
        var actions: [Action] = []
        if self.shutBy == nil {
            self.shutBy = suspect
            actions.append(.start(.shut(suspect), self.times.shutMax))
        }
        guard !self.running.isEmpty else { return actions + self.excuse(suspect) }
        self.state = .emptying(suspect)
        let emptyingMax = self.lastChances.contains(suspect) ? self.times.lastEmptyingMax : self.times.emptyingMax
        return actions + [.start(.emptying(suspect), emptyingMax)]
    }

    private mutating func excuse(_ suspect: Visitor) -> [Action] {
        self.state = .excusing(suspect)
        return [.excuse(suspect)]
    }

    /// The next suspect's turn, or everybody's.
    private mutating func open(after suspect: Visitor) -> [Action] {
        guard !self.suspects.isEmpty, self.waiting.isEmpty, !self.isShutLong else {
            return self.rest(after: suspect, for: self.times.rest)
        }
        return self.callNext()
    }

    /// Everybody's turn; the next suspect's after that time.
    private mutating func rest(after suspect: Visitor, for duration: Duration) -> [Action] {
        self.state = .open
        self.resting = suspect
        self.shutBy = nil
        self.isShutLong = false
        let admitted = self.waiting
        self.waiting = []
        self.running.formUnion(admitted)
        return admitted.map { .admit($0) } + [.start(.rest(suspect), duration)]
    }
}
