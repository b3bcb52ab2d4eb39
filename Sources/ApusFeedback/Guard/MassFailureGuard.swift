internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusMetrics
internal import ApusStore
internal import ApusStreams
internal import Logging
internal import Synchronization

/// Keeps a mistake of ours, or of a provider, from deleting devices.
///
/// A token that a provider calls bad may be bad; or the key, the topic or the environment is wrong, and all tokens are called so. So it
/// only becomes suspect: nothing is sent to it, and it is deleted later, unless by then too many of the route's answers were of that kind.
/// Then the route stops and its suspects are kept until an operator decides. All counts live in Redis, so any number of feedback processes
/// reach the same decision, and none of it is lost with a process.
///
/// A token that a provider calls dead is deleted at once, and can be brought back for the undo window. While too many of the route's
/// answers are of that kind the route stops, and such tokens become suspects like the others.
///
/// The owners of such tokens are counted, not the tokens: one user can register any number of bad tokens. Owners of tokens that had just been
/// registered are as many of the answers as any others, but it takes more of them to stop a route: a few accounts cannot.
///
/// A token that its provider accepts in the other environment than the app named is a suspect like the others, because a swapped set-up
/// looks the same. When it is due and the share is below the threshold, it is moved to that environment instead of deleted; in quarantine
/// no token is moved.
///
/// A token for which a message was refused, for a reason that may be the token or the message, goes on getting messages. Once every message
/// was refused for a day it is called bad, and a suspect like the others.
///
/// A token that belongs to another sender, whose key our configuration may have lost, is not deleted either where the provider's traits say
/// so (``ProviderTraits/keepsForeignTokens``): when it is due it is tried again.
final class MassFailureGuard: Sendable {
    private let streams: SendStreams
    private let store: DeviceStore
    private let history: HistoryWriter
    private let rules: GuardRules
    /// The rules for bringing back deleted devices; nil when they cannot be brought back.
    private let undo: DeviceStore.UndoRules?
    private let metrics: FeedbackMetrics
    private let shared: SharedMetrics
    private let logger: Logger
    /// Answers about tokens that are not yet in Redis. When they are lost with the process, or on the way, the guard only becomes more
    /// careful.
    private let answers = Mutex<[RouteNumber: Int]>([:])
    /// The routes whose stop for a fault that the provider names has been logged.
    private let faulty = Mutex<Set<RouteNumber>>([])

    init(
        streams: SendStreams,
        store: DeviceStore,
        history: HistoryWriter,
        rules: GuardRules,
        undo: DeviceStore.UndoRules? = nil,
        metrics: FeedbackMetrics,
        shared: SharedMetrics,
        logger: Logger,
    ) {
        self.streams = streams
        self.store = store
        self.history = history
        self.rules = rules
        self.undo = undo
        self.metrics = metrics
        self.shared = shared
        self.logger = logger
    }

    // MARK: Outcomes

    /// Applies a batch's verdicts about dead and bad tokens as far as the guard allows. Repeating it changes nothing but the number of
    /// answers: a batch that comes again after its dead tokens were deleted has no owner left who tells that its answers were counted, so
    /// they count twice.
    ///
    /// Suspects are on the list before their records say so: after a crash in between the batch is handled again, and no token is marked
    /// that nothing would ever look at. A token whose verdict cannot be applied for a reason of its own is left as it is, and the others
    /// continue.
    ///
    /// - Returns: true when the batch's answers are counted; else the caller counts them with ``countAnswers(of:)``.
    func applyVerdicts(of batch: OutcomeBatch, on route: Route) async throws -> Bool {
        var owned = try await self.ownedVerdicts(batch, on: route)
        let repeated = try await self.noteRefusals(of: batch, on: route)
        owned.bad += repeated
        guard !owned.bad.isEmpty || !owned.dead.isEmpty else {
            try await self.prune(owned.prunable, batch, on: route)
            return false
        }
        try await self.reportAnswers(batch.route)
        let addition = try await self.streams.quarantine.add(
            owned.bad,
            dead: owned.dead.map(\.owned),
            of: batch.answersAboutTokens + repeated.count - owned.mootSuspects,
            on: batch.route,
            rules: self.rules,
        )
        if addition.verdict == .tripped { self.tripped("\(route)", route.provider) }
        try await self.mark(addition.bad + addition.dead, batch, on: route)
        let isBelow = addition.verdict == .below
        try await self.prune(owned.prunable + (isBelow ? owned.dead.map(\.verdict) : []), batch, on: route)
        let refused = owned.bad.count - addition.bad.count + (isBelow ? 0 : owned.dead.count - addition.dead.count)
        if refused > 0 { self.shared.add(Int64(refused), to: self.metrics.verdict(batch.provider, .noRoom)) }
        return true
    }

