internal import ApusCore
internal import ApusMetrics
internal import ApusRedis
internal import Logging
internal import ServiceLifecycle
internal import Synchronization

/// Reads the configuration again on request, or when a file behind the settings has changed.
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
    /// True while Redis does not accept the changed settings, which it may do later although nothing changes here.
    private let awaitsRedis = Flag()

    /// Holds a fact that tasks share.
    private final class Flag: Sendable {
        private let value = Atomic(false)
        var isSet: Bool { self.value.load(ordering: .relaxed) }
        /// Sets the fact, and returns what it was before.
        func exchange(_ value: Bool) -> Bool { self.value.exchange(value, ordering: .relaxed) }
    }

    func run() async throws {
        await cancelWhenGracefulShutdown {
            await withTaskGroup(of: Void.self) { group in
                group.addTask { await self.poll() }
                group.addTask {
                    for await _ in self.asked { await self.reload(why: "asked by SIGHUP") }
                }
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
        // Files that changed while the parts were made anew are seen at the first look; a file that failed is not tried again as it is.
        var seen = self.settings.refusal != nil ? self.settings.fingerprint() : self.settings.fingerprintAtLoad
        while !Task.isCancelled {
            try? await Task.sleep(for: self.pollInterval)
            let now = self.settings.fingerprint()
            guard !Task.isCancelled else { continue }
            guard now != seen else {
                if self.awaitsRedis.isSet { await self.renew(to: self.settings.current) }
                continue
            }
            await self.reload(why: "a file changed")
            seen = self.settings.fingerprintAtLoad
        }
    }

    private func reload(why: String) async {
        switch self.settings.reload() {
        case .taken:
            self.announceSuccess()
            let after = self.settings.current
            self.sink.level = after.common.log.level
            self.logger.notice("configuration taken over", metadata: ["cause": "\(why)"])
            await self.renew(to: after)
        case .refused(let error):
            self.logger.error(
                "configuration refused, the old one stays",
                metadata: [
                    "cause": "\(why)", "mistakes": .array(error.issues.map { .string($0.description) }),
                ],
            )
        }
    }

    /// Asks for new parts if settings differ that running ones cannot take over, unless they could not start with the new ones.
    private func renew(to after: Settings<Own>) async {
        var waiting = Self.needingStart(self.inUse.common, after.common)
        let changed = self.needingRenewal(self.inUse, after)
        if !changed.isEmpty {
            do {
                let issues = after.issuesOfFiles()
                guard issues.isEmpty else { throw SettingsError(issues: issues) }
                try self.renewal.check(after)
                if self.inUse.common.redis != after.common.redis { try await after.common.redis.check() }
                _ = self.awaitsRedis.exchange(false)
                self.settings.refuse(.parts, because: nil)
                if !self.renewal.request(changed) { waiting = changed + waiting }
            } catch {
                let reason = (error as? SettingsError)?.sentence ?? "\(error)"
                self.settings.refuse(.parts, because: "\(changed.joined(separator: ", ")): \(reason)")
                let wasKnown = self.awaitsRedis.exchange(error is RedisError)
                guard !wasKnown || !(error is RedisError) else { return }
                self.logger.error(
                    "the changed settings cannot be started with, the old ones stay",
                    metadata: ["settings": .array(changed.map { .string($0) }), "error": "\(error)"],
                )
            }
        }
        guard !waiting.isEmpty else { return }
        self.logger.warning(
            "some changed settings take effect at the next start",
            metadata: ["settings": .array(waiting.map { .string($0) })],
        )
    }

    /// Returns the changed settings with which the parts must be made anew. Apps are their users' own affair.
    private func needingRenewal(_ before: Settings<Own>, _ after: Settings<Own>) -> [String] {
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
