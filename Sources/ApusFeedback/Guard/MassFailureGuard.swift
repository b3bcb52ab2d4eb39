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
/// A token that a provider calls bad may be bad; or the key, the topic or the environment is wrong, and all of them are called so. So
/// it only becomes suspect: nothing is sent to it, and it is deleted later, unless by then too many of the route's answers were of that
/// kind. Then the route stops and its suspects are kept until an operator says what to do. All counts live in Redis, so any number of
/// feedbacks come to the same judgement, and none of it is lost with a process.
///
/// A token that a provider calls dead is deleted at once, and can be brought back for the undo window. While too many of the route's answers
/// are of that kind the route stops, and such tokens become suspects like the others.
///
/// What is counted are the owners of such tokens, not the tokens: one user can register as many bad tokens as it likes.
///
/// A token that its provider takes in the other environment than the app named is a suspect like the others, for a swapped set-up looks
/// the same: who is due below the threshold is moved to that environment, instead of deleted, and in quarantine nobody is.
final class MassFailureGuard: Sendable {
    private let streams: SendStreams
    private let store: DeviceStore
    private let history: HistoryWriter
    private let rules: GuardRules
    /// How devices that are deleted can be brought back; nil: not at all.
    private let undo: DeviceStore.UndoRules?
    private let metrics: FeedbackMetrics
    private let shared: SharedMetrics
    private let logger: Logger
    /// Answers that judged tokens and are not yet in Redis. Lost with the process, they only make the guard more careful.
    private let answers = Mutex<[RouteNumber: Int]>([:])
    /// Routes that are stopped for what the provider calls wrong, as far as that was said.
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

    /// Does with a batch's dead and bad tokens what the guard allows. Doing it again changes nothing.
    ///
    /// Suspects are on the list before their records say so: what ends in between is done again with the batch, and no token is marked
    /// that nobody would ever look at. A token whose verdict cannot be applied for a reason of its own is left as it is, and the others go on.
    ///
    /// - Returns: whether the batch's answers are counted; else it is for ``heard(_:)`` to count them.
    func judge(_ batch: OutcomeBatch, on route: Route) async throws -> Bool {
        let held = try await self.held(batch, on: route)
        guard !held.bad.isEmpty || !held.dead.isEmpty else {
            try await self.prune(held.prunable, batch, on: route)
            return false
        }
        let others = self.takeAnswers(batch.route)
        let addition: TokenQuarantine.Addition
        do {
            addition = try await self.streams.quarantine.add(
                held.bad,
                dead: held.dead.map(\.owned),
                of: batch.answersAboutTokens - held.mootSuspects,
                others: others,
                on: batch.route,
                rules: self.rules,
            )
        } catch {
            self.add(others, batch.route)
            throw error
        }
        if addition.verdict == .tripped { self.tripped("\(route)", route.provider) }
        try await self.mark(addition.bad + addition.dead, batch, on: route)
        let isBelow = addition.verdict == .below
        try await self.prune(held.prunable + (isBelow ? held.dead.map(\.verdict) : []), batch, on: route)
        let refused = held.bad.count - addition.bad.count + (isBelow ? 0 : held.dead.count - addition.dead.count)
        if refused > 0 { self.shared.add(Int64(refused), to: self.metrics.verdict(batch.provider, .noRoom)) }
        return true
    }

    /// The verdicts of a batch, by what the guard does with them.
    private struct HeldTokens {
        /// Tokens called bad that a device has.
        var bad: [OwnedToken] = []
        /// Tokens called dead that a device has as its own since before that.
        var dead: [(owned: OwnedToken, verdict: TokenVerdict)] = []
        /// Verdicts of death that cost no device: of a Live Activity's token, or of one that is gone.
        var prunable: [TokenVerdict] = []
        /// Tokens called bad that no device has any more. Among the answers they would look like good ones.
        var mootSuspects = 0
    }

