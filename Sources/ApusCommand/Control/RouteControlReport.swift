package import ApusCore
internal import ApusInstallation
internal import ApusRedis
package import ApusStreams
package import ApusTerminal

/// Shows and controls routes: `apus lag`, and `pause`, `resume` and `rate` with `--route`.
package struct RouteControlReport: Sendable {
    /// One route.
    package struct Row: Hashable, Sendable {
        /// The route, "<app>/<provider>/<environment>".
        package var route: String
        /// The state of the route.
        package var state: RouteState
        /// The failure of the route's provider, as dispatchers see it; nil when it works, as far as is known.
        package var failure: FailingRoute?
        /// The time for which no dispatcher has had the route in its configuration; nil while one has it.
        package var unconfiguredMilliseconds: Int64?
        /// False when nobody can tell whether a dispatcher has the route, because the list of routes does not answer.
        package var isConfigurationKnown = true
        /// False when the shard that has the state of the route does not answer; the state says nothing then.
        package var isReachable = true

        /// Creates a row.
        package init(route: String, state: RouteState, failure: FailingRoute? = nil) {
            self.route = route
            self.state = state
            self.failure = failure
        }

        /// Creates the row of a route.
        init(_ route: NumberedRoute, _ state: RouteState, _ failure: FailingRoute?) {
            self.init(route: route.name, state: state, failure: failure)
            self.unconfiguredMilliseconds = route.unconfiguredMilliseconds
            self.isConfigurationKnown = route.isConfigurationKnown
        }

        /// The row as JSON.
        package var json: JSONObject {
            guard self.isReachable else { return ["route": .string(self.route), "unreachable": .bool(true)] }
            var object: JSONObject = [
                "route": .string(self.route), "paused": .bool(self.state.isPaused),
                "level": NumberText.json(self.state.rateLimit.level, 3),
                "cut_ms": .integer(self.state.rateLimit.pauseMilliseconds),
                "rate_overridden": .bool(self.state.isOverridden),
            ]
            switch self.state.stop {
            case nil: break
            case .byOperator: object["paused_by"] = "operator"
            case .byGuard: object["paused_by"] = "guard"
            case .byFault(let fault):
                object["paused_by"] = .string(fault.kind.rawValue)
                object["paused_for"] = .string(fault.word)
            }
            if let word = self.state.thirdPartyAuthError { object["third_party_auth_error"] = .string(word) }
            if let fault = self.state.connectionFault {
                object["connection_fault"] = .string(fault.detail)
                object["connection_fault_age_ms"] = .integer(fault.milliseconds)
            }
            if !self.state.refusedSubroutes.isEmpty {
                var refused: JSONObject = [:]
                for (name, word) in self.refusedSubroutes { refused[name] = .string(word) }
                object["refused_subroutes"] = .object(refused)
            }
            if let failure {
                object["provider_failure"] = .string(failure.word.isEmpty ? "no answer" : failure.word)
                object["provider_failure_ms"] = .integer(failure.milliseconds)
            }
            if let unconfiguredMilliseconds { object["unconfigured_ms"] = .integer(unconfiguredMilliseconds) }
            if !self.isConfigurationKnown { object["configuration_unknown"] = .bool(true) }
            if let rate = self.state.ratePerSecond { object["rate_per_second"] = NumberText.json(rate, 3) }
            return object
        }

        private var refusedSubroutes: [(name: String, word: String)] {
            self.state.refusedSubroutes.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
        }

        /// The state of the route in words: what holds it back, and the cure.
        var condition: String {
            guard self.isReachable else { return "its shard does not answer" }
            let slowed = self.state.rateLimit.level < 1 ? ["slowed by refusals"] : []
            let words = self.obstacles.map(\.sentence) + slowed
            let text = words.isEmpty ? "not held back" : words.joined(separator: ", ")
            return self.isConfigurationKnown ? text : "\(text) (unknown whether it is still configured)"
        }

        /// One reason for which recipients on the route wait.
        package struct Obstacle: Hashable, Sendable {
            /// The cause.
            package var cause: String
            /// The cure; empty when the route goes on by itself.
            package var cure = ""

            /// The cause and the cure.
            package var sentence: String { self.cure.isEmpty ? self.cause : "\(self.cause); \(self.cure)" }
        }

        /// True when the route was removed from all configurations on purpose, as far as can be told.
        package var isRemoved: Bool {
            (self.unconfiguredMilliseconds ?? 0) >= StreamLimits.removedRouteMilliseconds
        }

        private var routeObstacles: [RouteObstacle] {
            self.state.obstacles(self.failure, unconfiguredMilliseconds: self.unconfiguredMilliseconds)
        }

        /// The reasons for which recipients on the route wait, none of which is a mere lack of speed.
        package var obstacles: [Obstacle] {
            self.routeObstacles.map { Self.words(about: $0, route: self.route) }
        }

        /// The same reasons, as those for which a send waits.
        var sendObstacles: [SendObstacle] {
            self.routeObstacles.map { obstacle in
                SendObstacle(
                    id: "\(self.route) \(obstacle.code.rawValue) \(obstacle.detail)",
                    sentence: "\(self.route): \(Self.words(about: obstacle, route: self.route).sentence)"
                )
            }
        }

        private static func words(about obstacle: RouteObstacle, route: String) -> Obstacle {
            switch obstacle {
            case .notConfigured(let milliseconds):
                let age = NumberText.age(milliseconds: milliseconds)
                let cause = "no dispatcher has had it in its configuration for \(age)"
                let cure =
                    "what waits for it fails as no_route after dispatcher.removed_route_after: put it back, or let it end"
                return .init(cause: cause, cure: cure)
            case .pausedByOperator:
                return .init(cause: "paused by an operator", cure: "apus resume --route \(route)")
            case .pausedByGuard:
                let cure = "see apus quarantine list, then apus quarantine restore or confirm --route \(route)"
                return .init(cause: "paused by the mass-failure guard", cure: cure)
            case .configurationRefused(let word):
                let cure = "correct the configuration, then apus resume --route \(route)"
                return .init(cause: "paused: the provider answers \(word)", cure: cure)
            case .credentialRefused(let word):
                let cure = "correct what apus credentials check names; it resumes by itself"
                return .init(cause: "paused: the provider refuses the credential (\(word))", cure: cure)
            case .unreachable(let fault):
                return .init(cause: "\(fault.detail) (\(NumberText.age(milliseconds: fault.milliseconds)) ago)")
            case .failing(let failure):
                let age = NumberText.age(milliseconds: failure.milliseconds)
                if failure.isUnreachable {
                    let cure =
                        "it tries again by itself, and what it has in hand waits: correct that, or what lies between it and the provider"
                    return .init(cause: "a dispatcher cannot send, for \(age): \(failure.word)", cure: cure)
                }
                let answer = failure.word.isEmpty ? "gives no answer" : "fails with \(failure.word)"
                let cure = "it is tried again by itself, and recipients wait for it: see the provider's status page"
                return .init(cause: "the provider \(answer), for \(age)", cure: cure)
            case .thirdPartyAuth(let word):
                return .init(cause: "devices behind a third party wait: the provider's key for it is wrong (\(word))")
            case .subrouteRefused(let name, let word):
                let cause = "messages for \(name) wait: the provider answers \(word)"
                let cure =
                    "they are tried again within a quarter of an hour, and at once with apus resume --route \(route)"
                return .init(cause: cause, cure: cure)
            case .pausedByProvider(let milliseconds):
                return .init(cause: "stopped by the provider for \(NumberText.age(milliseconds: milliseconds))")
            }
        }
    }

    private let streams: SendStreams
    private let reach: Reachability

    /// Creates the report of an installation's routes.
    ///
    /// - Parameter reach: the parts of the installation to look at; nil for all.
    package init(_ streams: SendStreams, within reach: Reachability? = nil) {
        self.streams = streams
        self.reach = reach ?? Reachability(shards: streams.keyspace.queueShards)
    }

    /// Returns all routes.
    ///
    /// - Parameter known: the routes, when they have been read already.
    package func rows(among known: [NumberedRoute]? = nil) async throws -> [Row] {
        if let known { return try await self.rows(known) }
        return try await self.rows(self.numbered())
    }

    /// Returns the routes that have a number.
    private func numbered() async throws -> [NumberedRoute] {
        try await InstallationCopies(self.streams.client).routes(of: self.streams)
    }

    /// Returns the routes of an app, or all routes for nil.
    ///
    /// - Parameter routes: all routes.
    /// - Throws: `CommandFailure` when the app has none.
    package func rows(of app: AppID?, among routes: [NumberedRoute]) async throws -> [Row] {
        guard let app else { return try await self.rows(routes) }
        let meant = routes.filter { $0.name.hasPrefix("\(app)/") }
        guard !meant.isEmpty else {
            let apps = Set(routes.compactMap { $0.name.split(separator: "/").first.map { String($0) } }).sorted()
            let suggestion = closest(to: app.text, among: apps).map { "; did you mean \($0)?" } ?? ""
            let known =
                apps.isEmpty
                ? "no dispatcher has had any yet" : "the apps with routes are: \(apps.joined(separator: ", "))"
            throw CommandFailure("\(app) has no routes; \(known)\(suggestion)")
        }
        return try await self.rows(meant)
    }

    /// Performs an operator's command, after it was entered in the audit trail, and returns the routes' state afterwards.
    ///
    /// - Parameter name: "app/provider" for every environment, or "app/provider/environment".
    /// - Throws: `CommandFailure` when there is no such route; `StreamError` when it is done, and a failover may forget it.
    package func perform(_ order: RouteControlCommand, on name: String, by someone: Operator) async throws -> [Row] {
        let meant = try await self.streams.routes.all(named: name)
        var unconfirmed: StreamError?
        for route in meant {
            try await self.streams.audit.record(
                AuditEntry(
                    "route.\(order.name)",
                    of: route.name,
                    app: Route(route.name)?.app.text ?? "",
                    detail: order.detail,
                    by: someone
                )
            )
            do {
                try await self.streams.routes.control(route.number, order)
            } catch let error as StreamError {
                // It is done, and so it is to be on the other routes.
                unconfirmed = error
            }
        }
        if let unconfirmed { throw unconfirmed }
        return try await self.rows(meant)
    }

    private func rows(_ routes: [NumberedRoute]) async throws -> [Row] {
        let failing = try await self.reach.has(.services) ? self.streams.processes.failingRoutes() : [:]
        var rows: [Row] = []
        for route in routes {
            guard self.reach.has(route.number) else {
                var row = Row(route, RouteState(), nil)
                row.isReachable = false
                rows.append(row)
                continue
            }
            rows.append(Row(route, try await self.streams.routes.state(of: route.number), failing[route.name]))
        }
        return rows
    }

    /// Returns the rows as a table, or a sentence that there are none.
    ///
    /// - Parameter app: the app to which they belong; nil for all routes.
    package static func lines(_ rows: [Row], of app: AppID?) -> [String] {
        guard rows.isEmpty else { return Self.table(rows).lines }
        return [
            app.map { "\($0) has no route: no dispatcher has made one" } ?? "no dispatcher has made a route yet"
        ]
    }

    /// Returns the rows as a table.
    package static func table(_ rows: [Row]) -> TextTable {
        var table = TextTable(["ROUTE", ">RATE/S", ">LEVEL", "STATE"])
        for row in rows {
            guard row.isReachable else {
                table.add([row.route, "", "", row.condition])
                continue
            }
            let rate = row.state.ratePerSecond.map { NumberText.rate($0) } ?? "any"
            table.add([
                row.route, row.state.isOverridden ? "\(rate) (operator)" : rate,
                "\(Int((row.state.rateLimit.level * 100).rounded()))%", row.condition,
            ])
        }
        return table
    }
}

extension Routes {
    /// Returns the routes of a name.
    ///
    /// - Throws: `CommandFailure` when there is no such route.
    func all(named name: String) async throws -> [NumberedRoute] {
        let routes = try await self.all()
        let meant = routes.filter { $0.name == name || $0.name.hasPrefix("\(name)/") && name.contains("/") }
        guard !meant.isEmpty else {
            let known = routes.isEmpty ? "none yet" : routes.map(\.name).joined(separator: ", ")
            throw CommandFailure("there is no route \(name); the routes are: \(known)")
        }
        return meant
    }
}
