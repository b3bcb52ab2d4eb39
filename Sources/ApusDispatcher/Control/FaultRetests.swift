internal import ApusCore
internal import ApusStreams

/// Decides when to ask a provider again whether it accepts a credential that it has refused.
///
/// A pure state machine for all routes of a process. The wait doubles with each probe, because too many refused
/// requests may make a provider disconnect. A route that is stopped again soon after it resumed keeps its last wait,
/// because an accepted probe does not prove that real sends are accepted. Times are nanoseconds of one monotonic clock;
/// random numbers are arguments.
struct FaultRetests: Sendable {
    /// The limits of the waits between probes.
    struct Rules: Hashable, Sendable {
        /// The wait before the first probe. It doubles with each probe.
        var firstNanoseconds: UInt64 = 60_000_000_000
        /// The maximum wait before a probe. A route that has run without a fault for this long starts again with the
        /// first wait.
        var mostNanoseconds: UInt64 = 900_000_000_000
    }

    private struct Backoff: Sendable {
        var wait: UInt64
        var dueAt: UInt64
        /// The time at which the route resumed; nil while it is stopped.
        var clearSince: UInt64?
    }

    private let rules: Rules
    private var backoffs: [RouteNumber: Backoff] = [:]
    /// The routes whose provider has not answered a probe since the process started.
    private var unasked: Set<RouteNumber>

    /// - Parameter unasked: the routes to probe at once if they are stopped.
    init(_ rules: Rules = Rules(), unasked: Set<RouteNumber> = []) {
        self.rules = rules
        self.unasked = unasked
    }

    /// Returns true when the provider is to be asked now about a route that is stopped for a fault.
    ///
    /// - Parameters:
    ///   - isOther: true when the provider has not refused the route's configuration.
    ///   - draw: a random number in 0..<1. It shortens the wait by up to half, so that the processes of a fleet
    ///     do not ask together.
    mutating func isDue(
        _ route: RouteNumber,
        _ fault: RouteFault,
        isOther: Bool,
        now: UInt64,
        draw: Double,
    ) -> Bool {
        let isUnasked = self.unasked.contains(route)
        guard fault.kind == .credential || isOther && isUnasked else {
            self.noteClear(route, now: now)
            return false
        }
        guard var backoff = self.backoffs[route], backoff.clearSince == nil else {
            let wait = self.backoffs[route]?.wait ?? self.rules.firstNanoseconds
            self.backoffs[route] = Backoff(wait: wait, dueAt: now + Self.spread(wait, draw))
            return isUnasked
        }
        guard now >= backoff.dueAt else { return false }
        backoff.wait = min(2 * backoff.wait, self.rules.mostNanoseconds)
        backoff.dueAt = now + Self.spread(backoff.wait, draw)
        self.backoffs[route] = backoff
        return true
    }

    /// Records that the provider has answered a probe.
    mutating func recordAnswer(_ route: RouteNumber) { self.unasked.remove(route) }

    /// Records that a route is not stopped for a fault.
    mutating func recordRunning(_ route: RouteNumber, now: UInt64) {
        self.unasked.remove(route)
        self.noteClear(route, now: now)
    }

    private mutating func noteClear(_ route: RouteNumber, now: UInt64) {
        guard let since = self.backoffs[route]?.clearSince else {
            self.backoffs[route]?.clearSince = now
            return
        }
        if now - since >= self.rules.mostNanoseconds { self.backoffs[route] = nil }
    }

    private static func spread(_ wait: UInt64, _ draw: Double) -> UInt64 { wait - UInt64(Double(wait) * 0.5 * draw) }
}
