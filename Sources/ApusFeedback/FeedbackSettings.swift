package import ApusService
package import ApusStreams

/// Feedback's own numbers.
package struct FeedbackSettings: ServiceSettings {
    /// How long an owner may be silent before others take its work.
    package var leaseMilliseconds: Int64
    /// Batches of one queue shard in hand at once.
    package var batchesInHandMax: Int
    /// How long the ledger of an ended send is kept.
    package var ledgerMilliseconds: Int64
    /// When suspects are deleted, and when there are too many of them.
    package var guardRules: GuardRules

    /// The rules that hold unless others are configured.
    package static let standardGuardRules = GuardRules(
        windowMilliseconds: 60_000,
        delayMilliseconds: 600_000,
        suspectsMin: 20,
        percentMax: 10,
    )

    /// Settings.
    package init(
        leaseMilliseconds: Int64,
        batchesInHandMax: Int,
        ledgerMilliseconds: Int64,
        guardRules: GuardRules = Self.standardGuardRules,
    ) {
        precondition(batchesInHandMax > 0 && ledgerMilliseconds > 0)
        self.leaseMilliseconds = leaseMilliseconds
        self.batchesInHandMax = batchesInHandMax
        self.ledgerMilliseconds = ledgerMilliseconds
        self.guardRules = guardRules
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
        let standard = Self.standardGuardRules
        let delay = reader.duration(
            "feedback.delete_suspects_after",
            default: .milliseconds(standard.delayMilliseconds),
            in: .seconds(1) ... .seconds(7 * 86_400)
        )
        let window = reader.duration(
            "feedback.suspect_window",
            default: .milliseconds(standard.windowMilliseconds),
            in: .seconds(1) ... .seconds(3_600)
        )
        self.guardRules = GuardRules(
            windowMilliseconds: Int64(window / .milliseconds(1)),
            delayMilliseconds: Int64(delay / .milliseconds(1)),
            suspectsMin: reader.integer("feedback.suspects_min", default: standard.suspectsMin, in: 1...1_000_000),
            percentMax: reader.integer("feedback.suspect_percent", default: standard.percentMax, in: 0...100),
        )
    }
}