    /// The verdicts of a batch with the owners of their tokens, by what the guard does with them.
    private struct OwnedVerdicts {
        /// The tokens called bad that a device has.
        var bad: [OwnedToken] = []
        /// The tokens called dead that a device has had as its own since before the verdict.
        var dead: [(owned: OwnedToken, verdict: TokenVerdict)] = []
        /// The dead verdicts that remove no device: of a Live Activity's token, or of a device that is gone.
        var prunable: [TokenVerdict] = []
        /// The number of tokens called bad that no device has any more. Among the answers they would look like good ones.
        var mootSuspects = 0
    }

    /// Reads the owners of a batch's tokens. A token that no device holds any more is not counted.
    private func ownedVerdicts(_ batch: OutcomeBatch, on route: Route) async throws -> OwnedVerdicts {
        let verdicts = (batch.suspects + batch.unregistered).compactMap { verdict in
            QuarantinedToken(verdict).map { (token: $0, verdict: verdict) }
        }
        let store = self.store
        let devices = try await forEachConcurrently(verdicts.map(\.token)) { token in
            try await self.attempt("read", token, route) { () throws(StoreError) in
                try await store.read(route, token.reference)
            }
        }
        var owned = OwnedVerdicts()
        for (index, read) in devices.enumerated() {
            let ((token, verdict), device) = (verdicts[index], read ?? nil)
            if index < batch.deviceSuspects {
                if let device, device.has(tokenDigest: token.tokenDigest) {
                    owned.bad.append(OwnedToken(token, of: device))
                } else {
                    owned.mootSuspects += token.isOfOtherEnvironment ? 0 : 1
                }
            } else if let device, device.isAddressed(by: token.tokenDigest), device.registeredAt <= verdict.asOf {
                owned.dead.append((OwnedToken(token, of: device), verdict))
            } else {
                owned.prunable.append(verdict)
            }
        }
        return owned
    }

    /// Notes refused messages, and forgets those of tokens that were accepted since.
    ///
    /// - Returns: the tokens for which every message has been refused for ``StoreLimits/refusalsMilliseconds``.
    private func noteRefusals(of batch: OutcomeBatch, on route: Route) async throws -> [OwnedToken] {
        let found = try await forEachConcurrently(batch.refusals.compactMap { QuarantinedToken($0) }) { token in
            try await self.noteRefusal(token, on: route)
        }
        return found.compactMap { $0 }
    }

    /// Notes that a message was refused for a token, or accepted; returns the token when it thereby counts as bad.
    private func noteRefusal(_ token: QuarantinedToken, on route: Route) async throws(StoreError) -> OwnedToken? {
        let (store, refused) = (self.store, DeviceRecord.Suspicion.refusedMessage)
        let (reference, digest, at) = (token.reference, token.tokenDigest, token.since)
        let read = try await self.attempt("read", token, route) { () throws(StoreError) in
            try await store.read(route, reference)
        }
        guard let device = read ?? nil, device.isAddressed(by: digest) else { return nil }
        switch (device.record.suspicion, token.reason) {
        case (let noted?, .none) where noted.reason == refused:
            _ = try await self.attempt("forget refusals", token, route) { () throws(StoreError) in
                try await store.forgetRefusals(route, reference, tokenDigest: digest, acceptedAt: at)
            }
        case (let noted?, refused)
        where noted.reason == refused && at.milliseconds(since: noted.since) >= StoreLimits.refusalsMilliseconds:
            let bad = QuarantinedToken(reference: reference, tokenDigest: digest, since: at, reason: .badToken)
            return OwnedToken(bad, of: device)
        case (nil, refused):
            _ = try await self.attempt("note a refusal", token, route) { () throws(StoreError) in
                try await store.noteRefusal(route, reference, tokenDigest: digest, since: at)
            }
        default: break
        }
        return nil
    }

