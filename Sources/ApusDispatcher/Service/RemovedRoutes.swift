internal import ApusCore
internal import ApusRedis
internal import ApusService
internal import ApusStreams
internal import Logging

/// Ends what is left of routes that no dispatcher has configured any more: their plans and units are read by nobody else, and would keep
/// their sends under way for ever. The handlers close them as `no_route`.
///
/// A route counts as removed only when no dispatcher of the fleet has had it for long: dispatchers may differ in what they have, and a
/// configuration that lost a route by mistake may be corrected meanwhile.
///
/// The same report confirms the numbers of this process's routes, which Redis may have forgotten.
struct RemovedRoutes: Sendable {
    /// The routes of this process.
    let configured: [NumberedRoute]
    /// A handler for each shard.
    let handlers: [DispatchHandler]
    /// The minimum time for which no dispatcher has had a route in its configuration.
    let absenceMilliseconds: Int64
    let observer: any StreamObserver
    let logger: Logger

    /// The longest between two reports to the fleet; a tenth of the absence if that is less.
    private static let intervalMax = Duration.seconds(30)
    /// The interval between two looks for what is left.
    private static let lookInterval = Duration.milliseconds(200)
    /// The maximum of entries of one stream in hand.
    private static let inHandMax = 2

    private var interval: Duration { min(Self.intervalMax, .milliseconds(self.absenceMilliseconds / 10)) }

    /// Works until it is cancelled.
    func run() async {
        guard let routes = self.handlers.first?.streams.routes else { return }
        var contradicted: [String] = []
        while !Task.isCancelled {
            do {
                let report = try await routes.report(
                    self.configured,
                    absenceMilliseconds: self.absenceMilliseconds
                )
                if report.contradicted != contradicted {
                    contradicted = report.contradicted
                    self.tellContradicted(contradicted)
                }
                // Each round anew, for the configuration may have got one of them back.
                if !report.absent.isEmpty { await self.end(report.absent) }
            } catch {
                guard !Task.isCancelled else { return }
                self.logger.warning("cannot look for removed routes, will repeat", metadata: ["error": "\(error)"])
            }
            try? await Task.sleep(for: self.interval)
        }
    }

    /// Tells of routes of this process that Redis has another number for: it came back from an older state, and others took the numbers.
    private func tellContradicted(_ names: [String]) {
        guard !names.isEmpty else { return }
        self.logger.error(
            "Redis has other numbers for routes of this process: start the dispatchers anew, so that all of them have the same",
            metadata: ["routes": "\(names)"]
        )
    }

    private func end(_ removed: [RouteNumber]) async {
        await withTaskGroup(of: Void.self) { group in
            for handler in self.handlers {
                group.addTask {
                    do {
                        try await self.end(removed, handler)
                    } catch {
                        guard !Task.isCancelled else { return }
                        self.logger.warning(
                            "cannot end the entries of removed routes, will repeat",
                            metadata: ["shard": "\(handler.keys.tag)", "error": "\(error)"]
                        )
                    }
                }
            }
        }
    }

    /// Reads what is left of a shard for as long as a round takes.
    private func end(_ removed: [RouteNumber], _ handler: DispatchHandler) async throws {
        let all = removed.flatMap { route in
            [handler.keys.plan(route)] + Lane.allCases.map { handler.keys.work(route, $0) }
        }
        let streams = try await self.filled(all, handler)
        guard !streams.isEmpty else { return }
        self.logger.notice(
            "ending what is left of routes that no dispatcher has configured",
            metadata: ["streams": "\(streams)"]
        )
        let consumer = ShardConsumer(
            tag: handler.keys.tag,
            streams: handler.streams,
            consumer: handler.consumer,
            feeds: streams.map {
                ShardConsumer.Feed($0, inHandMax: Self.inHandMax, countPerRead: Self.inHandMax, site: handler.site)
            },
            leaseMilliseconds: handler.settings.leaseMilliseconds,
            observer: self.observer,
            logger: self.logger,
        ) { entry, turn in
            try await handler.handle(entry, turn)
        }
        let running = Task { await consumer.run() }
        let end = ContinuousClock.now + max(self.interval, .milliseconds(handler.settings.leaseMilliseconds * 2))
        while !Task.isCancelled, ContinuousClock.now < end {
            try? await Task.sleep(for: Self.lookInterval)
            if let left = try? await self.filled(streams, handler), left.isEmpty { break }
        }
        consumer.stop()
        await running.value
    }

    /// Returns the streams that hold entries.
    private func filled(_ streams: [String], _ handler: DispatchHandler) async throws -> [String] {
        var filled: [String] = []
        for stream in streams where try await handler.streams.entries.count(of: stream, tag: handler.keys.tag) > 0 {
            filled.append(stream)
        }
        return filled
    }
}
