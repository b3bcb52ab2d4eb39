internal import ApusCore
internal import NIOCore
internal import Synchronization

/// The result of one readiness check.
public enum CheckResult: Sendable, Hashable {
    /// The check passed, with a detail if there is one.
    case ok(String? = nil)
    /// The check failed, for the given reason. The text must hold no secrets: `/readyz` shows it.
    case failing(String)

    var isOK: Bool {
        switch self {
        case .ok: true
        case .failing: false
        }
    }
}

/// Decides whether the service may receive work, from its phase and a list of checks.
public final class Readiness: Sendable {
    /// The phases of a service's life.
    public enum Phase: String, Sendable, Hashable {
        /// The service is starting: not every part runs yet.
        case starting
        /// The service runs: the checks decide whether it is ready.
        case serving
        /// The service is stopping and never becomes ready again.
        case draining
    }

    /// The answer to `/readyz`.
    public struct Report: Sendable, Hashable {
        /// The result of one check.
        public struct Check: Sendable, Hashable {
            /// The check's name.
            public let name: String
            /// The result of the check.
            public let result: CheckResult
        }

        /// The phase of the service's life.
        public let phase: Phase
        /// The checks, sorted by name.
        public let checks: [Check]

        /// True when the service may receive work.
        public var isReady: Bool { self.phase == .serving && self.checks.allSatisfy(\.result.isOK) }

        /// The checks that fail, each with its reason; nil when all pass.
        public var problem: String? {
            let failing = self.checks.compactMap { check -> String? in
                guard case .failing(let reason) = check.result else { return nil }
                return "\(check.name): \(reason)"
            }
            return failing.isEmpty ? nil : failing.joined(separator: "; ")
        }
    }

    private struct State {
        var phase = Phase.starting
        var hasBeenReady = false
        var checks: [(name: String, check: @Sendable () async -> CheckResult)] = []
    }

    /// The longest time that a check may take; one that takes longer fails.
    static let checkDurationMax = Duration.seconds(2)
    private let state = Mutex(State())

    /// Creates a readiness in the phase `starting`, without checks.
    public init() {}

    /// Adds a check. It runs for every request to `/readyz`, so it should look at known state rather than query anything.
    public func add(_ name: String, _ check: @escaping @Sendable () async -> CheckResult) {
        self.state.withLock { state in
            precondition(!state.checks.contains { $0.name == name }, "two checks are named \(name)")
            state.checks.append((name, check))
        }
    }

    /// The current phase of the service's life.
    public var phase: Phase { self.state.withLock(\.phase) }

    /// True once a report has found the service ready.
    var hasBeenReady: Bool { self.state.withLock(\.hasBeenReady) }

    /// Enters a phase. No phase follows `draining`.
    func enter(_ phase: Phase) {
        self.state.withLock { state in
            if state.phase != .draining { state.phase = phase }
        }
    }

    /// Runs all checks concurrently and returns their results.
    public func report() async -> Report {
        let (phase, checks) = self.state.withLock { ($0.phase, $0.checks) }
        let results = await withTaskGroup(of: Report.Check.self) { group in
            for (name, check) in checks {
                group.addTask {
                    let result = await firstWithin(Self.checkDurationMax, check)
                    return Report.Check(name: name, result: result ?? .failing("No answer within 2 s."))
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        let report = Report(phase: phase, checks: results.sorted { $0.name < $1.name })
        if report.isReady { self.state.withLock { $0.hasBeenReady = true } }
        return report
    }
}

/// Checks that a service has started, for which it needs the installation from Redis.
public final class StartCheck: Sendable {
    private let isDone = Atomic(false)

    /// Creates a check that fails.
    public init() {}

    /// The text in `/readyz`.
    public var result: CheckResult {
        self.isDone.load(ordering: .relaxed)
            ? .ok() : .failing("The service has not started yet: it reads the installation from Redis first.")
    }

    /// Records that the service has started.
    public func pass() { self.isDone.store(true, ordering: .relaxed) }
}

/// Checks that the event loops respond.
struct EventLoopHealth: Sendable {
    let eventLoopGroup: any EventLoopGroup

    /// The longest time that an event loop may take to respond before the process counts as stuck.
    static let answerMax = Duration.seconds(1)

    /// Counts the event loops that do not respond in time.
    func stuckCount() async -> Int {
        var stuck = 0
        for loop in self.eventLoopGroup.makeIterator() {
            let answered = await firstWithin(Self.answerMax) { (try? await loop.submit {}.get()) != nil }
            if answered != true { stuck += 1 }
        }
        return stuck
    }
}