    private func mark(_ tokens: [QuarantinedToken], _ batch: OutcomeBatch, on route: Route) async throws {
        let store = self.store
        let marked = try await forEachConcurrently(tokens) { token in
            try await self.attempt("mark as suspect", token, route) { () throws(StoreError) in
                try await store.markSuspect(
                    route,
                    token.reference,
                    tokenDigest: token.tokenDigest,
                    reason: token.reason,
                    since: token.since,
                )
            }
        }
        let verdicts = batch.suspects + batch.unregistered + batch.refusals
        let words = Dictionary(verdicts.map { ($0.place, $0.providerReason) }) { first, _ in first }
        for case (let token, let result?) in zip(tokens, marked) {
            self.count(result, .suspected, batch.provider)
            let word = words[.device(token.reference)] ?? ""
            await self.history.note(token, result, .suspected, on: route, send: batch.send, providerReason: word)
        }
    }

    private func prune(_ verdicts: [TokenVerdict], _ batch: OutcomeBatch, on route: Route) async throws {
        for verdict in verdicts {
            guard let token = QuarantinedToken(verdict) else { continue }
            let result = try await self.attempt("prune", token, route) { () throws(StoreError) in
                try await self.store.prune(
                    route,
                    token.reference,
                    tokenDigest: verdict.tokenDigest,
                    asOf: verdict.asOf,
                    undo: self.undo,
                    event: self.history.removal(verdict, batch),
                )
            }
            guard let result else { continue }
            self.count(result, .pruned, batch.provider)
            await self.history.note(verdict, result, at: token.reference, batch, route)
        }
    }

    /// Applies an operation to one device; returns nil when it failed for a reason of that device, which is logged and counted.
    ///
    /// - Throws: an error that concerns all devices: Redis is away, or refuses every call.
    private func attempt<Result: Sendable>(
        _ what: String,
        _ token: QuarantinedToken,
        _ route: Route,
        _ body: () async throws(StoreError) -> Result,
    ) async throws(StoreError) -> Result? {
        do throws(StoreError) {
            return try await body()
        } catch {
            guard error.isOfOneDevice else { throw error }
            self.shared.add(to: self.metrics.verdict(route.provider, .failed))
            self.logger.error(
                "a verdict about a token cannot be applied: the device stays as it is",
                metadata: [
                    "step": "\(what)", "route": "\(route)", "partition": "\(token.reference.partition)",
                    "ordinal": "\(token.reference.ordinal)", "error": "\(error)",
                ]
            )
            return nil
        }
    }

    /// Counts the answers of a batch that has no tokens to add. It is called once for each batch.
    func countAnswers(of batch: OutcomeBatch) {
        self.add(max(0, batch.answersAboutTokens - batch.deviceSuspects), batch.route)
    }

    private func add(_ count: Int, _ route: RouteNumber) {
        guard count > 0 else { return }
        self.answers.withLock { $0[route, default: 0] += count }
    }

    private func takeAnswers(_ route: RouteNumber) -> Int {
        self.answers.withLock { $0.removeValue(forKey: route) ?? 0 }
    }

    // MARK: The list of suspects

    /// The time between two checks of suspects: soon after they are due, and no more than once a second.
    private var beat: Duration {
        .milliseconds(min(5_000, max(1_000, self.rules.delayMilliseconds / 20)))
    }

    /// Deletes suspects that are due, until the task is cancelled.
    func run() async {
        while !Task.isCancelled {
            do {
                try await self.sweep()
            } catch {
                self.tellUnchecked(error)
            }
            try? await Task.sleep(for: self.beat)
        }
    }

    private func tellUnchecked(_ error: any Error, on routes: [Route] = []) {
        guard !Task.isCancelled else { return }
        self.logger.warning(
            "suspects could not be checked and will be checked again",
            metadata: ["routes": "\(routes)", "error": "\(error)"]
        )
    }

    /// Gathers what the gauges tell of the routes.
    private struct RouteCounts {
        var quarantinedRoutes: [LabelSlot: Int64] = [:]
        var faultyRoutes: [LabelSlot: Int64] = [:]
        var waiting: [Provider: Int64] = [:]
        var quarantined: [Provider: Int64] = [:]
        /// The providers and labels of routes whose state is not known.
        var unknown: (providers: Set<Provider>, slots: Set<LabelSlot>) = ([], [])
    }

