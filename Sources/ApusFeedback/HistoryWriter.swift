internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusStore
internal import ApusStreams
internal import Logging
internal import Synchronization

/// Writes what became of devices into their histories.
///
/// It writes only what costs a fan-out nothing for each notification: verdicts about tokens, which are few; the outcomes of sends
/// that name a few devices or users; and, of sends whose publisher asked for receipts of recipients, what was rejected or failed. Events
/// wait for half a second at most, so that those of one partition take one call; a part of the partitions is written at a time, so that
/// Redis has time for others in between. Histories are best effort: nothing fails with them, and a process that is killed loses the events
/// that wait. What removes a device is written with the removal instead: afterwards the history may be forgotten, and must not begin anew.
final class HistoryWriter: Sendable {
    /// The maximum time that an event waits for others.
    static let pause = Duration.milliseconds(500)
    /// The number of parts that partitions are divided into: each is written once in ``pause``.
    static let parts = 25
    /// Events that may wait. Whoever adds one more writes them first.
    static let waitingMax = 4_096

    private let store: DeviceStore
    /// The rules for the histories that are kept; nil: none is written.
    private let rules: DeviceStore.HistoryRules?
    private let logger: Logger
    private let waiting = Mutex(Waiting())

    /// The events that wait, by the part of their partition.
    private struct Waiting {
        var parts = [[DeviceStore.HistoryEntry]](repeating: [], count: HistoryWriter.parts)
        var count = 0
        /// The writer, while there is nothing to write.
        var sleeper: CheckedContinuation<Void, Never>?

        mutating func take(_ part: Int) -> [DeviceStore.HistoryEntry] {
            defer { self.parts[part] = [] }
            self.count -= self.parts[part].count
            return self.parts[part]
        }

        /// Returns the writer if it sleeps, to be woken.
        mutating func takeSleeper() -> CheckedContinuation<Void, Never>? {
            defer { self.sleeper = nil }
            return self.sleeper
        }
    }

    /// Creates a writer with nothing to write.
    init(store: DeviceStore, rules: DeviceStore.HistoryRules?, logger: Logger) {
        self.store = store
        self.rules = rules
        self.logger = logger
    }

    /// Writes what waits, again and again, until its task is cancelled.
    func run() async {
        while true {
            await self.untilSomethingWaits()
            // Each part once: whatever comes meanwhile is written in this round or in the next one.
            for part in 0..<Self.parts {
                guard (try? await Task.sleep(for: Self.pause / Self.parts)) != nil else { return }
                await self.write(self.waiting.withLock { $0.take(part) })
            }
        }
    }

