package import ApusService
package import ApusStore
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
    /// How deleted devices can be brought back; nil: not at all.
    package var undo: DeviceStore.UndoRules? = .standard
    /// Which histories of devices are kept; nil: none is written.
    package var history: DeviceStore.HistoryRules?
    /// How long nothing may have happened to a send before it is looked whether anything of it is left.
    package var silenceMilliseconds: Int64 = 3_600_000
    /// When a send under way is told of; nil: never.
    package var progress: ProgressRules?
    /// Where receipts are posted to; nil: nowhere.
    package var webhook: WebhookSettings?

    /// The rules that hold unless others are configured.
    package static let standardGuardRules = GuardRules(
        windowMilliseconds: 60_000,
        delayMilliseconds: 600_000,
        tokensMin: 20,
        percentMax: 10,
        deadPercentMax: 50,
    )

    /// Settings.
    package init(
        leaseMilliseconds: Int64,
        batchesInHandMax: Int,
        ledgerMilliseconds: Int64,
        guardRules: GuardRules = Self.standardGuardRules,
        history: DeviceStore.HistoryRules? = nil,
        progress: ProgressRules? = nil,
    ) {
        precondition(batchesInHandMax > 0 && ledgerMilliseconds > 0)
        self.leaseMilliseconds = leaseMilliseconds
        self.batchesInHandMax = batchesInHandMax
        self.ledgerMilliseconds = ledgerMilliseconds
        self.guardRules = guardRules
        self.history = history
        self.progress = progress
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
        let silence = reader.duration(
            "feedback.sweep_after",
            default: .seconds(3_600),
            in: .seconds(120) ... .seconds(7 * 86_400)
        )
        self.silenceMilliseconds = Int64(silence / .milliseconds(1))
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
            tokensMin: reader.integer("feedback.suspects_min", default: standard.tokensMin, in: 1...1_000_000),
            percentMax: reader.integer("feedback.suspect_percent", default: standard.percentMax, in: 0...100),
            deadPercentMax: reader.integer(
                "feedback.unregistered_percent",
                default: standard.deadPercentMax,
                in: 0...100
            ),
        )
        let undoWindow = reader.duration(
            "feedback.undo_window",
            default: .milliseconds(DeviceStore.UndoRules.standard.keepMilliseconds),
            in: .zero ... .milliseconds(StoreLimits.undoMillisecondsMax)
        )
        let undoMilliseconds = Int64(undoWindow / .milliseconds(1))
        self.undo = undoMilliseconds > 0 ? DeviceStore.UndoRules(keepMilliseconds: undoMilliseconds) : nil
        let keepsHistory = reader.boolean("feedback.history", default: true)
        let keepHistory = reader.duration(
            "feedback.keep_history",
            default: .seconds(7 * 86_400),
            in: .seconds(60) ... .seconds(90 * 86_400)
        )
        let histories = reader.integer(
            "feedback.histories",
            default: StoreLimits.historiesStandard,
            in: 1...100_000_000
        )
        self.history =
            keepsHistory
            ? DeviceStore.HistoryRules(
                keepMilliseconds: Int64(keepHistory / .milliseconds(1)),
                devicesMax: histories
            ) : nil
        let tellsProgress = reader.boolean("feedback.progress", default: true)
        let every = reader.duration(
            "feedback.progress_every",
            default: .seconds(10),
            in: .seconds(1) ... .seconds(3_600)
        )
        let percent = reader.integer("feedback.progress_percent", default: 1, in: 1...100)
        self.webhook = reader.hasSection("feedback.webhook") ? WebhookSettings(reader, at: "feedback.webhook") : nil
        self.progress =
            tellsProgress ? ProgressRules(everyMilliseconds: Int64(every / .milliseconds(1)), percent: percent) : nil
    }
}