    /// Writes the gathered answers, deletes suspects that are due, and counts the rest. A route whose server does not answer delays no
    /// other; its gauges are absent meanwhile, and those of all routes while their list cannot be read.
    func sweep() async throws {
        let routes = try await self.routes()
        let found = try await forEachConcurrently(routes) { numbered, route in
            let error = await self.failure { () async throws in try await self.sweep(numbered.number, route) }
            return (state: try? await self.streams.quarantine.state(of: numbered.number), error: error)
        }
        var counts = RouteCounts()
        for ((numbered, route), (state, _)) in zip(routes, found) { self.count(state, numbered, route, into: &counts) }
        self.show(counts)
        let unchecked = zip(routes, found).filter { $0.1.error != nil }.map(\.0.route)
        if let error = found.lazy.compactMap(\.error).first { self.tellUnchecked(error, on: unchecked) }
    }

    /// Returns all routes: those of the copies while the master that has the list is away.
    private func routes() async throws -> [(numbered: NumberedRoute, route: Route)] {
        do {
            return try await InstallationCopies(self.streams.client).routes(of: self.streams).compactMap { numbered in
                Route(numbered.name).map { (numbered: numbered, route: $0) }
            }
        } catch {
            var counts = RouteCounts()
            counts.unknown = (Set(Provider.allCases), Set(self.metrics.routes.slots))
            self.show(counts)
            throw error
        }
    }

    private func failure(of body: () async throws -> Void) async -> (any Error)? {
        do {
            try await body()
            return nil
        } catch {
            return error
        }
    }

    private func sweep(_ number: RouteNumber, _ route: Route) async throws {
        try await self.reportAnswers(number)
        do {
            try await self.pruneDue(number, route)
        } catch let error as StoreError where error.code == .sealed {
            // It holds for this app's devices, until the key is there.
            self.logger.error("suspects cannot be read", metadata: ["route": "\(route)", "error": "\(error)"])
        }
    }

    /// Adds the state of a route, if it is known. A route that no dispatcher has configured is nobody's concern: nothing can be sent on it.
    private func count(
        _ state: TokenQuarantine.State?,
        _ numbered: NumberedRoute,
        _ route: Route,
        into counts: inout RouteCounts,
    ) {
        let slot = self.metrics.routes.slot(for: numbered.name)
        guard let state else {
            counts.unknown.providers.insert(route.provider)
            counts.unknown.slots.insert(slot)
            return
        }
        let isConfigured = numbered.isConfigured
        self.note(isConfigured ? state.fault : nil, of: route, numbered.number)
        counts.faultyRoutes[slot, default: 0] += state.fault != nil && isConfigured ? 1 : 0
        counts.quarantinedRoutes[slot, default: 0] += state.quarantinedAt != nil && isConfigured ? 1 : 0
        if state.quarantinedAt == nil {
            counts.waiting[route.provider, default: 0] += Int64(state.tokens)
        } else {
            counts.quarantined[route.provider, default: 0] += Int64(state.tokens)
        }
    }

    private func show(_ counts: RouteCounts) {
        func set(_ gauge: Gauge, to count: Int64?, isKnown: Bool) {
            if isKnown { self.shared.set(gauge, to: count ?? 0) } else { self.shared.setAbsent(gauge) }
        }
        for provider in Provider.allCases {
            let isKnown = !counts.unknown.providers.contains(provider)
            set(self.metrics.suspects[provider], to: counts.waiting[provider], isKnown: isKnown)
            set(self.metrics.quarantinedSuspects[provider], to: counts.quarantined[provider], isKnown: isKnown)
        }
        for slot in counts.unknown.slots.union(counts.faultyRoutes.keys) {
            let isKnown = !counts.unknown.slots.contains(slot)
            set(self.metrics.quarantinedRoutes[slot], to: counts.quarantinedRoutes[slot], isKnown: isKnown)
            set(self.metrics.faultyRoutes[slot], to: counts.faultyRoutes[slot], isKnown: isKnown)
        }
    }

