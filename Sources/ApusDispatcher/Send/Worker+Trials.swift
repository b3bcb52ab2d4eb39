internal import ApusCore
internal import NIOCore
internal import Synchronization

/// Sends a message to few recipients until its provider has accepted it for one of them.
extension Worker {
    /// Lets a run take part in the trial of its message, if its provider names the fields that it rejects, until it was accepted.
    func joinTrial(_ active: ActiveRun) {
        let context = active.plan.context
        guard context.namesRejectedFields, !context.wasAccepted.load(ordering: .relaxed) else { return }
        let key = SharedTrial.Key(send: active.plan.send.digest, route: context.number.value)
        let shared = self.trials[key] ?? SharedTrial(key, variants: active.run.terms.variants)
        self.trials[key] = shared
        shared.runs += 1
        active.trial = shared
    }

    func leaveTrial(_ active: ActiveRun) {
        guard let shared = active.trial else { return }
        shared.remove(active)
        // Its report may not have reached the ledger.
        if active.hasReportedRejection { shared.trial.reset() }
        active.trial = nil
        shared.runs -= 1
        if shared.runs == 0 { self.trials[shared.key] = nil } else { self.resumeTrial(shared) }
    }

    /// Records what an answer says of a run's message.
    ///
    /// - Parameter outcome: nil for a probe, which carries another message.
    func noteTrial(of active: ActiveRun, _ outcome: DeliveryOutcome?, rejectedField: String = "", variant: Int = 0) {
        guard let shared = active.trial else { return }
        shared.trial.answered()
        switch outcome {
        case .accepted:
            shared.trial.recordAccepted()
            active.plan.context.wasAccepted.store(true, ordering: .relaxed)
        case .rejected:
            if shared.trial.record(rejectedField, variant: variant) { active.run.messageRejected(rejectedField) }
        case .unregistered, .suspect, .deferred, .misconfigured, .lost, nil: break
        }
        self.resumeTrial(shared)
    }

    /// Goes by the ledger's answer to a run that has reported that its message is rejected for every recipient: if the send goes on, the
    /// message was accepted elsewhere.
    func concludeTrial(of active: ActiveRun) {
        guard let shared = active.trial, active.hasReportedRejection else { return }
        active.hasReportedRejection = false
        guard active.run.isSending else { return shared.trial.reset() }
        shared.trial.recordAccepted()
        self.resumeTrial(shared)
    }

    private func resumeTrial(_ shared: SharedTrial) {
        let parked = shared.takeParked()
        guard !parked.isEmpty else { return }
        for active in parked { self.enqueue(active) }
        self.eventLoop.assumeIsolated().execute {
            for active in parked {
                if let route = active.route { self.feed(route, active.plan.lane) }
            }
        }
    }
}
