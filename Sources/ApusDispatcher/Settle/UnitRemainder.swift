internal import ApusCore
internal import ApusMessages
internal import ApusStreams

/// Divides the recipients of a unit by what its journal says of them. Pure.
///
/// In a send that may go out once only, a recipient that is marked and has no outcome may have been sent to: it ends as unknown, and must
/// never be sent to again.
struct UnitRemainder: Hashable {
    /// Recipients without an outcome that may have been sent to.
    let markedCount: UInt64
    /// Recipients that were certainly not sent to.
    let untouched: WorkUnit.Recipients

    /// Reads a journal: the done bits and, of a send that may go out once only, as many marked ones.
    init(_ unit: WorkUnit, journal: UnitJournal?) {
        let count = unit.recipients.count
        let bits = journal?.bitmap ?? []
        let done = DoneBitmap(count: count, journal: bits)
        let marked = DoneBitmap(count: count, journal: Array(bits.dropFirst(DoneBitmap.byteCount(of: count))))
        self.markedCount = UInt64((0..<count).count { marked[$0] && !done[$0] })
        self.untouched = unit.recipients.keeping { !done[$0] && !marked[$0] }
    }

    /// Counts the recipients that are closed: those that may have been sent to as unknown, the others as the caller says.
    func counts(_ provider: Provider, _ outcome: Outcome, _ reason: Reason) -> [OutcomeCount] {
        [
            OutcomeCount(provider: provider, outcome: .failed, reason: .unknown, count: self.markedCount),
            OutcomeCount(
                provider: provider,
                outcome: outcome,
                reason: reason,
                count: UInt64(self.untouched.count),
            ),
        ].filter { $0.count > 0 }
    }
}
