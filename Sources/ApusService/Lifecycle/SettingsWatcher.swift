internal import ApusCore
internal import ApusMetrics
internal import ApusRedis
internal import Logging
internal import ServiceLifecycle
internal import Synchronization

/// Reads the configuration again on request, or when a file behind it has changed and is the same at two looks in a row, and decides what
/// becomes of it: the running parts take it over, new parts are asked for, or former settings stay in use. Nothing else asks for new parts.
struct SettingsWatcher<Own: ServiceSettings>: Service {
    let settings: LiveSettings<Own>
    /// The settings with which the parts of the service were made.
    let inUse: Settings<Own>
    let sink: LogSink
    let logger: Logger
    let shared: SharedMetrics
    let metrics: CommonMetrics
    let clock: SystemClock
    let pollInterval: Duration
    /// Each element requests a reload.
    let asked: AsyncStream<Void>
    let renewal: Renewal<Own>
    /// True while the decision may be another one later although nothing changes here: it waits for Redis, or for a provider.
    private let isWaiting = Flag()

    /// Holds a fact that tasks share.
    private final class Flag: Sendable {
        private let value = Atomic(false)
        var isSet: Bool { self.value.load(ordering: .relaxed) }
        func set(_ value: Bool) { self.value.store(value, ordering: .relaxed) }
    }

    func run() async throws {
        // A provider that is being asked is not waited for at the end.
        await untilShutdown(endingWithin: ShutdownLimits.closingMax) {
            await withTaskGroup(of: Void.self) { group in
                group.addTask { await self.poll() }
                group.addTask {
                    for await _ in self.asked { self.reload(why: "asked by SIGHUP") }
                }
                group.addTask { await self.follow() }
                await group.waitForAll()
            }
        }
        self.settings.finish()
    }

    /// Sets the time of a valid configuration that was just read.
    func announceSuccess() {
        self.shared.set(self.metrics.configurationReloadSuccess, to: self.clock.now().value)
    }

    /// Sets the gauge that tells whether the configuration is in use as it is in its files.
    func collect() {
        self.shared.set(self.metrics.configurationReloadSuccessful, to: self.settings.refusal == nil ? 1 : 0)
    }

    private func poll() async {
        var polls = 0
        while !Task.isCancelled {
            try? await Task.sleep(for: self.pollInterval)
            guard !Task.isCancelled else { return }
            polls += 1
            switch self.settings.lookForChange() {
            case .changed: self.reload(why: "a file changed")
            case .unfinished: break
            case .unchanged:
                if self.settings.failure is RedisError,
                    polls.isMultiple(of: Self.pollsPerAttempt(afterFailures: self.settings.failureCount))
                {
                    self.reload(why: "Redis may accept it by now")
                } else if self.isWaiting.isSet {
                    self.renewal.look()
                }
            }
        }
    }

    /// Returns the number of polls before settings that Redis has made parts fail with are tried again. An attempt interrupts the service.
    static func pollsPerAttempt(afterFailures count: Int) -> Int { 12 << min(max(0, count - 1), 5) }

    private func reload(why: String) {
        switch self.renewal.change({ self.settings.reload() }) {
        // The new parts look at the files themselves.
        case nil: break
        case .taken?:
            self.announceSuccess()
            self.sink.level = self.settings.current.common.log.level
            self.logger.notice("configuration taken over", metadata: ["cause": "\(why)"])
        case .refused(let error)?:
            self.logger.error(
                "configuration refused, the old one stays",
                metadata: [
                    "cause": "\(why)", "mistakes": .array(error.issues.map { .string($0.description) }),
                ],
            )
        }
    }