    /// Sleeps while nothing waits and the task is not cancelled.
    private func untilSomethingWaits() async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let mustSleep = self.waiting.withLock { waiting in
                    guard waiting.count == 0, !Task.isCancelled else { return false }
                    waiting.sleeper = continuation
                    return true
                }
                if !mustSleep { continuation.resume() }
            }
        } onCancel: {
            self.waiting.withLock { $0.takeSleeper() }?.resume()
        }
    }

    /// Writes what waits.
    func flush() async {
        await self.write(self.waiting.withLock { waiting in (0..<Self.parts).flatMap { waiting.take($0) } })
    }

    private func write(_ entries: [DeviceStore.HistoryEntry]) async {
        guard let rules, !entries.isEmpty else { return }
        do throws(StoreError) {
            try await self.store.note(entries, rules)
        } catch {
            self.logger.notice("histories not written", metadata: ["events": "\(entries.count)", "error": "\(error)"])
        }
    }

    private func add(_ entry: DeviceStore.HistoryEntry) async {
        let part = self.store.partition(of: entry) % Self.parts
        let (isFull, sleeper) = self.waiting.withLock { waiting in
            waiting.parts[part].append(entry)
            waiting.count += 1
            return (waiting.count >= Self.waitingMax, waiting.takeSleeper())
        }
        sleeper?.resume()
        if isFull { await self.flush() }
    }

    /// Returns the event of the removal of a device whose token a provider states to be dead; nil when no history is written.
    func removal(_ verdict: TokenVerdict, _ batch: OutcomeBatch) -> DeviceStore.RemovalEvent? {
        self.rules.map { DeviceStore.RemovalEvent(Self.event(.pruned, verdict, batch), $0) }
    }

    /// Returns the event of the removal of a device whose token was under suspicion until its wait was over; nil when no history is written.
    func removal(_ suspect: QuarantinedToken, on route: Route) -> DeviceStore.RemovalEvent? {
        self.rules.map { DeviceStore.RemovalEvent(HistoryEvent(.pruned, of: suspect, on: route), $0) }
    }

    /// Adds what a provider's statement that a token is dead led to, unless that was the removal of the device.
    func note(
        _ verdict: TokenVerdict,
        _ result: VerdictResult,
        at reference: DeviceReference,
        _ batch: OutcomeBatch,
        _ route: Route,
    ) async {
        let kind: HistoryEvent.Kind
        switch result {
        case .applied(let device) where device.isAddressed(by: verdict.tokenDigest): return
        case .applied: kind = .pruned
        case .newerRegistration, .tokenChanged: kind = .kept
        case .unchanged, .gone: return
        }
        await self.note(Self.event(kind, verdict, batch), result, at: reference, on: route)
    }

    /// Adds that a device is under suspicion, or what that led to, unless that was the removal of the device.
    func note(
        _ suspect: QuarantinedToken,
        _ result: VerdictResult,
        _ kind: HistoryEvent.Kind,
        on route: Route,
        send: String = "",
        providerReason: String = "",
    ) async {
        guard case .applied(let device) = result,
            kind != .pruned || !device.isAddressed(by: suspect.tokenDigest)
        else { return }
        var event = HistoryEvent(kind, of: suspect, on: route)
        event.providerReason = providerReason
        event.send = send
        await self.note(event, result, at: suspect.reference, on: route)
    }

    private static func event(
        _ kind: HistoryEvent.Kind,
        _ verdict: TokenVerdict,
        _ batch: OutcomeBatch,
    ) -> HistoryEvent {
        var event = HistoryEvent(kind, at: verdict.asOf, provider: batch.provider)
        event.outcome = .unregistered
        event.reason = verdict.reason
        event.providerReason = verdict.providerReason
        event.send = batch.send
        return event
    }

    /// Adds outcomes that a batch has one by one.
    func noteRecipients(of batch: OutcomeBatch) async {
        guard self.rules != nil, !batch.recipients.isEmpty, let app = try? AppID(batch.app) else { return }
        let own = Route(app: app, provider: batch.provider, environment: batch.environment)
        // Of an audience that is cancelled, expires or is passed over there are as many as devices, and they are no news to any of them.
        let chosen = batch.recipients.filter {
            batch.namesRecipients || $0.outcome == .rejected || $0.outcome == .failed
        }
        // A device that lost its token has the verdict in its history.
        for outcome in chosen where outcome.outcome != .unregistered {
            // Without an id the record was not there: no history is its own.
            guard case .device(let reference) = outcome.place, let device = try? DeviceID(outcome.device) else {
                continue
            }
            let route = outcome.provider.map { Route(app: app, provider: $0, environment: outcome.environment) } ?? own
            var event = HistoryEvent(
                outcome.outcome == .accepted ? .accepted : .ended,
                at: outcome.at,
                provider: route.provider,
            )
            event.outcome = outcome.outcome
            event.reason = outcome.reason
            event.providerReason = outcome.providerReason
            event.providerID = outcome.providerID
            event.send = batch.send
            await self.add(DeviceStore.HistoryEntry(event, of: device, at: reference, on: route))
        }
    }

    private func note(
        _ event: HistoryEvent,
        _ result: VerdictResult,
        at reference: DeviceReference,
        on route: Route,
    ) async {
        guard self.rules != nil else { return }
        do throws(StoreError) {
            let device: StoredDevice?
            if case .applied(let applied) = result {
                device = applied
            } else {
                device = try await self.store.read(route, reference)
            }
            guard let device else { return }
            await self.add(DeviceStore.HistoryEntry(event, of: device))
        } catch {
            self.logger.notice("a history was not written", metadata: ["error": "\(error)"])
        }
    }
}
