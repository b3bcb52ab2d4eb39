internal import ApusCore
internal import ApusMessages
internal import ApusStore
internal import ApusStreams
internal import Logging

/// Tells the histories of devices what became of them.
///
/// What is written, and what is not, is chosen so that a fan-out costs nothing for each notification: verdicts about tokens are few;
/// outcomes one by one are known of sends that name a few devices or users, one call for each, and of those whose publisher asked for
/// receipts per recipient: of these only what was rejected or failed is told. Best effort: nothing fails with it.
struct HistoryWriter: Sendable {
    let store: DeviceStore
    /// Which histories are kept; nil: none is written.
    let rules: DeviceStore.HistoryRules?
    let logger: Logger

    /// Tells what a provider's word that a token is dead led to.
    func note(
        _ verdict: TokenVerdict,
        _ result: VerdictResult,
        at reference: DeviceReference,
        _ batch: OutcomeBatch,
        _ route: Route,
    ) async {
        let kind: HistoryEvent.Kind
        switch result {
        case .applied: kind = .pruned
        case .newerRegistration, .tokenChanged: kind = .kept
        case .unchanged, .gone: return
        }
        var event = HistoryEvent(kind, at: verdict.asOf, provider: batch.provider)
        event.outcome = .unregistered
        event.reason = verdict.reason
        event.providerReason = verdict.providerReason
        event.send = batch.send
        await self.note(event, result, at: reference, on: route)
    }

    /// Tells that a device is under suspicion, or what that led to.
    func note(
        _ suspect: QuarantinedToken,
        _ result: VerdictResult,
        _ kind: HistoryEvent.Kind,
        on route: Route,
        send: String = "",
    ) async {
        guard case .applied = result else { return }
        var event = HistoryEvent(kind, at: suspect.since, provider: route.provider)
        event.reason = suspect.reason
        event.send = send
        await self.note(event, result, at: suspect.reference, on: route)
    }

    /// Tells outcomes that a batch has one by one.
    func noteRecipients(of batch: OutcomeBatch) async {
        guard self.rules != nil, let app = try? AppID(batch.app) else { return }
        let route = Route(app: app, provider: batch.provider, environment: batch.environment)
        // An audience that is cancelled, expires or is passed over is as many calls as devices, and no news of any of them.
        let told = batch.recipients.filter {
            batch.namesRecipients || $0.outcome == .rejected || $0.outcome == .failed
        }
        // Who lost its token was told with the verdict.
        let outcomes = told.filter { $0.outcome != .unregistered }
        guard !outcomes.isEmpty else { return }
        do throws(StoreError) {
            _ = try await forEachConcurrently(outcomes) { outcome in
                guard case .device(let reference) = outcome.place else { return }
                var event = HistoryEvent(
                    outcome.outcome == .accepted ? .accepted : .ended,
                    at: outcome.at,
                    provider: batch.provider,
                )
                event.outcome = outcome.outcome
                event.reason = outcome.reason
                event.providerReason = outcome.providerReason
                event.providerID = outcome.providerID
                event.send = batch.send
                await self.note(event, of: outcome.device, at: reference, on: route)
            }
        } catch {
            self.logger.notice("histories not written", metadata: ["send": "\(batch.send)", "error": "\(error)"])
        }
    }

    private func note(
        _ event: HistoryEvent,
        _ result: VerdictResult,
        at reference: DeviceReference,
        on route: Route,
    ) async {
        guard let rules else { return }
        do throws(StoreError) {
            let device: StoredDevice?
            if case .applied(let applied) = result {
                device = applied
            } else {
                device = try await self.store.read(route, reference)
            }
            guard let device else { return }
            try await self.store.note([event], of: device, rules)
        } catch {
            self.logger.notice("a history was not written", metadata: ["error": "\(error)"])
        }
    }

    private func note(
        _ event: HistoryEvent,
        of device: String,
        at reference: DeviceReference,
        on route: Route,
    ) async {
        // Without an id the record was not there: nobody to tell it of.
        guard let rules, let id = try? DeviceID(device) else { return }
        do throws(StoreError) {
            try await self.store.note([event], of: id, at: reference, on: route, rules)
        } catch {
            self.logger.notice("a history was not written", metadata: ["error": "\(error)"])
        }
    }
}
