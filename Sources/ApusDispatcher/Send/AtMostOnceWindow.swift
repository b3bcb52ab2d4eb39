/// Tracks which recipients of a run may have been sent to, when nobody may be sent to twice.
///
/// Marks go before the sends: a recipient is marked, the mark is made durable with the run's next report, and only then may it be
/// sent to. Who takes the unit over after a crash cannot know how far its owner came, so what is marked and not done is given up.
/// Marks move through the rows in order, some ahead of the sends, so that the wire does not run empty while a report is written.
struct AtMostOnceWindow: Sendable {
    /// Recipients that may be marked and without an outcome: what one crash can cost a run.
    static let openMax = 256

    /// Rows before this are marked.
    private(set) var end = 0
    /// Rows before this are marked durably: they may be sent to.
    private(set) var durableEnd = 0
    /// Marked rows without an outcome.
    private(set) var open = 0
    private var reportedEnd = 0

    /// Whether there are rows that could be marked now.
    func canMove(over done: DoneBitmap) -> Bool { self.end < done.count && self.open < Self.openMax }

    /// Marks as many rows as may be; for a report. Whether there are marks that no report had yet.
    mutating func move(over done: DoneBitmap) -> Bool {
        while self.canMove(over: done) {
            if !done[self.end] { self.open += 1 }
            self.end += 1
        }
        defer { self.reportedEnd = self.end }
        return self.end > self.reportedEnd
    }

    /// The last report is durable.
    mutating func reportWritten() { self.durableEnd = self.reportedEnd }

    /// A row got its outcome.
    mutating func close(_ index: Int) {
        guard index < self.end else { return }
        precondition(self.open > 0)
        self.open -= 1
    }
}
