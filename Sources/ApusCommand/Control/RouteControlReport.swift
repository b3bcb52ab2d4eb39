package import ApusConsole
package import ApusCore
package import ApusStreams

/// Shows and controls routes: `apus lag`, and `pause`, `resume` and `rate` with `--route`.
package struct RouteControlReport: Sendable {
    /// One route.
    package struct Row: Hashable, Sendable {
        /// The route, such as "shop/apns/production".
        package var route: String
        /// The state of the route.
        package var state: RouteState

        /// Creates a row.
        package init(route: String, state: RouteState) {
            self.route = route
            self.state = state
        }

        /// The row as JSON.
        package var json: JSONObject {
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
            if let word = self.state.thirdPartyAuthError { object["partner_fault"] = .string(word) }
            if let fault = self.state.connectionFault {
                object["connection_fault"] = .string(fault.detail)
                object["connection_fault_age_ms"] = .integer(fault.milliseconds)
            }
            if !self.state.refusedSubroutes.isEmpty {
                var refused: JSONObject = [:]
                for (name, word) in self.refusedSubroutes { refused[name] = .string(word) }
                object["refused_subroutes"] = .object(refused)
            }
            if let rate = self.state.ratePerSecond { object["rate_per_second"] = NumberText.json(rate, 3) }
            return object
        }

        private var refusedSubroutes: [(name: String, word: String)] {
            self.state.refusedSubroutes.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
        }

        /// The reasons that hold the route back, in words.
        var condition: String {
            var words: [String] = []
            switch self.state.stop {
            case nil: break
            case .byOperator: words.append("paused")
            case .byGuard: words.append("paused by the mass-failure guard")
            case .byFault(let fault):
                switch fault.kind {
                case .configuration:
                    words.append("paused: the provider answers \(fault.word); correct the configuration, then resume")
                case .credential:
                    words.append(
                        "paused: the provider refuses the credential (\(fault.word)); it resumes once that is corrected"
                    )
                }
            }
            if let fault = self.state.connectionFault {
                words.append("\(fault.detail) (\(NumberText.age(milliseconds: fault.milliseconds)) ago)")
            }
            if let word = self.state.thirdPartyAuthError {
                words.append("devices behind a third party wait: the provider's key for it is wrong (\(word))")
            }
            for (name, word) in self.refusedSubroutes {
                words.append("\(name) waits: the provider answers \(word); it is tried again by itself")
            }
            if self.state.rateLimit.pauseMilliseconds > 0 {
                words.append(
                    "stopped by the provider for \(NumberText.age(milliseconds: self.state.rateLimit.pauseMilliseconds))"
                )
            }
            if self.state.rateLimit.level < 1 { words.append("slowed by refusals") }
            return words.isEmpty ? "not held back" : words.joined(separator: ", ")
        }
    }

    private let streams: SendStreams

    /// Creates the report of an installation's routes.
    package init(_ streams: SendStreams) { self.streams = streams }

    /// Returns all routes.
    package func rows() async throws -> [Row] { try await self.rows(self.streams.routes.all()) }

    /// Performs an operator's command and returns the routes' state afterwards.
    ///
    /// - Parameter name: "app/provider" for every environment, or "app/provider/environment".
    /// - Throws: `CommandFailure` when there is no such route.
    package func perform(_ order: RouteControlCommand, on name: String) async throws -> [Row] {
        let meant = try await self.streams.routes.all(named: name)
        for route in meant { try await self.streams.routes.control(route.number, order) }
        return try await self.rows(meant)
    }

    private func rows(_ routes: [(number: RouteNumber, name: String)]) async throws -> [Row] {
        var rows: [Row] = []
        for route in routes {
            rows.append(Row(route: route.name, state: try await self.streams.routes.state(of: route.number)))
        }
        return rows
    }

    /// Returns the rows as a table.
    package static func table(_ rows: [Row]) -> TextTable {
        var table = TextTable(["ROUTE", ">RATE/S", ">LEVEL", "STATE"])
        for row in rows {
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
    func all(named name: String) async throws -> [(number: RouteNumber, name: String)] {
        let routes = try await self.all()
        let meant = routes.filter { $0.name == name || $0.name.hasPrefix("\(name)/") && name.contains("/") }
        guard !meant.isEmpty else {
            let known = routes.isEmpty ? "none yet" : routes.map(\.name).joined(separator: ", ")
            throw CommandFailure("there is no route \(name); the routes are: \(known)")
        }
        return meant
    }
}
