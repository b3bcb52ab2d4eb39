package import ApusCore
internal import ApusRedis

/// An operator's command for a route.
package enum RouteControlCommand: Hashable, Sendable {
    /// Sends nothing.
    case pause
    /// Sends again.
    case resume
    /// Sends that many per second, whatever the configuration says; nil for no limit.
    case rate(Double?)
    /// Sends at the configured rate.
    case defaultRate

    /// The command's name: "pause", "resume" or "rate".
    package var name: String {
        switch self {
        case .pause: "pause"
        case .resume: "resume"
        case .rate, .defaultRate: "rate"
        }
    }

    /// The command's argument in words; empty when it has none.
    package var detail: String {
        switch self {
        case .pause, .resume: ""
        case .rate(let rate?): "\(rate) per second"
        case .rate(nil): "no limit"
        case .defaultRate: "as configured"
        }
    }
}

/// Describes what a provider rejects of our configuration. Nobody on the route can be reached until it is restored.
package struct RouteFault: Hashable, Sendable {
    /// The party that finds out that a fault is restored.
    package enum Kind: String, Sendable {
        /// The project or the request is wrong: an operator finds out, or a process that starts with another configuration.
        case configuration
        /// The credential or its rights are wrong: dispatchers find out too, because they ask the provider from time to time without
        /// reaching a device.
        case credential
    }

    /// The provider's reason.
    package var word: String
    /// The party that finds out that it is restored.
    package var kind: Kind

    /// Creates a fault; an empty reason becomes "unknown".
    package init(_ kind: Kind, _ word: String) {
        self.word = word.isEmpty ? "unknown" : word
        self.kind = kind
    }
}

/// Describes the state of a route for the whole fleet.
package struct RouteState: Hashable, Sendable {
    /// The party that has stopped a route.
    package enum Stop: Hashable, Sendable {
        /// An operator.
        case byOperator
        /// The mass-failure guard.
        case byGuard
        /// A dispatcher, because the provider rejects our configuration.
        case byFault(RouteFault)
    }

    /// The reason why a dispatcher cannot reach the provider.
    package struct ConnectionFault: Hashable, Sendable {
        /// The reason in words.
        package var detail: String
        /// The time since the last attempt that failed for it.
        package var milliseconds: Int64
    }

    /// The party that has stopped the route; nil while it runs.
    package var stop: Stop?
    /// The provider's reason of a third-party authentication error: recipients that need that authentication wait, the others continue. Nil
    /// when there is none.
    package var thirdPartyAuthError: String?
    /// The reason why a dispatcher cannot reach the provider, if it has tried within the last two minutes.
    package var connectionFault: ConnectionFault?
    /// The subroutes that the provider refuses, with its reasons: recipients that are reached by them wait, the others continue.
    package var refusedSubroutes: [String: String] = [:]
    /// The fingerprints of the configurations for which the route was stopped, each with the kind of its own fault.
    package var rejectedConfigurations: [String: RouteFault.Kind] = [:]
    /// True when nothing is sent.
    package var isPaused: Bool { self.stop != nil }
    /// True when the guard has stopped it.
    package var isPausedByGuard: Bool { self.stop == .byGuard }
    /// The effective rate per second: an operator's, else the configured one as a dispatcher last reported it; nil when there is none.
    package var ratePerSecond: Double?
    /// True when that rate is an operator's.
    package var isOverridden = false
    /// The rate limit as of the last grant.
    package var rateLimit = RateLimitGrant(permits: nil)

    /// Creates the state of a route that nothing holds.
    package init() {}

    /// Returns the fault for which the route is stopped; nil when it is not stopped for one. The route has the fault that was reported first,
    /// and a configuration that was rejected after another one has the kind of its own.
    ///
    /// - Parameter fingerprint: the fingerprint of the configuration.
    package func fault(of fingerprint: String) -> RouteFault? {
        guard case .byFault(var fault)? = self.stop else { return nil }
        if let kind = self.rejectedConfigurations[fingerprint] { fault.kind = kind }
        return fault
    }
}

