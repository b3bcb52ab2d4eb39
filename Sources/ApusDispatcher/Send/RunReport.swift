internal import ApusCore
internal import ApusMessages

/// What a run has learnt since it last reported, in the form in which it is written.
struct RunReport: Sendable {
    /// Outcomes by kind and reason: `outcome.rawValue * reasons + reason.rawValue`.
    private var cells: [UInt32] = Array(repeating: 0, count: Self.outcomes * Self.reasons)
    /// Tokens said to be dead.
    var unregistered: [TokenVerdict] = []
    /// Tokens said to be bad.
    var suspects: [TokenVerdict] = []
    /// One by one, if the send lists them.
    var recipients: [RecipientOutcome] = []
    /// When the first and the last ended.
    var firstAt: UnixMilliseconds?
    var lastAt: UnixMilliseconds?
    /// How many outcomes there are.
    private(set) var count = 0

    private static let outcomes = Outcome.allCases.count + 1
    private static let reasons = Reason.allCases.count + 1

    /// Counts one.
    mutating func add(_ outcome: Outcome, _ reason: Reason, at now: UnixMilliseconds) {
        precondition(outcome != .open)
        self.cells[Int(outcome.rawValue) * Self.reasons + Int(reason.rawValue)] += 1
        self.count += 1
        if self.firstAt == nil { self.firstAt = now }
        self.lastAt = now
    }

    /// Empties it, keeping its memory.
    mutating func clear() {
        for index in self.cells.indices { self.cells[index] = 0 }
        self.unregistered.removeAll(keepingCapacity: true)
        self.suspects.removeAll(keepingCapacity: true)
        self.recipients.removeAll(keepingCapacity: true)
        self.firstAt = nil
        self.lastAt = nil
        self.count = 0
    }

    /// The counts that are not zero.
    func counts(provider: Provider) -> [OutcomeCount] {
        var counts: [OutcomeCount] = []
        for outcome in Outcome.final {
            for reason in Reason.allCases {
                let count = self.cells[Int(outcome.rawValue) * Self.reasons + Int(reason.rawValue)]
                guard count > 0 else { continue }
                counts.append(OutcomeCount(provider: provider, outcome: outcome, reason: reason, count: UInt64(count)))
            }
        }
        return counts
    }
}
