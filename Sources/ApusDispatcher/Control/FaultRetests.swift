internal import ApusCore
internal import ApusStreams

/// When to ask a provider again whether it takes the credential that it has refused: a pure machine of all routes of a process.
///
/// Seldom, and more seldom each time: too many refused requests may make a provider disconnect. A route that is stopped
/// again soon after it went on waits as if it had never gone on: what is asked with is not what is sent. Times are nanoseconds of one
/// monotonic clock; chance comes in.
struct FaultRetests: Sendable {
    /// How long to wait.
    struct Rules: Hashable, Sendable {
        /// Before the first question; doubled with each.
        var firstNanoseconds: UInt64 = 60_000_000_000
        /// Before a question at most; a route that has gone on for so long begins anew.
        var mostNanoseconds: UInt64 = 900_000_000_000
    }

    private struct Course: Sendable {
        var wait: UInt64
        var dueAt: UInt64
        /// Since when the route goes on; nil: it is stopped.
        var clearSince: UInt64?
    }

    private let rules: Rules
    private var courses: [RouteNumber: Course] = [:]

    init(_ rules: Rules = Rules()) { self.rules = rules }

    /// Whether to ask now, of a route that is stopped for that fault; nil: for none.
    ///
    /// - Parameter draw: a random number in 0..<1: up to half of the wait less, so that a fleet does not ask together.
    mutating func isDue(_ route: RouteNumber, _ fault: RouteFault?, now: UInt64, draw: Double) -> Bool {
        guard fault?.kind == .credential else {
            self.noteClear(route, now: now)
            return false
        }
        guard var course = self.courses[route], course.clearSince == nil else {
            let wait = self.courses[route]?.wait ?? self.rules.firstNanoseconds
            self.courses[route] = Course(wait: wait, dueAt: now + Self.spread(wait, draw))
            return false
        }
        guard now >= course.dueAt else { return false }
        course.wait = min(2 * course.wait, self.rules.mostNanoseconds)
        course.dueAt = now + Self.spread(course.wait, draw)
        self.courses[route] = course
        return true
    }

    private mutating func noteClear(_ route: RouteNumber, now: UInt64) {
        guard let since = self.courses[route]?.clearSince else {
            self.courses[route]?.clearSince = now
            return
        }
        if now - since >= self.rules.mostNanoseconds { self.courses[route] = nil }
    }

    private static func spread(_ wait: UInt64, _ draw: Double) -> UInt64 { wait - UInt64(Double(wait) * 0.5 * draw) }
}
