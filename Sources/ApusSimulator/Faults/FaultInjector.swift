package import ApusCore
internal import Synchronization

/// A fault that affects the next `count` requests on a route, or only those whose path contains a text.
public struct FaultScript: Hashable, Sendable {
    /// The route.
    public var route: FaultRoute
    /// A part of the path, such as a token; nil for any.
    public var pathContains: String?
    /// The number of requests that it still affects.
    public var count: Int
    /// The fault.
    public var fault: Fault

    /// Creates a script for the next `count` requests.
    public init(route: FaultRoute, pathContains: String? = nil, count: Int, fault: Fault) {
        precondition(count >= 1, "a script applies to at least one request")
        self.route = route
        self.pathContains = pathContains
        self.count = count
        self.fault = fault
    }
}

/// Selects the faults of the requests of all connections, each request by its number; scripts take precedence over the plan.
package final class FaultInjector: Sendable {
    private struct State {
        var plan: FaultPlan
        var scripts: [FaultScript] = []
        /// The number of requests since the plan came into force, by the routes' numbers.
        var numbers = [UInt64](repeating: 0, count: Int(FaultRoute.numberMax) + 1)
        /// The time at which the plan came into force; nil when it does with the next request.
        var startedAt: UnixMilliseconds?
        /// The window of the quota, and the number of messages in it.
        var window: Int64 = 0
        var messages = 0

        mutating func elapsed(_ now: UnixMilliseconds) -> Int64 {
            let start = self.startedAt ?? now
            self.startedAt = start
            return max(0, now.milliseconds(since: start))
        }
    }

    private let state: Mutex<State>
    /// True when there are no faults: then no request takes the lock.
    private let quiet: Atomic<Bool>

    /// Creates an injector with a plan.
    ///
    /// - Parameter startedAt: the time at which the plan comes into force; nil for the first request.
    package init(_ plan: FaultPlan = FaultPlan(), startedAt: UnixMilliseconds? = nil) {
        precondition(plan.isValid, "the fault plan is invalid")
        self.state = Mutex(State(plan: plan, startedAt: startedAt))
        self.quiet = Atomic(plan.isQuiet)
    }

    /// True when there are no faults at the moment.
    package var isQuiet: Bool { self.quiet.load(ordering: .acquiring) }

    /// The plan in force.
    package var plan: FaultPlan { self.state.withLock { $0.plan } }

    /// The scripts with requests left.
    package var scripts: [FaultScript] { self.state.withLock { $0.scripts } }

    /// Puts a plan in force and numbers requests from 0 again; scripts are kept.
    package func adopt(_ plan: FaultPlan, now: UnixMilliseconds? = nil) {
        precondition(plan.isValid, "the fault plan is invalid")
        self.state.withLock { state in
            state = State(plan: plan, scripts: state.scripts, startedAt: now)
            self.updateQuiet(state)
        }
    }

    /// Adds a script behind the others; returns false when too many are waiting.
    @discardableResult
    package func add(_ script: FaultScript) -> Bool {
        self.state.withLock { state in
            guard state.scripts.count < SimulatorLimits.scriptsMax else { return false }
            state.scripts.append(script)
            self.updateQuiet(state)
            return true
        }
    }

    /// Removes the plan and all scripts.
    package func clear() {
        self.state.withLock { state in
            state = State(plan: FaultPlan())
            self.updateQuiet(state)
        }
    }

    private func updateQuiet(_ state: borrowing State) {
        self.quiet.store(state.plan.isQuiet && state.scripts.isEmpty, ordering: .releasing)
    }

    /// Draws the fault of the next request on a route.
    package func next(
        _ route: FaultRoute,
        path: Span<UInt8>,
        now: UnixMilliseconds = UnixMilliseconds(0),
    ) -> FaultDraw {
        guard !self.isQuiet else { return .none }
        return self.state.withLock { state in
            let index = Int(route.number)
            let number = state.numbers[index]
            state.numbers[index] += 1
            let elapsed = state.elapsed(now)
            var draw = state.plan.draw(route, number: number, at: elapsed)
            let struck = Self.strike(&state.scripts, route, path)
            if let struck {
                draw.fault = struck
                self.updateQuiet(state)
            }
            if state.plan.quota != nil, !Self.isFree(draw.fault, route),
                let seconds = Self.overQuota(&state, route, path, elapsed),
                struck == nil
            {
                draw.fault = .tooManyRequests
                draw.retryAfter = state.plan.quotaRetryAfter(seconds: seconds)
            }
            return draw
        }
    }

    /// Returns true when a message with a fault does not count against the quota: it is not processed, or answered with 429.
    private static func isFree(_ fault: Fault?, _ route: FaultRoute) -> Bool {
        switch fault {
        case .refusal, .tooManyRequests: true
        case .answer(let status, _): status == 429
        case .reason(let reason):
            route.type.answer(reason: reason, route: route, id: nil, now: UnixMilliseconds(0))?.status == 429
        default: false
        }
    }

    /// Returns the seconds until the next window of the quota, if this one has no room for another message.
    private static func overQuota(
        _ state: inout State,
        _ route: FaultRoute,
        _ path: Span<UInt8>,
        _ elapsed: Int64,
    ) -> Int? {
        guard let quota = state.plan.quota, route.type.usesQuota(path: path) else { return nil }
        let window = elapsed / quota.windowMilliseconds
        if window != state.window { (state.window, state.messages) = (window, 0) }
        guard state.messages >= quota.messages else {
            state.messages += 1
            return nil
        }
        return Int(((window + 1) * quota.windowMilliseconds - elapsed + 999) / 1_000)
    }

    /// Returns the maximum number of concurrent requests on a connection now; nil when no phase limits them.
    package func streamsMax(now: UnixMilliseconds) -> UInt32? {
        guard !self.isQuiet else { return nil }
        return self.state.withLock { $0.plan.streamsMax(at: $0.elapsed(now)) }
    }

    /// Returns the form of GOAWAY on a route now.
    package func goAwayForm(_ route: FaultRoute, now: UnixMilliseconds) -> GoAwayForm {
        self.state.withLock { $0.plan.rates(route, at: $0.elapsed(now)).goAway }
    }

    /// Returns true when a connection is due for GOAWAY.
    ///
    /// - Parameters:
    ///   - requests: the number of requests that the connection served.
    ///   - age: the nanoseconds since its first request.
    package func isGoAwayDue(
        _ route: FaultRoute,
        requests: UInt64,
        age: Int64,
        now: UnixMilliseconds = UnixMilliseconds(0),
    ) -> Bool {
        guard !self.isQuiet else { return false }
        let rates = self.state.withLock { $0.plan.rates(route, at: $0.elapsed(now)) }
        if let after = rates.goAwayAfterRequests, requests >= UInt64(after) { return true }
        return rates.goAwayEveryMilliseconds.map { age >= $0 * 1_000_000 } ?? false
    }

    private static func strike(
        _ scripts: inout [FaultScript],
        _ route: FaultRoute,
        _ path: Span<UInt8>,
    ) -> Fault? {
        for index in scripts.indices {
            let script = scripts[index]
            guard script.route == route else { continue }
            if let part = script.pathContains, !path.contains(part) { continue }
            if case .result = script.fault, !route.type.isBatch(path: path) { continue }
            scripts[index].count -= 1
            if scripts[index].count == 0 { scripts.remove(at: index) }
            return script.fault
        }
        return nil
    }
}
