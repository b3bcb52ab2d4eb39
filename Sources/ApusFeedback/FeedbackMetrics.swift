package import ApusCore
package import ApusMetrics
internal import ApusStore

/// What a provider's word about a token led to.
package enum VerdictEffect: CaseIterable, Hashable, Sendable {
    /// The device was removed.
    case pruned
    /// It registered again since: kept.
    case newerRegistration
    /// Its token is another one by now: kept.
    case tokenChanged
    /// It was gone already.
    case gone
    /// It is not sent to any more, but kept.
    case suspected
    /// It was under suspicion long enough: removed.
    case suspectPruned
    /// The app registered it again, or an operator cleared it: kept.
    case cleared
    /// There was no room for another suspect: kept, and sent to.
    case noRoom
    /// It was moved to the environment in which its token is taken.
    case environmentLearned
    /// It could not be applied to that device: kept as it was.
    case failed

    /// What became of a verdict that, when nothing stands against it, has that effect.
    init(_ result: VerdictResult, applied: VerdictEffect) {
        switch (result, applied) {
        case (.applied, _): self = applied
        case (.unchanged, .suspectPruned), (.unchanged, .environmentLearned): self = .cleared
        case (.unchanged, _): self = applied
        case (.newerRegistration, _): self = .newerRegistration
        case (.tokenChanged, _): self = .tokenChanged
        case (.gone, _): self = .gone
        }
    }
}

/// Why a device was removed.
package enum RemovalCause: Int, ClosedMetricLabel, Hashable {
    /// Its app is gone, as the provider says.
    case unregistered
    /// A provider called its token bad, and nobody objected in time.
    case suspect

    /// `cause`.
    package static let labelNames = ["cause"]
}

/// Why nothing was done about a provider's word.
package enum IgnoredReason: Int, ClosedMetricLabel, Hashable {
    /// The device registered again since.
    case newerRegistration
    /// Its token is another one by now.
    case tokenChanged
    /// There is no such device any more.
    case unknownDevice
    /// The app registered it again, or an operator cleared it.
    case cleared
    /// There was no room for another suspect.
    case noRoom
    /// It could not be applied to that device; the log says why.
    case failed

    /// `cause`.
    package static let labelNames = ["cause"]
}

/// What was noted in a device's record.
package enum DeviceMark: Int, ClosedMetricLabel, Hashable {
    /// It is not sent to any more, but kept.
    case suspected
    /// The environment in which its token is taken.
    case environmentLearned

    /// `change`.
    package static let labelNames = ["change"]
}

/// What receipts tell.
package enum ReceiptLabel: Int, ClosedMetricLabel, Hashable {
    /// Outcomes one by one.
    case recipients
    /// How far the send is.
    case progress
    /// The send is complete.
    case final

    /// `kind`.
    package static let labelNames = ["kind"]
}

/// What became of receipts at the webhook.
package enum WebhookEffect: Int, ClosedMetricLabel, Hashable {
    /// The receiver took it.
    case delivered
    /// The receiver did not take it: posted again later.
    case retried
    /// Given up: a dead letter.
    case dead

    /// `effect`.
    package static let labelNames = ["effect"]
}

/// The metrics of feedback.
package struct FeedbackMetrics: MetricSet {
    package let batches = Counter("apus_feedback_batches_total", "Batches of outcomes that were applied.")
    package let outcomes = CounterBy2<Provider, Outcome>(
        "apus_feedback_outcomes_total",
        "Recipients that ended, as ledgers count them.",
        by: .all,
        .only(Outcome.final)
    )
    package let removed = CounterBy2<Provider, RemovalCause>(
        "apus_feedback_removed_total",
        "Devices removed because of what a provider said about their tokens."
    )
    package let ignored = CounterBy2<Provider, IgnoredReason>(
        "apus_feedback_ignored_total",
        "What providers said about tokens and nothing was done about, by why."
    )
    package let marked = CounterBy2<Provider, DeviceMark>(
        "apus_feedback_marked_total",
        "Devices kept and changed because of what a provider said about their tokens."
    )
    package let guardTrips = CounterBy<Provider>(
        "apus_feedback_guard_trips_total",
        "Times that a route was stopped because too many of its tokens were called bad."
    )
    package let quarantinedRoutes = GaugeBy<Provider>(
        "apus_feedback_quarantined_routes",
        "Routes in quarantine: `apus quarantine list`. The same number on every replica."
    )
    package let faultyRoutes = GaugeBy<Provider>(
        "apus_feedback_faulty_routes",
        "Routes stopped, in part or whole, because the provider calls our set-up wrong: `apus lag` says in which word. "
            + "The same number on every replica."
    )
    package let suspects = GaugeBy<Provider>(
        "apus_feedback_suspect_tokens",
        "Tokens that a provider called bad, and that wait to be deleted. The same number on every replica."
    )
    package let quarantinedSuspects = GaugeBy<Provider>(
        "apus_feedback_quarantined_tokens",
        "Tokens that a provider called bad, and that are kept until an operator decides. The same number on every replica."
    )
    package let applyDelay = Histogram(
        "apus_feedback_apply_delay_seconds",
        "Time from a provider's answer to its effect on the device store.",
        buckets: .queueWait
    )
    package let receipts = CounterBy<ReceiptLabel>("apus_feedback_receipts_total", "Receipts written for publishers.")
    package let webhookReceipts = CounterBy<WebhookEffect>(
        "apus_feedback_webhook_receipts_total",
        "Receipts posted to the webhook, by what became of them."
    )
    package let events = CounterBy2<EventKindLabel, EventEffect>(
        "apus_feedback_events_total",
        "What apps reported of notifications, by what became of it."
    )
    package let sendsLost = Counter(
        "apus_feedback_lost_sends_total",
        "Sends under way that were ended because nothing was left of them."
    )
    package let groupsLost = Counter(
        "apus_feedback_groups_lost_total",
        "Streams or consumer groups that vanished and were made again."
    )
    package let entriesVanished = Counter(
        "apus_feedback_entries_vanished_total",
        "Stream entries that vanished before they were acknowledged."
    )

    /// Declares all of them.
    package init() {}

    /// Where that effect of a provider's word is counted.
    func verdict(_ provider: Provider, _ effect: VerdictEffect) -> Counter {
        switch effect {
        case .pruned: self.removed[provider, .unregistered]
        case .suspectPruned: self.removed[provider, .suspect]
        case .newerRegistration: self.ignored[provider, .newerRegistration]
        case .tokenChanged: self.ignored[provider, .tokenChanged]
        case .gone: self.ignored[provider, .unknownDevice]
        case .cleared: self.ignored[provider, .cleared]
        case .noRoom: self.ignored[provider, .noRoom]
        case .failed: self.ignored[provider, .failed]
        case .suspected: self.marked[provider, .suspected]
        case .environmentLearned: self.marked[provider, .environmentLearned]
        }
    }
}
