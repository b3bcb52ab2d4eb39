internal import ApusCore
internal import ApusMetrics
internal import Logging
internal import ServiceLifecycle

/// Reads the configuration again on request, or when a file behind the settings has changed.
struct SettingsWatcher<Own: ServiceSettings>: Service {
    let settings: LiveSettings<Own>
    let sink: LogSink
    let logger: Logger
    let shared: SharedMetrics
    let metrics: CommonMetrics
    let clock: SystemClock
    let pollInterval: Duration
    /// Each element requests a reload.
    let asked: AsyncStream<Void>

    func run() async throws {
        await cancelWhenGracefulShutdown {
            await withTaskGroup(of: Void.self) { group in
                group.addTask { await self.poll() }
                group.addTask {
                    for await _ in self.asked { self.reload(why: "asked by SIGHUP") }
                }
                await group.waitForAll()
            }
        }
        self.settings.finish()
    }

    /// Sets the metrics of a valid configuration that was just read.
    func announceFirst() {
        self.shared.set(self.metrics.configurationReloadSuccessful, to: 1)
        self.shared.set(self.metrics.configurationReloadSuccess, to: self.clock.now().value)
    }

    private func poll() async {
        var seen = self.settings.fingerprint()
        while !Task.isCancelled {
            try? await Task.sleep(for: self.pollInterval)
            let now = self.settings.fingerprint()
            guard now != seen, !Task.isCancelled else { continue }
            self.reload(why: "a file changed")
            // The new settings may name other files.
            seen = self.settings.fingerprint()
        }
    }

    private func reload(why: String) {
        let before = self.settings.current.common
        // The metrics are set before the settings' users are notified, so that a user that cannot read a file can correct them.
        switch self.settings.reload(announcing: self.announceFirst) {
        case .taken:
            let after = self.settings.current.common
            self.sink.level = after.log.level
            self.logger.notice("configuration taken over", metadata: ["cause": "\(why)"])
            let waiting = Self.needingRestart(before, after)
            if !waiting.isEmpty {
                self.logger.warning(
                    "some changed settings take effect at the next start",
                    metadata: ["settings": .array(waiting.map { .string($0) })],
                )
            }
        case .refused(let error):
            self.shared.set(self.metrics.configurationReloadSuccessful, to: 0)
            self.logger.error(
                "configuration refused, the old one stays",
                metadata: [
                    "cause": "\(why)", "mistakes": .array(error.issues.map { .string($0.description) }),
                ],
            )
        }
    }

    private static func needingRestart(_ before: CommonSettings, _ after: CommonSettings) -> [String] {
        var names: [String] = []
        if before.redis != after.redis { names.append("redis") }
        if before.admin != after.admin { names.append("admin") }
        if before.log.format != after.log.format { names.append("log.format") }
        if before.tracing != after.tracing { names.append("tracing") }
        if before.drainTimeout != after.drainTimeout { names.append("drain_timeout") }
        if before.eventLoops != after.eventLoops { names.append("event_loops") }
        return names
    }
}