    /// Reads whose the tokens of a batch are. What no device holds any more counts for nothing.
    private func held(_ batch: OutcomeBatch, on route: Route) async throws -> HeldTokens {
        let verdicts = (batch.suspects + batch.unregistered).compactMap { verdict in
            QuarantinedToken(verdict).map { (token: $0, verdict: verdict) }
        }
        let store = self.store
        let devices = try await forEachConcurrently(verdicts.map(\.token)) { token in
            try await self.attempt("read", token, route) { () throws(StoreError) in
                try await store.read(route, token.reference)
            }
        }
        var held = HeldTokens()
        for (index, read) in devices.enumerated() {
            let ((token, verdict), device) = (verdicts[index], read ?? nil)
            if index < batch.deviceSuspects {
                if let device, device.has(tokenDigest: token.tokenDigest) {
                    held.bad.append(OwnedToken(token, of: device.tokenOwner))
                } else {
                    held.mootSuspects += token.isOfOtherEnvironment ? 0 : 1
                }
            } else if let device, device.isAddressed(by: token.tokenDigest), device.registeredAt <= verdict.asOf {
                held.dead.append((OwnedToken(token, of: device.tokenOwner), verdict))
            } else {
                held.prunable.append(verdict)
            }
        }
        return held
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
        for case (let token, let result?) in zip(tokens, marked) {
            self.count(result, .suspected, batch.provider)
            await self.history.note(token, result, .suspected, on: route, send: batch.send)
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
                )
            }
            guard let result else { continue }
            self.count(result, .pruned, batch.provider)
            await self.history.note(verdict, result, at: token.reference, batch, route)
        }
    }

    /// Does something to one device; nil: it failed for a reason of that device, which is logged and counted.
    ///
    /// - Throws: what concerns all devices: Redis is away, or refuses everybody.
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

    /// Notes what a batch says about the route's tokens that has none to count. Once for each batch.
    func heard(_ batch: OutcomeBatch) { self.add(max(0, batch.answersAboutTokens - batch.deviceSuspects), batch.route) }

    private func add(_ count: Int, _ route: RouteNumber) {
        guard count > 0 else { return }
        self.answers.withLock { $0[route, default: 0] += count }
    }

    private func takeAnswers(_ route: RouteNumber) -> Int {
        self.answers.withLock { $0.removeValue(forKey: route) ?? 0 }
    }

    // MARK: The list of suspects

    /// How often suspects are looked at: soon after they are due, and no more than once a second.
    private var beat: Duration {
        .milliseconds(min(5_000, max(1_000, self.rules.delayMilliseconds / 20)))
    }

    /// Deletes suspects who are due, until the task is cancelled.
    func run() async {
        while !Task.isCancelled {
            do {
                try await self.sweep()
            } catch {
                self.logger.warning("suspects not looked at, will repeat", metadata: ["error": "\(error)"])
            }
            try? await Task.sleep(for: self.beat)
        }
    }

    /// Writes down what was heard, deletes who is due, and counts who is left.
    func sweep() async throws {
        var routes: [Provider: Int64] = [:]
        var waiting: [Provider: Int64] = [:]
        var quarantined: [Provider: Int64] = [:]
        var faulty: [Provider: Int64] = [:]
        for (number, name) in try await self.streams.routes.all() {
            guard let route = Route(name) else { continue }
            try await self.tellAnswers(number)
            try await self.pruneDue(number, route)
            let state = try await self.streams.quarantine.state(of: number)
            self.note(state.fault, of: route, number)
            if state.fault != nil { faulty[route.provider, default: 0] += 1 }
            if state.quarantinedAt == nil {
                waiting[route.provider, default: 0] += Int64(state.tokens)
            } else {
                routes[route.provider, default: 0] += 1
                quarantined[route.provider, default: 0] += Int64(state.tokens)
            }
        }
        for provider in Provider.allCases {
            self.shared.set(self.metrics.quarantinedRoutes[provider], to: routes[provider] ?? 0)
            self.shared.set(self.metrics.suspects[provider], to: waiting[provider] ?? 0)
            self.shared.set(self.metrics.quarantinedSuspects[provider], to: quarantined[provider] ?? 0)
            self.shared.set(self.metrics.faultyRoutes[provider], to: faulty[provider] ?? 0)
        }
    }

    /// Says once that recipients of a route wait because the provider, or its partner, calls our set-up wrong.
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
            "the provider calls our set-up wrong: recipients of the route wait",
            metadata: [
                "route": "\(route)", "word": "\(fault)",
                "see": "apus lag, and the runbook ApusRouteFaulty",
            ]
        )
    }

    private func tellAnswers(_ route: RouteNumber) async throws {
        let count = self.takeAnswers(route)
        guard count > 0 else { return }
        do {
            _ = try await self.streams.quarantine.add([], of: 0, others: count, on: route, rules: self.rules)
        } catch {
            self.add(count, route)
            throw error
        }
    }

    private func pruneDue(_ number: RouteNumber, _ route: Route) async throws {
        while !Task.isCancelled {
            let (verdict, due) = try await self.streams.quarantine.due(of: number, rules: self.rules)
            if verdict == .tripped { self.tripped("\(route)", route.provider) }
            guard !due.isEmpty else { return }
            let store = self.store
            let undo = self.undo
            let results = try await forEachConcurrently(due) { suspect in
                try await self.attempt("delete or move", suspect, route) { () throws(StoreError) in
                    try await store.conclude(suspect, on: route, undo: undo)
                }
            }
            for case (let suspect, let result?) in zip(due, results) {
                let isMoved = suspect.isOfOtherEnvironment
                self.count(result, isMoved ? .environmentLearned : .suspectPruned, route.provider)
                await self.history.note(suspect, result, isMoved ? .environmentLearned : .pruned, on: route)
            }
            try await self.streams.quarantine.remove(due, of: number)
            self.logger.info("suspects deleted or moved", metadata: ["route": "\(route)", "count": "\(due.count)"])
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
    /// Tokens of devices among those that were called bad.
    fileprivate var deviceSuspects: Int { self.suspects.count { QuarantinedToken($0) != nil } }

    /// Answers that judged a token: what else is refused or fails says nothing about it.
    ///
    /// A bad token that a publisher keeps itself counts for nothing: it is no suspect, and among the answers it would look like a good one.
    fileprivate var answersAboutTokens: Int {
        let judged = self.counts.filter { $0.outcome == .accepted || $0.outcome == .unregistered }
        // Who was taken in the other environment stands among the accepted, too.
        let suspects = self.suspects.count { $0.reason != .wrongEnvironment && QuarantinedToken($0) != nil }
        return judged.reduce(suspects) { $0 + Int(clamping: $1.count) }
    }
}
