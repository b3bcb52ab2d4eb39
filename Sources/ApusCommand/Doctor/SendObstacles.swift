package import ApusCore
internal import ApusInstallation
internal import ApusRedis
package import ApusStreams
package import ApusTerminal

/// Finds what keeps a send from going on: `apus watch` and `apus send --wait`.
package struct SendObstacles: Sendable {
    private let streams: SendStreams
    private let hidesReasons: Bool

    /// Creates the search in an installation.
    ///
    /// - Parameter hidesReasons: true for readers who may not see every app, to whom services give no reasons why they are not ready.
    package init(_ streams: SendStreams, hidesReasons: Bool = false) {
        self.streams = streams
        self.hidesReasons = hidesReasons
    }

    /// Returns what keeps an observed send from going on, with cause and cure; nothing when it is under way. What lies on servers that are away,
    /// or what the user of Redis may not read, is left out.
    package func find(_ observed: SendObserver, _ status: SendStatus) async throws -> [SendObstacle] {
        let needed = try await SendDependencies(of: observed.app, routes: status.routes, in: self.streams)
        var due: UnixMilliseconds?
        if status.phase == .scheduled || status.phase == .planning, status.planned == 0, let app = observed.app {
            let send = SendKey(app: app, id: observed.send)
            due = try await RedisError.skippingUnreadable { try await self.streams.control.start(of: send) } ?? nil
        }
        var services: ServiceReport?
        if let processes = needed.processes {
            let stopped = try await RedisError.skippingUnreadable {
                try await self.streams.processes.stopped(patience: Installation.originalPatience)
            }
            let report = ServiceReport(processes, stopped: stopped ?? [:])
            services = self.hidesReasons ? report.withoutReasons : report
        }
        let routes = needed.routes.map { RouteControlReport.Row($0.route, $0.state, $0.failure) }
        return Self.obstacles(status, routes: routes, services: services, due: due)
    }

    /// Returns the obstacles. Pure.
    ///
    /// - Parameters:
    ///   - routes: the states of the send's routes.
    ///   - services: the processes of the services; nil when they are not known.
    ///   - due: the time at which the send begins; nil when it has begun.
    package static func obstacles(
        _ status: SendStatus,
        routes: [RouteControlReport.Row],
        services: ServiceReport?,
        due: UnixMilliseconds? = nil,
    ) -> [SendObstacle] {
        guard !status.isOver else { return [] }
        var obstacles: [SendObstacle] = []
        if let due {
            let sentence = "\(status.send): scheduled, begins at \(due.timestamp)"
            obstacles.append(SendObstacle(id: "scheduled", sentence: sentence))
        }
        if status.phase == .paused {
            let sentence = "\(status.send): paused by an operator; apus resume \(status.send)"
            obstacles.append(SendObstacle(id: "paused", sentence: sentence))
        }
        return obstacles + (services?.obstacles ?? []) + routes.flatMap(\.sendObstacles)
    }
}
