package import ApusCore
internal import ApusRedis
package import ApusStreams

/// Holds what a send depends on beside its own shard: the processes of the services, and the routes of its recipients. What lies on servers
/// that are away is left out after a second, as the status of the send does not depend on it, and so is what the user of Redis may not read.
package struct SendDependencies: Sendable {
    /// A route on which recipients of the send may wait.
    package struct RouteCondition: Sendable {
        /// The route.
        package let route: NumberedRoute
        /// The state of the route.
        package let state: RouteState
        /// The failure of the route's provider, as dispatchers see it; nil when it works, as far as is known.
        package let failure: FailingRoute?

        /// The reasons for which recipients on the route wait.
        package var obstacles: [RouteObstacle] {
            self.state.obstacles(self.failure, unconfiguredMilliseconds: self.route.unconfiguredMilliseconds)
        }
    }

    /// The processes that have reported within a day; nil when the server that lists them is away, or the user may not read the list.
    package let processes: [ReportedProcess]?
    /// The routes, in the order of their numbers.
    package let routes: [RouteCondition]

    /// Reads what a send depends on.
    ///
    /// - Parameters:
    ///   - app: the app of the send; nil when it is not known.
    ///   - numbers: the routes on which its recipients are looked for. Nil while no dispatcher has taken it, or when no ledger tells, as of a
    ///     direct send: its recipients may be on any route of its app, also on one that dispatchers have lost within a day.
    package init(of app: String?, routes numbers: [RouteNumber]?, in streams: SendStreams) async throws {
        let patience = Installation.originalPatience
        async let listed = RedisError.skippingUnreadable { try await streams.processes.all(patience: patience) }
        async let numbered = RedisError.skippingUnreadable {
            try await InstallationCopies(streams.client).routes(of: streams)
        }
        let processes = try await listed
        let meant = (try await numbered ?? []).filter { route in
            numbers?.contains(route.number) ?? (Route(route.name)?.app.text == app && !route.isRemoved)
        }
        let states = try await withThrowingTaskGroup(of: (RouteNumber, RouteState?).self) { group in
            for route in meant {
                group.addTask {
                    let state = try await RedisError.skippingUnreadable {
                        try await streams.routes.state(of: route.number, patience: patience)
                    }
                    return (route.number, state)
                }
            }
            return try await group.reduce(into: [RouteNumber: RouteState]()) { $0[$1.0] = $1.1 }
        }
        let failing = ServiceProcesses.failingRoutes(of: processes ?? [])
        self.processes = processes
        self.routes = meant.compactMap { route in
            states[route.number].map { RouteCondition(route: route, state: $0, failure: failing[route.name]) }
        }
    }
}
