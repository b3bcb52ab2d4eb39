internal import ServiceLifecycle

/// Notifies the service manager at intervals that the process is alive, as long as every event loop responds, so that a
/// stuck process is restarted. It runs until the very end, since draining takes time too.
///
/// Source: sd_watchdog_enabled(3): half the time of `WATCHDOG_USEC` between two notifications.
struct Watchdog: Service {
    let manager: ServiceManager
    let interval: Duration
    let health: EventLoopHealth

    /// Reads the interval from the environment; nil when no service manager watches.
    init?(_ manager: ServiceManager?, environment: [String: String], health: EventLoopHealth) {
        guard let manager, let text = environment["WATCHDOG_USEC"], let microseconds = Int64(text), microseconds > 1
        else {
            return nil
        }
        self.manager = manager
        self.interval = .microseconds(microseconds / 2)
        self.health = health
    }

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                if await self.health.stuckCount() == 0 { self.manager.notify(.alive) }
                try? await Task.sleep(for: self.interval)
            }
        }
    }
}
