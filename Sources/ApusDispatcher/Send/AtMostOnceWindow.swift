/// Tracks which recipients of a run may have been sent to, for at-most-once delivery.
///
/// Marks precede the sends: a recipient is marked, the mark is made durable with the run's next report, and only then
/// may the recipient be sent to. A process that takes over the unit after a crash cannot know how far its owner came,
/// so recipients that are marked and not done are given up. Marks move through the rows in order, some rows ahead of
/// the sends, so that requests continue while a report is written.
struct AtMostOnceWindow: Sendable {
    /// The maximum number of marked recipients without an outcome, which is what one crash can cost a run.
    static let openMax = 256

    /// The end of the marked rows.
    private(set) var end = 0
    /// The end of the durably marked rows, which may be sent to.
    private(set) var durableEnd = 0
    /// The number of marked rows without an outcome.
    private(set) var open = 0
    private var reportedEnd = 0

    /// Returns true when there are rows that could be marked now.
    func canMove(over done: DoneBitmap) -> Bool { self.end < done.count && self.open < Self.openMax }

    /// Marks as many rows as allowed, for a report. Returns true when there are marks that no report has contained.
    mutating func move(over done: DoneBitmap) -> Bool {
        while self.canMove(over: done) {
            if !done[self.end] { self.open += 1 }
            self.end += 1
        }
        defer { self.reportedEnd = self.end }
        return self.end > self.reportedEnd
    }

    /// Records that the last report is durable.
    mutating func reportWritten() { self.durableEnd = self.reportedEnd }

    /// Records that a row has its outcome.
    mutating func close(_ index: Int) {
        guard index < self.end else { return }
        precondition(self.open > 0)
        self.open -= 1
    }
}