    /// Logs once that recipients of a route wait because the provider, or its third-party authentication, rejects our configuration, or
    /// refuses subroutes.
    private func note(_ fault: String?, of route: Route, _ number: RouteNumber) {
        let isNews = self.faulty.withLock { known in
            guard fault != nil else {
                known.remove(number)
                return false
            }
            return known.insert(number).inserted
        }
        guard isNews, let fault else { return }
        self.logger.error(
            "the provider rejects our configuration: recipients of the route wait",
            metadata: [
                "route": "\(route)", "word": "\(fault)",
                "see": "apus lag, and the runbook ApusRouteFaulty",
            ]
        )
    }

    /// Writes the gathered answers of a route.
    private func reportAnswers(_ route: RouteNumber) async throws {
        let count = self.takeAnswers(route)
        guard count > 0 else { return }
        do {
            try await self.streams.quarantine.count(count, on: route, rules: self.rules)
        } catch {
            self.add(count, route)
            throw error
        }
    }

    private func pruneDue(_ number: RouteNumber, _ route: Route) async throws {
        while !Task.isCancelled {
            let (verdict, due) = try await self.streams.quarantine.due(
                of: number,
                at: route.provider,
                rules: self.rules
            )
            if verdict == .tripped { self.tripped("\(route)", route.provider) }
            guard !due.isEmpty else { return }
            let (store, undo, history) = (self.store, self.undo, self.history)
            let results = try await forEachConcurrently(due) { suspect in
                try await self.attempt("delete, move or clear", suspect, route) { () throws(StoreError) in
                    if suspect.isKept(by: route.provider) {
                        return try await store.clearSuspect(
                            route,
                            suspect.reference,
                            tokenDigest: suspect.tokenDigest
                        )
                    }
                    let event = history.removal(suspect, on: route)
                    return try await store.settle(suspect, on: route, undo: undo, event: event)
                }
            }
            for case (let suspect, let result?) in zip(due, results) {
                let (effect, event): (VerdictEffect, HistoryEvent.Kind) =
                    if suspect.isKept(by: route.provider) {
                        (.cleared, .cleared)
                    } else if suspect.isOfOtherEnvironment {
                        (.environmentLearned, .environmentLearned)
                    } else {
                        (.suspectPruned, .pruned)
                    }
                self.count(result, effect, route.provider)
                await self.history.note(suspect, result, event, on: route)
            }
            let settled = zip(due, results).filter { $0.1 != nil }.map(\.0)
            let failed = zip(due, results).filter { $0.1 == nil }.map(\.0)
            try await self.streams.quarantine.remove(settled, putOff: failed, of: number)
            self.logger.info(
                "suspects deleted, moved or cleared",
                metadata: ["route": "\(route)", "count": "\(settled.count)", "failed": "\(failed.count)"]
            )
        }
    }

    private func tripped(_ route: String, _ provider: Provider) {
        self.shared.add(to: self.metrics.guardTrips[provider])
        self.logger.error(
            "too many tokens are called bad or dead: the route is stopped, its suspects are in quarantine",
            metadata: ["route": "\(route)", "see": "apus quarantine list"]
        )
    }

    private func count(_ result: VerdictResult, _ applied: VerdictEffect, _ provider: Provider) {
        self.shared.add(to: self.metrics.verdict(provider, VerdictEffect(result, applied: applied)))
    }
}

extension OutcomeBatch {
    /// Returns the devices' tokens among those that were called bad.
    fileprivate var deviceSuspects: Int { self.suspects.count { QuarantinedToken($0) != nil } }

    /// Counts the answers about tokens; any other refusal or failure says nothing about the token.
    ///
    /// A bad token that a publisher keeps itself is not counted: it is no suspect, and among the answers it would look like a good one.
    fileprivate var answersAboutTokens: Int {
        let counted = self.counts.filter { $0.outcome == .accepted || $0.outcome == .unregistered }
        // A recipient that was accepted in the other environment is among the accepted, too.
        let suspects = self.suspects.count { $0.reason != .wrongEnvironment && QuarantinedToken($0) != nil }
        return counted.reduce(suspects) { $0 + Int(clamping: $1.count) }
    }
}

extension OwnedToken {
    /// Creates a token of that device's owner.
    init(_ token: QuarantinedToken, of device: StoredDevice) {
        self.init(token, of: device.tokenOwner, registeredAt: device.registeredAt)
    }
}
