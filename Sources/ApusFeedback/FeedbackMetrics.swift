package import ApusCore
internal import ApusMessages
package import ApusMetrics
package import ApusService
internal import ApusStore

/// Names the effect of a provider's verdict about a token.
package enum VerdictEffect: CaseIterable, Hashable, Sendable {
    /// The device was removed.
    case pruned
    /// The device was kept, because it has registered again since.
    case newerRegistration
    /// The device was kept, because it has another token.
    case tokenChanged
    /// The device was gone already.
    case gone
    /// The device was kept, but nothing is sent to it.
    case suspected
    /// The device was removed, because it was under suspicion long enough.
    case suspectPruned
    /// The device was kept, because the app registered it again, an operator cleared it, or it is tried again.
    case cleared
    /// The device was kept and is sent to, because there was no room for another suspect.
    case noRoom
    /// The device was moved to the environment that accepts its token.
    case environmentLearned
    /// The verdict could not be applied to that device, which was kept as it was.
    case failed

    /// Returns the effect that a result of the store has in metrics; `applied` is the effect of a verdict that was applied.
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

/// Names the reason why a device was removed.
package enum RemovalCause: Int, ClosedMetricLabel, Hashable {
    /// The provider says that its app is gone.
    case unregistered
    /// A provider called its token bad, and nobody objected in time.
    case suspect

    /// The label `cause`.
    package static let labelNames = ["cause"]
}

/// Names the reason why a provider's verdict had no effect.
package enum IgnoredReason: Int, ClosedMetricLabel, Hashable {
    /// The device registered again since.
    case newerRegistration
    /// The device has another token.
    case tokenChanged
    /// The device does not exist any more.
    case unknownDevice
    /// The app registered it again, an operator cleared it, or it is tried again.
    case cleared
    /// There was no room for another suspect.
    case noRoom
    /// The verdict could not be applied to that device; the log says why.
    case failed

    /// The label `cause`.
    package static let labelNames = ["cause"]
}

/// Names the change of a device's record.
package enum DeviceMark: Int, ClosedMetricLabel, Hashable {
    /// Nothing is sent to the device any more, but it is kept.
    case suspected
    /// The environment that accepts its token was recorded.
    case environmentLearned

    /// The label `change`.
    package static let labelNames = ["change"]
}

/// Names the kind of a receipt.
package enum ReceiptLabel: Int, ClosedMetricLabel, Hashable {
    /// The receipt reports outcomes one by one.
    case recipients
    /// The receipt reports the progress of a send.
    case progress
    /// The receipt reports the end of a send.
    case final

    /// The label `kind`.
    package static let labelNames = ["kind"]
}

/// Names the result of posting receipts to the webhook.
package enum WebhookEffect: Int, ClosedMetricLabel, Hashable {
    /// The receiver accepted them.
    case delivered
    /// The receiver did not accept them, so they are posted again later.
    case retried
    /// They were given up and became dead letters.
    case dead
    /// They were removed before they were accepted: receipts are kept for three days.
    case expired

    /// The label `effect`.
    package static let labelNames = ["effect"]
}

/// Names the kind of a reported event in metrics.
package enum EventKindLabel: Int, ClosedMetricLabel, Hashable {
    /// The notification arrived.
    case received
    /// A person opened it.
    case opened
    /// A person swept it away.
    case dismissed
    /// A person chose an action of the notification.
    case action

    /// The label `kind`.
    package static let labelNames = ["kind"]

    init(_ kind: ClientEvent.Kind) {
        switch kind {
        case .received: self = .received
        case .opened: self = .opened
        case .dismissed: self = .dismissed
        case .action: self = .action
        }
    }
}

/// Names the result of counting an event in metrics.
package enum EventEffect: Int, ClosedMetricLabel, Hashable {
    /// The event was counted.
    case counted
    /// The event was reported before.
    case known
    /// The event was not counted, because there was no room to remember it.
    case full

    /// The label `effect`.
    package static let labelNames = ["effect"]
}

/// Names the state of a service's process in metrics.
package enum ProcessState: Int, ClosedMetricLabel, Hashable {
    /// The process reports itself.
    case running
    /// The process has stopped reporting without a shutdown, and none took its place.
    case missing

    /// The label `state`.
    package static let labelNames = ["state"]
}

/// The metrics of feedback.
package struct FeedbackMetrics: MetricSet {
    package let batches = Counter("apus_feedback_batches_total", "Batches of outcomes that were applied.")
    package let outcomes = CounterBy2<Provider, Outcome>(
        "apus_feedback_outcomes_total",
        "Recipients that ended, each once, as ledgers count them: also those that no route leads to.",
        by: .all,
        .only(Outcome.final)
    )
    package let reasons = CounterBy2<Provider, Reason>(
        "apus_feedback_outcome_reasons_total",
        "Recipients that ended with another outcome than accepted, by reason."
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
    package let processes = GaugeBy2<ServiceName, ProcessState>(
        "apus_feedback_service_processes",
        "Processes of each service, as they report themselves in Redis: `apus services`. The same number on every replica."
    )
    package let quarantinedRoutes: GaugeBy<LabelSlot>
    package let faultyRoutes: GaugeBy<LabelSlot>
    package let failingRoutes: GaugeBy<LabelSlot>
    /// The routes, which are the slots of the three before it.
    package let routes = ConfiguredLabel("route", valuesMax: Self.routesMax)
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
    /// The unit is milliseconds.
    package let webhookFailingSince = Gauge(
        "apus_feedback_webhook_failing_since_timestamp_seconds",
        "When the receipts in hand that the webhook has not taken for longest were first posted, or 0 when it takes all.",
        scale: .thousandths
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

    /// The maximum number of routes with time series of their own.
    package static let routesMax = 100

    /// Declares all metrics.
    package init() {
        let rest = "The same on every replica; routes beyond the first hundred count as other."
        self.quarantinedRoutes = GaugeBy(
            "apus_feedback_quarantined_routes",
            "Routes in quarantine: `apus quarantine list`. \(rest)",
            by: .configured(self.routes)
        )
        self.faultyRoutes = GaugeBy(
            "apus_feedback_faulty_routes",
            "Routes stopped, in part or whole, because the provider calls our set-up wrong: `apus lag` names the topic and the word. \(rest)",
            by: .configured(self.routes)
        )
        self.failingRoutes = GaugeBy(
            "apus_feedback_failing_routes",
            "Routes whose provider fails, does not answer or gives no connection or access token, as dispatchers report: `apus lag`. \(rest)",
            by: .configured(self.routes)
        )
    }

    /// Returns the counter of that effect of a provider's verdict.
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
