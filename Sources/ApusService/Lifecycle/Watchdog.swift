internal import ApusCore
internal import NIOCore
internal import ServiceLifecycle

/// Whether the threads that drive sockets still answer.
struct EventLoopHealth: Sendable {
    let eventLoopGroup: any EventLoopGroup

    /// How long an event loop may take to answer before the process counts as stuck.
    static let answerMax = Duration.seconds(1)

    /// How many do not.
    func stuckCount() async -> Int {
        var stuck = 0
        for loop in self.eventLoopGroup.makeIterator() {
            let answered = await firstWithin(Self.answerMax) { (try? await loop.submit {}.get()) != nil }
            if answered != true { stuck += 1 }
        }
        return stuck
    }
}

/// Tells the service manager again and again that the process is alive, as long as every event loop answers: a process that is stuck
/// falls silent, and is started anew. Goes on to the very end, since draining takes time too.
///
/// Source: sd_watchdog_enabled(3): half the time of `WATCHDOG_USEC` between two words.
struct Watchdog: Service {
    let manager: ServiceManager
    let interval: Duration
    let health: EventLoopHealth

    /// nil: nobody wants to know.
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
                if await self.health.stuckCount() == 0 { self.manager.tell(.alive) }
                try? await Task.sleep(for: self.interval)
            }
        }
    }
}
