internal import ApusCore
internal import ApusMessages

/// The results of a run since its last report, in the form in which they are written.
struct RunReport: Sendable {
    /// The number of outcomes by kind and reason, at the index `outcome.rawValue * reasons + reason.rawValue`.
    private var cells: [UInt32] = Array(repeating: 0, count: Self.outcomes * Self.reasons)
    /// The tokens that the provider called unregistered.
    var unregistered: [TokenVerdict] = []
    /// The tokens that the provider called bad.
    var suspects: [TokenVerdict] = []
    /// The outcome of each recipient, if the send lists its recipients.
    var recipients: [RecipientOutcome] = []
    /// The times of the first and the last outcome.
    var firstAt: UnixMilliseconds?
    var lastAt: UnixMilliseconds?
    /// The number of outcomes.
    private(set) var count = 0

    private static let outcomes = Outcome.allCases.count + 1
    private static let reasons = Reason.allCases.count + 1

    /// Counts one outcome.
    mutating func add(_ outcome: Outcome, _ reason: Reason, at now: UnixMilliseconds) {
        precondition(outcome != .open)
        self.cells[Int(outcome.rawValue) * Self.reasons + Int(reason.rawValue)] += 1
        self.count += 1
        if self.firstAt == nil { self.firstAt = now }
        self.lastAt = now
    }

    /// Removes everything, but keeps the memory.
    mutating func clear() {
        for index in self.cells.indices { self.cells[index] = 0 }
        self.unregistered.removeAll(keepingCapacity: true)
        self.suspects.removeAll(keepingCapacity: true)
        self.recipients.removeAll(keepingCapacity: true)
        self.firstAt = nil
        self.lastAt = nil
        self.count = 0
    }

    /// Returns the counts that are not zero.
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
