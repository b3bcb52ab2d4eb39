internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusMetrics
internal import ApusStore
internal import ApusStreams
internal import Logging
internal import Synchronization

/// Keeps a mistake of ours from deleting devices.
///
/// A token that a provider calls bad may be bad; or the key, the topic or the environment is wrong, and all of them are called so. So
/// it only becomes suspect: nothing is sent to it, and it is deleted later, unless by then too many of the route's answers were of that
/// kind. Then the route stops and its suspects are kept until an operator says what to do. All counts live in Redis, so any number of
/// feedbacks come to the same judgement, and none of it is lost with a process.
///
/// A token that its provider takes in the other environment than the app named is a suspect like the others, for a swapped set-up looks
/// the same: who is due below the threshold is moved to that environment, instead of deleted, and in quarantine nobody is.
final class MassFailureGuard: Sendable {
    private let streams: SendStreams
    private let store: DeviceStore
    private let history: HistoryWriter
    private let rules: GuardRules
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
        metrics: FeedbackMetrics,
        shared: SharedMetrics,
        logger: Logger,
    ) {
        self.streams = streams
        self.store = store
        self.history = history
        self.rules = rules
        self.metrics = metrics
        self.shared = shared
        self.logger = logger
    }

    // MARK: Outcomes

    /// Marks a batch's suspects. Doing it again changes nothing.
    ///
    /// They are on the list before their records say so: what ends in between is done again with the batch, and no token is marked
    /// that nobody would ever look at.
    func suspect(_ batch: OutcomeBatch, on route: Route) async throws {
        let suspects = batch.suspects.compactMap { QuarantinedToken($0) }
        guard !suspects.isEmpty else { return }
        let others = self.takeAnswers(batch.route)
        let result: (verdict: TokenQuarantine.Verdict, taken: [QuarantinedToken])
        do {
            result = try await self.streams.quarantine.add(
                suspects,
                of: batch.answersAboutTokens,
                others: others,
                on: batch.route,
                rules: self.rules,
            )
        } catch {
            self.add(others, batch.route)
            throw error
        }
        if result.verdict == .tripped { self.tripped("\(route)", route.provider) }
        let store = self.store
        let marked = try await forEachConcurrently(result.taken) { suspect in
            try await store.markSuspect(
                route,
                suspect.reference,
                tokenDigest: suspect.tokenDigest,
                reason: suspect.reason,
                since: suspect.since,
            )
        }
        for (suspect, result) in zip(result.taken, marked) {
            self.count(result, .suspected, batch.provider)
            await self.history.note(suspect, result, .suspected, on: route, send: batch.send)
        }
        let refused = suspects.count - result.taken.count
        if refused > 0 { self.shared.add(Int64(refused), to: self.metrics.verdict(batch.provider, .noRoom)) }
    }

    /// Notes what a batch without suspects says about the route's tokens. Once for each batch.
    func heard(_ batch: OutcomeBatch) {
        guard batch.suspects.allSatisfy({ QuarantinedToken($0) == nil }) else { return }
        self.add(batch.answersAboutTokens, batch.route)
    }

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
            let results = try await forEachConcurrently(due) { suspect in
                try await store.conclude(suspect, on: route)
            }
            for (suspect, result) in zip(due, results) {
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
            "too many tokens are called bad: the route is stopped, its suspects are in quarantine",
            metadata: ["route": "\(route)", "see": "apus quarantine list"]
        )
    }

    private func count(_ result: VerdictResult, _ applied: VerdictEffect, _ provider: Provider) {
        self.shared.add(to: self.metrics.verdict(provider, VerdictEffect(result, applied: applied)))
    }
}

extension OutcomeBatch {
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
