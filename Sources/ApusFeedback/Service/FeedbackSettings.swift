internal import ApusCore
package import ApusService
package import ApusStore
package import ApusStreams

/// Holds the settings of feedback.
package struct FeedbackSettings: ServiceSettings {
    /// The time that an owner may be silent before others take over its work.
    package var leaseMilliseconds: Int64
    /// The maximum of batches of one queue shard in hand.
    package var batchesInHandMax: Int
    /// The time that the ledger of an ended send is kept.
    package var ledgerMilliseconds: Int64
    /// The rules for deleting suspects and for stopping their route.
    package var guardRules: GuardRules
    /// The rules for bringing back deleted devices; nil when they cannot be brought back.
    package var undo: DeviceStore.UndoRules? = .default
    /// The rules for histories of devices; nil when none is written.
    package var history: DeviceStore.HistoryRules?
    /// The time without changes after which a send is checked for what is left of it.
    package var silenceMilliseconds: Int64 = 3_600_000
    /// The rules for progress receipts of a send under way; nil when there are none.
    package var progress: ProgressRules?
    /// The webhook that receipts are posted to; nil when there is none.
    package var webhook: WebhookSettings?

    /// The default settings.
    static let defaultGuardRules = GuardRules(
        windowMilliseconds: 60_000,
        delayMilliseconds: 600_000,
        tokensMin: 20,
        percentMax: 10,
        deadPercentMax: 50,
    )

    /// Creates settings.
    package init(
        leaseMilliseconds: Int64,
        batchesInHandMax: Int,
        ledgerMilliseconds: Int64,
        guardRules: GuardRules = Self.defaultGuardRules,
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

    /// Reads the settings from `feedback.…`; mistakes are recorded by the reader.
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
        self.guardRules = Self.guardRules(reader)
        self.undo = Self.undo(reader)
        self.history = Self.history(reader)
        let reportsProgress = reader.boolean("feedback.progress", default: true)
        let every = reader.duration(
            "feedback.progress_every",
            default: .seconds(10),
            in: .seconds(1) ... .seconds(3_600)
        )
        let percent = reader.integer("feedback.progress_percent", default: 1, in: 1...100)
        self.webhook = reader.hasSection("feedback.webhook") ? WebhookSettings(reader, at: "feedback.webhook") : nil
        self.progress =
            reportsProgress ? ProgressRules(everyMilliseconds: Int64(every / .milliseconds(1)), percent: percent) : nil
    }

    /// Reads the rules for deleting suspects and for stopping their route.
    package static func guardRules(_ reader: SettingsReader) -> GuardRules {
        let defaults = Self.defaultGuardRules
        let delay = reader.duration(
            "feedback.delete_suspects_after",
            default: .milliseconds(defaults.delayMilliseconds),
            in: .seconds(1) ... .seconds(7 * 86_400)
        )
        let window = reader.duration(
            "feedback.suspect_window",
            default: .milliseconds(defaults.windowMilliseconds),
            in: .seconds(1) ... .seconds(3_600)
        )
        return GuardRules(
            windowMilliseconds: Int64(window / .milliseconds(1)),
            delayMilliseconds: Int64(delay / .milliseconds(1)),
            tokensMin: reader.integer("feedback.suspects_min", default: defaults.tokensMin, in: 1...1_000_000),
            percentMax: reader.integer("feedback.suspect_percent", default: defaults.percentMax, in: 0...100),
            deadPercentMax: reader.integer(
                "feedback.unregistered_percent",
                default: defaults.deadPercentMax,
                in: 0...100
            ),
        )
    }

    /// Reads how devices can be brought back that are deleted for their provider's word; nil: not at all.
    package static func undo(_ reader: SettingsReader) -> DeviceStore.UndoRules? {
        let window = reader.duration(
            "feedback.undo_window",
            default: .milliseconds(DeviceStore.UndoRules.default.keepMilliseconds),
            in: .zero ... .milliseconds(StoreLimits.undoMillisecondsMax)
        )
        let milliseconds = Int64(window / .milliseconds(1))
        return milliseconds > 0 ? DeviceStore.UndoRules(keepMilliseconds: milliseconds) : nil
    }

    /// Reads for how long, and of how many devices, histories are kept; nil: none is written.
    package static func history(_ reader: SettingsReader) -> DeviceStore.HistoryRules? {
        let isKept = reader.boolean("feedback.history", default: true)
        let keep = reader.duration(
            "feedback.keep_history",
            default: .seconds(7 * 86_400),
            in: .seconds(60) ... .milliseconds(StoreLimits.historyMillisecondsMax)
        )
        let count = reader.integer("feedback.histories", default: StoreLimits.historiesDefault, in: 1...100_000_000)
        guard isKept else { return nil }
        return DeviceStore.HistoryRules(keepMilliseconds: Int64(keep / .milliseconds(1)), devicesMax: count)
    }

    /// Reads the authorities of the webhook's certificate, and uses none of them.
    package static func issues(ofFilesIn settings: Settings<Self>) -> [SettingsIssue] {
        guard let webhook = settings.own.webhook, webhook.address.isSecure else { return [] }
        return SettingsIssue.issues(ofAuthoritiesIn: webhook.caFile, key: "feedback.webhook.ca_file")
    }
}
