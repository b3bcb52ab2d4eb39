package import ApusCore
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

    /// Returns what keeps an observed send from going on, with cause and cure; nothing when it is under way.
    package func find(_ observed: SendObserver, _ status: SendStatus) async throws -> [SendObstacle] {
        let failing = try await self.streams.processes.failingRoutes()
        var states: [RouteControlReport.Row] = []
        for route in try await self.streams.routes.all() {
            // Before a dispatcher has taken it, a send may go to any route of its app that a dispatcher has.
            let isMeant =
                observed.routes?.contains(route.number)
                ?? (Route(route.name)?.app.text == observed.app && route.isConfigured)
            guard isMeant else { continue }
            let state = try await self.streams.routes.state(of: route.number)
            states.append(.init(route, state, failing[route.name]))
        }
        var due: UnixMilliseconds?
        if status.phase == .scheduled || status.phase == .planning, status.planned == 0, let app = observed.app {
            due = try await self.streams.control.start(of: SendKey(app: app, id: observed.send))
        }
        let report = try await ServiceReport(self.streams)
        let services = self.hidesReasons ? report.withoutReasons : report
        return Self.obstacles(status, routes: states, services: services, due: due)
    }

    /// Returns the obstacles. Pure.
    ///
    /// - Parameters:
    ///   - routes: the states of the send's routes.
    ///   - due: the time at which the send begins; nil when it has begun.
    package static func obstacles(
        _ status: SendStatus,
        routes: [RouteControlReport.Row],
        services: ServiceReport,
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
        return obstacles + services.obstacles + routes.flatMap(\.sendObstacles)
    }
}
