package import ApusCore
internal import ApusRedis

/// What an operator may say of a route.
package enum RouteControlCommand: Hashable, Sendable {
    /// Send nothing.
    case pause
    /// Send again.
    case resume
    /// Send that many per second, whatever the configuration says; nil: as many as can be.
    case rate(Double?)
    /// Send as the configuration says.
    case defaultRate
}

/// What a provider rejects of our configuration: nobody on the route can be reached before it is restored.
package struct RouteFault: Hashable, Sendable {
    /// Who finds out that it is restored.
    package enum Kind: String, Sendable {
        /// The topic, the project, or what was asked for: an operator, or a process that starts with another configuration.
        case configuration
        /// The credential or its rights: dispatchers do, too. They ask the provider from time to time, without reaching a device.
        case credential
    }

    /// The provider's word.
    package var word: String
    /// Who finds out that it is restored.
    package var kind: Kind

    /// A fault; an empty word becomes "unknown".
    package init(_ kind: Kind, _ word: String) {
        self.word = word.isEmpty ? "unknown" : word
        self.kind = kind
    }
}

/// How a route stands for the whole fleet.
package struct RouteState: Hashable, Sendable {
    /// Who has stopped a route.
    package enum Stop: Hashable, Sendable {
        /// An operator.
        case byOperator
        /// The mass-failure guard.
        case byGuard
        /// A dispatcher, because the provider rejects our configuration.
        case byFault(RouteFault)
    }

    /// Who has stopped it; nil: it goes on.
    package var stop: Stop?
    /// The provider's word for a third-party authentication error: recipients that need it wait, the others go on; nil:
    /// none.
    package var thirdPartyAuthError: String?
    /// The fingerprints of the configurations for which it was stopped.
    package var rejectedConfigurations: Set<String> = []
    /// Whether nothing is sent.
    package var isPaused: Bool { self.stop != nil }
    /// Whether it was the guard.
    package var isPausedByGuard: Bool { self.stop == .byGuard }
    /// The rate that counts, per second: an operator's, else the configuration's as a dispatcher last said it; nil: none.
    package var ratePerSecond: Double?
    /// Whether that rate is an operator's.
    package var isOverridden = false
    /// The rate limit, as at the last grant.
    package var rateLimit = RateLimitGrant(permits: nil)
}

/// Routes: their numbers, and their control.
package struct Routes: Sendable {
    let access: StreamAccess

    /// Returns a route's number, the same one ever after.
    package func number(of route: Route) async throws -> RouteNumber {
        let call = NumberRouteCall(keys: [StreamKeys.routes], route: route.description)
        return RouteNumber(UInt32(try await self.access.call(call, on: HashTag(ofKey: StreamKeys.routes)).number))
    }

    /// Returns every route that ever had a number, with its name "shop/apns/production", in the order of the numbers.
    package func all() async throws -> [(number: RouteNumber, name: String)] {
        let command = RedisCommand("HGETALL", .text(StreamKeys.routes))
        var routes: [(number: RouteNumber, name: String)] = []
        for (name, text) in try await self.access.send(command, on: HashTag(ofKey: StreamKeys.routes)).pairs
        where name.contains("/") {
            if let number = UInt32(text) { routes.append((RouteNumber(number), name)) }
        }
        return routes.sorted { $0.number < $1.number }
    }

    /// Reports which routes a dispatcher has configured.
    ///
    /// - Returns: the numbers of those that no dispatcher has had for that long, in order.
    package func report(_ configured: [RouteNumber], absenceMilliseconds: Int64) async throws -> [RouteNumber] {
        let call = ReportRoutesCall(
            keys: [StreamKeys.routes],
            routes: configured.map(\.value),
            absenceMilliseconds: absenceMilliseconds,
        )
        let answer = try await self.access.call(call, on: HashTag(ofKey: StreamKeys.routes))
        return try answer.elements().map { RouteNumber(UInt32(clamping: try $0.number())) }.sorted()
    }

    /// Controls a route: every dispatcher learns it with its next request for permits.
    package func control(_ route: RouteNumber, _ command: RouteControlCommand) async throws {
        let keys = self.access.keys(ofRoute: route)
        var call = ControlRouteCall(keys: [keys.route(route)], command: "")
        switch command {
        case .pause: call.command = "pause"
        case .resume: call.command = "resume"
        case .rate(let rate): (call.command, call.ratePerSecond) = ("rate", rate ?? 0)
        case .defaultRate: call.command = "default_rate"
        }
        _ = try await self.access.call(call, on: keys.tag)
    }

    /// Lets a route go on that a dispatcher stopped because of our configuration, now that it is restored. Nothing else that stops it changes.
    ///
    /// - Returns: whether it was stopped for that.
    package func restore(_ route: RouteNumber) async throws -> Bool {
        let keys = self.access.keys(ofRoute: route)
        let call = ControlRouteCall(keys: [keys.route(route)], command: "restore")
        return try await self.access.call(call, on: keys.tag).number == 1
    }

    /// Reads how a route stands.
    package func state(of route: RouteNumber) async throws -> RouteState {
        let keys = self.access.keys(ofRoute: route)
        let answer = try await self.access.call(RouteStateCall(keys: [keys.route(route)]), on: keys.tag)
        var state = RouteState()
        switch answer[0].number {
        case 0: break
        case 2: state.stop = .byGuard
        case 3: state.stop = .byFault(RouteFault(.configuration, answer[5].text))
        case 4: state.stop = .byFault(RouteFault(.credential, answer[5].text))
        default: state.stop = .byOperator
        }
        if !answer[6].text.isEmpty { state.thirdPartyAuthError = answer[6].text }
        state.rejectedConfigurations = Set(answer[7].text.split(separator: ",").map(String.init))
        let override = Double(answer[1].text)
        let rate = override ?? Double(answer[2].text) ?? 0
        state.isOverridden = override != nil
        state.ratePerSecond = rate > 0 ? rate : nil
        state.rateLimit.isPaused = state.isPaused
        state.rateLimit.pauseMilliseconds = answer[3].number
        state.rateLimit.level = Double(answer[4].number) / 1_000_000
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

    func set(_ fields: inout CallFields) {
        fields.set("routes", self.routes)
        fields.set("absence_ms", self.absenceMilliseconds)
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
