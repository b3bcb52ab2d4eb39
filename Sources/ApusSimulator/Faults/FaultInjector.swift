package import ApusCore
internal import Synchronization

/// One-shot misfortune: the next `count` requests on a route, or only those whose path contains a text, get `fault`.
public struct FaultScript: Hashable, Sendable {
    /// Where.
    public var route: FaultRoute
    /// A part of the path, such as a token; nil: any.
    public var pathContains: String?
    /// How often it still strikes.
    public var count: Int
    /// What happens.
    public var fault: Fault

    /// A script for the next `count` requests.
    public init(route: FaultRoute, pathContains: String? = nil, count: Int, fault: Fault) {
        precondition(count >= 1, "a script strikes at least once")
        self.route = route
        self.pathContains = pathContains
        self.count = count
        self.fault = fault
    }
}

/// Hands out faults to the requests of all connections, each request by its number; scripts come before lots.
package final class FaultInjector: Sendable {
    private struct State {
        var plan: FaultPlan
        var scripts: [FaultScript] = []
        /// Requests seen per route since the plan came.
        var numbers: [3 of UInt64] = [0, 0, 0]
        /// When the plan came into force; nil: it does with the next request.
        var startedAt: UnixMilliseconds?
        /// Google's window, and what was taken in it.
        var window: Int64 = 0
        var messages = 0

        mutating func elapsed(_ now: UnixMilliseconds) -> Int64 {
            let start = self.startedAt ?? now
            self.startedAt = start
            return max(0, now.milliseconds(since: start))
        }
    }

    private let state: Mutex<State>
    /// Whether there is nothing to hand out: then no request takes the lock.
    private let quiet: Atomic<Bool>

    /// Starts with that plan.
    ///
    /// - Parameter startedAt: when it comes into force; nil: with the first request.
    package init(_ plan: FaultPlan = FaultPlan(), startedAt: UnixMilliseconds? = nil) {
        precondition(plan.isValid, "the fault plan says something impossible")
        self.state = Mutex(State(plan: plan, startedAt: startedAt))
        self.quiet = Atomic(plan.isQuiet)
    }

    /// Whether nothing can go wrong at the moment.
    package var isQuiet: Bool { self.quiet.load(ordering: .acquiring) }

    /// The plan in force.
    package var plan: FaultPlan { self.state.withLock { $0.plan } }

    /// Scripts that have not struck as often as they should.
    package var scripts: [FaultScript] { self.state.withLock { $0.scripts } }

    /// Puts a plan in force and numbers requests from 0 again; scripts stay.
    package func adopt(_ plan: FaultPlan, now: UnixMilliseconds? = nil) {
        precondition(plan.isValid, "the fault plan says something impossible")
        self.state.withLock { state in
            state = State(plan: plan, scripts: state.scripts, startedAt: now)
            self.updateQuiet(state)
        }
    }

    /// Adds a script behind the others. Whether there was room.
    @discardableResult
    package func add(_ script: FaultScript) -> Bool {
        self.state.withLock { state in
            guard state.scripts.count < SimulatorLimits.scriptsMax else { return false }
            state.scripts.append(script)
            self.updateQuiet(state)
            return true
        }
    }

    /// Nothing goes wrong any more.
    package func clear() {
        self.state.withLock { state in
            state = State(plan: FaultPlan())
            self.updateQuiet(state)
        }
    }

    private func updateQuiet(_ state: borrowing State) {
        self.quiet.store(state.plan.isQuiet && state.scripts.isEmpty, ordering: .releasing)
    }

    /// What befalls the next request on that route.
    package func next(
        _ route: FaultRoute,
        path: Span<UInt8>,
        now: UnixMilliseconds = UnixMilliseconds(0),
    ) -> FaultDraw {
        guard !self.isQuiet else { return .none }
        return self.state.withLock { state in
            let index = Int(route.rawValue) - 1
            let number = state.numbers[index]
            state.numbers[index] += 1
            let elapsed = state.elapsed(now)
            var draw = state.plan.draw(route, number: number, at: elapsed)
            let struck = Self.strike(&state.scripts, route, path)
            if let struck {
                draw.fault = struck
                self.updateQuiet(state)
            }
            if route == .fcm, !Self.isFree(draw.fault), let seconds = Self.overQuota(&state, path, elapsed),
                struck == nil
            {
                draw.fault = .tooManyRequests
                draw.retryAfter = state.plan.quotaRetryAfter(seconds: seconds)
            }
            return draw
        }
    }

    /// Whether a message that meets this fault uses nothing of Google's quota: nobody looked at it, or it is answered with 429
    /// (https://firebase.google.com/docs/cloud-messaging/throttling-and-quotas).
    private static func isFree(_ fault: Fault?) -> Bool {
        switch fault {
        case .refusal, .tooManyRequests: true
        case .answer(let status, _): status == 429
        case .reason(let word): FaultReasons.answer(word, route: .fcm, id: nil, now: UnixMilliseconds(0))?.status == 429
        default: false
        }
    }

    /// Seconds until Google's next window, if this one has no room for another message.
    private static func overQuota(_ state: inout State, _ path: Span<UInt8>, _ elapsed: Int64) -> Int? {
        guard let quota = state.plan.quota, path.contains("/messages:send") else { return nil }
        let window = elapsed / quota.windowMilliseconds
        if window != state.window { (state.window, state.messages) = (window, 0) }
        guard state.messages >= quota.messages else {
            state.messages += 1
            return nil
        }
        return Int(((window + 1) * quota.windowMilliseconds - elapsed + 999) / 1_000)
    }

    /// How many requests at a time a connection is allowed now; nil: as many as ever.
    package func streamsMax(now: UnixMilliseconds) -> UInt32? {
        guard !self.isQuiet else { return nil }
        return self.state.withLock { $0.plan.streamsMax(at: $0.elapsed(now)) }
    }

    /// How GOAWAY is said on a route now.
    package func goAwayForm(_ route: FaultRoute, now: UnixMilliseconds) -> GoAwayForm {
        self.state.withLock { $0.plan.rates(route, at: $0.elapsed(now)).goAway }
    }

    /// Whether a connection has served for long enough.
    ///
    /// - Parameters:
    ///   - requests: how many it served.
    ///   - age: nanoseconds since its first one.
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
            if case .result = script.fault, !path.contains(FCMTopics.instanceIDPrefix) { continue }
            scripts[index].count -= 1
            if scripts[index].count == 0 { scripts.remove(at: index) }
            return script.fault
        }
        return nil
    }
}

extension Span<UInt8> {
    fileprivate func contains(_ part: String) -> Bool {
        let part = Array(part.utf8)
        guard !part.isEmpty else { return true }
        guard self.count >= part.count else { return false }
        for start in 0...(self.count - part.count) {
            var matched = 0
            while matched < part.count, self[start + matched] == part[matched] { matched += 1 }
            if matched == part.count { return true }
        }
        return false
    }
}