    /// Decides about the newest settings after each change, and again while they wait for Redis or for a provider.
    private func follow() async {
        var review = SettingsReview()
        var (reviewed, reviewedAt) = (0, ContinuousClock.now)
        var toldReason: String?
        for await _ in self.renewal.looks {
            // Settings with which parts have failed are decided about once they are read again.
            guard self.settings.failure == nil, !self.renewal.isRequested else { continue }
            // In this order: settings that are read meanwhile are looked at next.
            let change = self.renewal.changes
            let newest = self.settings.current
            let isNew = change != reviewed
            if isNew || review.isDue(atAge: ContinuousClock.now - reviewedAt) {
                review = await self.renewal.review(newest)
                guard !Task.isCancelled else { return }
                (reviewed, reviewedAt) = (change, .now)
                self.settings.refuse(.credentials, because: review.refusal)
                self.noteTakenOver(newest, review)
            }
            let changed = self.needingRenewal(newest) + review.renewals
            let obstacle = changed.isEmpty ? nil : await self.obstacle(to: newest, review)
            guard !Task.isCancelled else { return }
            guard self.renewal.changes == change else { continue }
            let reason = obstacle.map { ($0 as? SettingsError)?.sentence ?? "\($0)" }
            // Settings that parts have failed with stay refused until parts are ready with them: another attempt is no success yet.
            if reason != nil || changed.isEmpty || self.settings.failureCount == 0 {
                self.settings.refuse(.parts, because: reason.map { "\(changed.joined(separator: ", ")): \($0)" })
            }
            self.isWaiting.set(obstacle is RedisError || review.retryInterval != nil)
            var waiting = Self.needingStart(self.inUse.common, newest.common)
            if let reason {
                if isNew || reason != toldReason { self.logRefusal(of: changed, reason) }
            } else if self.renewal.isPossible, !changed.isEmpty {
                self.renewal.request(changed, at: change)
            } else {
                waiting = changed + waiting
            }
            toldReason = reason
            guard isNew, !waiting.isEmpty else { continue }
            self.logger.warning(
                "some changed settings take effect at the next start",
                metadata: ["settings": .array(waiting.map { .string($0) })],
            )
        }
    }

    /// Returns the reason why new parts are not to be made with the settings; nil when they could start.
    private func obstacle(to settings: Settings<Own>, _ review: SettingsReview) async -> (any Error)? {
        do {
            // New parts would use a credential that the provider refuses.
            guard review.refusals.isEmpty else { throw CredentialsNotReady() }
            let issues = settings.issuesOfFiles()
            guard issues.isEmpty else { throw SettingsError(issues: issues) }
            let redis = settings.common.redis
            if let opening = self.renewal.opening {
                // Parts wait for a Redis that is away, but nothing would bring back the settings with which it is reached.
                try await redis.check(mustAnswer: redis != self.inUse.common.redis, opening)
            }
            return nil
        } catch {
            return error
        }
    }

    private func logRefusal(of changed: [String], _ reason: String) {
        self.logger.error(
            "the changed settings cannot be started with, the old ones stay",
            metadata: ["settings": .array(changed.map { .string($0) }), "error": "\(reason)"],
        )
    }

    /// Records what the running parts have taken over of settings.
    private func noteTakenOver(_ newest: Settings<Own>, _ review: SettingsReview) {
        var inForce = self.settings.inForce
        if review.isComplete {
            inForce.common.apps = newest.common.apps
            inForce.common.publishers = newest.common.publishers
        } else {
            for app in review.appsInUse { inForce.common.apps[app] = newest.common.apps[app] }
        }
        inForce.files = self.inUse.files + newest.files
        self.settings.inForce = inForce
    }

    /// Returns the changed settings with which the parts must be made anew. Apps and publishers are the parts' own affair.
    private func needingRenewal(_ newest: Settings<Own>) -> [String] {
        let (before, after) = (self.inUse, newest)
        var names: [String] = []
        if before.own != after.own { names.append(self.settings.service.section) }
        if before.common.redis != after.common.redis { names.append("redis") }
        if before.common.admin != after.common.admin { names.append("admin") }
        if before.common.tracing != after.common.tracing { names.append("tracing") }
        if before.common.drainTimeout != after.common.drainTimeout { names.append("drain_timeout") }
        return names
    }

    /// Returns the changed settings that belong to the process.
    private static func needingStart(_ before: CommonSettings, _ after: CommonSettings) -> [String] {
        var names: [String] = []
        if before.log.format != after.log.format { names.append("log.format") }
        if before.eventLoops != after.eventLoops { names.append("event_loops") }
        return names
    }
}

/// The settings cannot be used before the credentials are.
private struct CredentialsNotReady: Error, CustomStringConvertible {
    var description: String { "they wait until every credential is good" }
}