/// A route that has a number.
package struct NumberedRoute: Hashable, Sendable {
    /// The number, which never changes.
    package let number: RouteNumber
    /// The name, "<app>/<provider>/<environment>".
    package let name: String
    /// The time for which no dispatcher has had the route in its configuration, although dispatchers ran; nil while one has it.
    package let unconfiguredMilliseconds: Int64?
    /// False when nobody can tell whether a dispatcher has the route: it comes from a copy, which has numbers only.
    package let isConfigurationKnown: Bool

    /// True when a dispatcher has the route in its configuration, as far as is known.
    package var isConfigured: Bool { self.unconfiguredMilliseconds == nil }
    /// True when no dispatcher has had the route for so long that it counts as removed on purpose.
    package var isRemoved: Bool { (self.unconfiguredMilliseconds ?? 0) >= StreamLimits.removedRouteMilliseconds }

    /// Creates a route.
    package init(
        number: RouteNumber,
        name: String,
        unconfiguredMilliseconds: Int64? = nil,
        isConfigurationKnown: Bool = true,
    ) {
        self.number = number
        self.name = name
        self.unconfiguredMilliseconds = unconfiguredMilliseconds
        self.isConfigurationKnown = isConfigurationKnown
    }
}

/// The answer to a dispatcher that reported which routes it has configured.
package struct RouteReport: Hashable, Sendable {
    /// The numbers of the routes that no dispatcher has configured for long, in order.
    package var absent: [RouteNumber]
    /// The names of the dispatcher's routes that Redis has another number for, or whose number is another route's there.
    package var contradicted: [String]

    /// Creates an answer; by default one that has nothing to tell.
    package init(absent: [RouteNumber] = [], contradicted: [String] = []) {
        (self.absent, self.contradicted) = (absent, contradicted)
    }
}

