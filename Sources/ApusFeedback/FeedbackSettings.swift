package import ApusService

/// Feedback's own numbers.
package struct FeedbackSettings: ServiceSettings {
    /// How long an owner may be silent before others take its work.
    package var leaseMilliseconds: Int64
    /// Batches of one queue shard in hand at once.
    package var batchesInHandMax: Int
    /// How long the ledger of an ended send is kept.
    package var ledgerMilliseconds: Int64

    /// Settings.
    package init(leaseMilliseconds: Int64, batchesInHandMax: Int, ledgerMilliseconds: Int64) {
        precondition(batchesInHandMax > 0 && ledgerMilliseconds > 0)
        self.leaseMilliseconds = leaseMilliseconds
        self.batchesInHandMax = batchesInHandMax
        self.ledgerMilliseconds = ledgerMilliseconds
    }

    /// Reads them from `feedback.…`; mistakes are noted with the reader.
    package init(_ reader: SettingsReader) {
        let lease = reader.duration("feedback.lease", default: .seconds(10), in: .milliseconds(400) ... .seconds(600))
        let ledger = reader.duration(
            "feedback.keep_ledgers",
            default: .seconds(72 * 3_600),
            in: .seconds(60) ... .seconds(90 * 86_400)
        )
        self.leaseMilliseconds = Int64(lease / .milliseconds(1))
        self.ledgerMilliseconds = Int64(ledger / .milliseconds(1))
        self.batchesInHandMax = reader.integer("feedback.batches_in_hand", default: 16, in: 1...1_024)
    }
}
