/// Who may begin in a process where suspects run alone. Pure.
///
/// A suspect has been delivered again and again without progress: maybe it ends every process that begins it. While it runs, nothing
/// else begins, what is in hand gets a bounded time to end and is excused, so that the suspect's next end counts against nobody else.
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

    private let emptyingMax: Duration
    private let aloneMax: Duration
    private var state = State.open
    private var running: Set<Visitor> = []
    private var waiting: [Visitor] = []
    private var suspects: [Visitor] = []
    /// A suspect took its time without doing anything: the others get theirs before the next one.
    private var resting: Visitor?
    private var isStopped = false

    init(emptyingMax: Duration, aloneMax: Duration) {
        self.emptyingMax = emptyingMax
        self.aloneMax = aloneMax
    }

    /// Whether nobody need wait: entries begin at once, or never.
    var isOpen: Bool { self.isStopped || self.state == .open }

    /// Lets in at once whom nobody need wait for; false: to be asked for by ``arrived(_:isSuspect:)``.
    mutating func admits(_ visitor: Visitor, isSuspect: Bool) -> Bool {
        guard !self.isStopped, !isSuspect, self.state == .open else { return false }
        self.running.insert(visitor)
        return true
    }

    mutating func arrived(_ visitor: Visitor, isSuspect: Bool) -> [Action] {
        guard !self.isStopped else { return [.refuse(visitor)] }
        guard isSuspect else {
            if self.admits(visitor, isSuspect: false) { return [.admit(visitor)] }
            self.waiting.append(visitor)
            return []
        }
        self.suspects.append(visitor)
        return self.state == .open ? self.callNext() : []
    }

    mutating func ended(_ visitor: Visitor) -> [Action] {
        self.running.remove(visitor)
        switch self.state {
        case .alone(visitor): return self.open()
        case .emptying(let suspect) where self.running.isEmpty: return self.excuse(suspect)
        default: return []
        }
    }

    /// It made progress: it is no suspect any more.
    mutating func progressed(_ visitor: Visitor) -> [Action] {
        guard self.state == .alone(visitor) else { return [] }
        self.running.insert(visitor)
        return self.open()
    }

    mutating func excused(_ suspect: Visitor) -> [Action] {
        guard self.state == .excusing(suspect) else { return [] }
        self.state = .alone(suspect)
        return [.admit(suspect), .start(.alone(suspect), self.aloneMax)]
    }

    mutating func timePassed(_ clock: Clock) -> [Action] {
        switch clock {
        case .emptying(let suspect):
            return self.state == .emptying(suspect) ? self.excuse(suspect) : []
        case .alone(let suspect):
            guard self.state == .alone(suspect) else { return [] }
            self.running.insert(suspect)
            self.resting = suspect
            return self.open() + [.start(.rest(suspect), self.aloneMax)]
        case .rest(let suspect):
            guard self.resting == suspect else { return [] }
            self.resting = nil
            return self.state == .open ? self.callNext() : []
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
        guard !self.running.isEmpty else { return self.excuse(suspect) }
        self.state = .emptying(suspect)
        return [.start(.emptying(suspect), self.emptyingMax)]
    }

    private mutating func excuse(_ suspect: Visitor) -> [Action] {
        self.state = .excusing(suspect)
        return [.excuse(suspect)]
    }

    /// The next suspect's turn, or everybody's.
    private mutating func open() -> [Action] {
        self.state = .open
        let next = self.callNext()
        guard self.state == .open else { return next }
        let admitted = self.waiting
        self.waiting = []
        self.running.formUnion(admitted)
        return next + admitted.map { .admit($0) }
    }
}