/// Manages the numbers of routes, and their control.
package struct Routes: Sendable {
    let access: StreamAccess

    /// Returns a route's number, which never changes.
    package func number(of route: Route) async throws -> RouteNumber {
        let call = NumberRouteCall(keys: [StreamKeys.routes], route: route.description)
        let answer = try await self.access.call(call, on: HashTag(ofKey: StreamKeys.routes))
        guard let number = UInt32(exactly: try answer.number()) else {
            throw answer.reply.unexpected("a route's number")
        }
        return RouteNumber(number)
    }

    /// Returns every route that has a number, in the order of the numbers.
    ///
    /// - Parameter patience: the time during which the client repeats the command; nil for the configuration's.
    package func all(
        patience: Duration? = nil
    ) async throws -> [NumberedRoute] {
        let command = RedisCommand("HGETALL", .text(StreamKeys.routes))
        let options = RedisClient.Options(isIdempotent: true, patience: patience)
        let tag = HashTag(ofKey: StreamKeys.routes)
        let pairs = try await self.access.client.send(command, on: tag, options: options).root.pairs()
        let fields = Dictionary(pairs.map { ($0.0, $0.1) }) { $1 }
        // The times at which any dispatcher reported, and one that has the route, by one clock.
        let reportedAt = fields["#asked"].flatMap { Int64($0) }
        let routes = fields.compactMap { name, text -> NumberedRoute? in
            guard name.contains("/"), let number = UInt32(text) else { return nil }
            let hadAt = fields["@\(number)"].flatMap { Int64($0) }
            let absence = hadAt.flatMap { at in reportedAt.map { $0 - at } } ?? 0
            return NumberedRoute(
                number: RouteNumber(number),
                name: name,
                unconfiguredMilliseconds: absence > StreamLimits.routeAbsenceMilliseconds ? absence : nil,
            )
        }
        return routes.sorted { $0.number < $1.number }
    }

    /// Returns the apps that have a route: those that a dispatcher has ever had in its configuration.
    ///
    /// - Parameter patience: as in ``all(patience:)``.
    package func apps(patience: Duration? = nil) async throws -> Set<String> {
        Set(try await self.all(patience: patience).compactMap { Route($0.name)?.app.text })
    }

    /// Reports which routes a dispatcher has configured. A number that Redis has forgotten, because it came back without its last writes or
    /// from an older state, is written again, and no new route gets it.
    package func report(_ configured: [NumberedRoute], absenceMilliseconds: Int64) async throws -> RouteReport {
        let call = ReportRoutesCall(
            keys: [StreamKeys.routes],
            routes: configured.map(\.number.value),
            absenceMilliseconds: absenceMilliseconds,
            names: configured.map(\.name),
        )
        let answer = try await self.access.call(call, on: HashTag(ofKey: StreamKeys.routes))
        var report = RouteReport()
        for element in try answer.elements() {
            if let number = element.integer {
                report.absent.append(RouteNumber(UInt32(clamping: number)))
            } else {
                report.contradicted.append(try element.text())
            }
        }
        report.absent.sort()
        return report
    }

    /// Controls a route; every dispatcher learns of it with its next request for permits. Where there is a replica, it has the command before the call
    /// returns.
    ///
    /// - Throws: `StreamError` when no replica confirms the command in time; it is done all the same.
    package func control(_ route: RouteNumber, _ command: RouteControlCommand) async throws {
        let keys = self.access.keys(ofRoute: route)
        var call = ControlRouteCall(keys: [keys.route(route)], command: "")
        switch command {
        case .pause: call.command = "pause"
        case .resume: call.command = "resume"
        case .rate(let rate): (call.command, call.ratePerSecond) = ("rate", rate ?? 0)
        case .defaultRate: call.command = "default_rate"
        }
        let (_, isSafe) = try await self.access.confirmed(call, on: keys.tag)
        guard isSafe else { throw StreamError.unreplicated(command.name, of: "the route") }
    }

    /// Resumes a route that a dispatcher stopped because of our configuration, after it has been restored. Whatever else stops the route
    /// stays.
    ///
    /// - Returns: true when it was stopped for that.
    package func restore(_ route: RouteNumber) async throws -> Bool {
        let keys = self.access.keys(ofRoute: route)
        let call = ControlRouteCall(keys: [keys.route(route)], command: "restore")
        return try await self.access.call(call, on: keys.tag).number() == 1
    }

    /// Reads the state of a route.
    ///
    /// - Parameter patience: as in ``all(patience:)``.
    package func state(of route: RouteNumber, patience: Duration? = nil) async throws -> RouteState {
        let keys = self.access.keys(ofRoute: route)
        let call = RouteStateCall(keys: [keys.route(route)])
        let answer = try await self.access.call(call, on: keys.tag, patience: patience)
        var state = RouteState()
        switch try answer[0].number() {
        case 0: break
        case 2: state.stop = .byGuard
        case 3: state.stop = .byFault(RouteFault(.configuration, try answer[5].text()))
        case 4: state.stop = .byFault(RouteFault(.credential, try answer[5].text()))
        default: state.stop = .byOperator
        }
        if try !answer[6].text().isEmpty { state.thirdPartyAuthError = try answer[6].text() }
        for entry in try answer[7].text().split(separator: ",") {
            let parts = entry.split(separator: ":")
            guard parts.count == 2, let kind = RouteFault.Kind(rawValue: String(parts[1])) else { continue }
            state.rejectedConfigurations[String(parts[0])] = kind
        }
        if try !answer[8].text().isEmpty {
            state.connectionFault = RouteState.ConnectionFault(
                detail: try answer[8].text(),
                milliseconds: try answer[9].number()
            )
        }
        let faults = try answer.texts(from: 10)
        for index in stride(from: 0, to: faults.count - 1, by: 2) {
            state.refusedSubroutes[faults[index]] = faults[index + 1]
        }
        let override = Double(try answer[1].text())
        let rate = try override ?? Double(answer[2].text()) ?? 0
        state.isOverridden = override != nil
        state.ratePerSecond = rate > 0 ? rate : nil
        state.rateLimit.isPaused = state.isPaused
        state.rateLimit.pauseMilliseconds = try answer[3].number()
        state.rateLimit.level = Double(try answer[4].number()) / 1_000_000
        return state
    }
}

struct NumberRouteCall: FunctionCall {
    static let function = "apus2_number_route"
    var keys: [String]
    var route: String

    func set(_ fields: inout CallFields) {
        fields.set("route", self.route)
    }
}

struct ReportRoutesCall: FunctionCall {
    static let function = "apus2_report_routes"
    var keys: [String]
    var routes: [UInt32]
    var absenceMilliseconds: Int64
    var names: [String]

    func set(_ fields: inout CallFields) {
        fields.set("routes", self.routes)
        fields.set("absence_ms", self.absenceMilliseconds)
        fields.set("names", self.names, default: [])
    }
}

struct ControlRouteCall: FunctionCall {
    static let function = "apus2_control_route"
    var keys: [String]
    var command: String
    var ratePerSecond = 0.0

    func set(_ fields: inout CallFields) {
        fields.set("command", self.command)
        fields.set("rate_per_second", self.ratePerSecond, default: 0)
    }
}

struct RouteStateCall: FunctionCall {
    static let function = "apus2_route_state"
    static let isReadOnly = true
    var keys: [String]
}
