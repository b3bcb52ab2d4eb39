internal import ApusCore
internal import NIOCore
internal import Synchronization

/// The result of one readiness check.
public enum CheckResult: Sendable, Hashable {
    /// Fine, with a detail if there is one.
    case ok(String? = nil)
    /// Not fine, and why. No secrets: `/readyz` shows it.
    case failing(String)

    var isOK: Bool {
        switch self {
        case .ok: true
        case .failing: false
        }
    }
}

/// Decides whether the service may get work, by its phase and a list of checks.
public final class Readiness: Sendable {
    /// The phase of the service's life.
    public enum Phase: String, Sendable, Hashable {
        /// Not everything runs yet.
        case starting
        /// The checks decide.
        case serving
        /// On its way to stop: never ready again.
        case draining
    }

    /// The answer to `/readyz`.
    public struct Report: Sendable, Hashable {
        /// One check's part of it.
        public struct Check: Sendable, Hashable {
            /// The check's name.
            public let name: String
            /// What it found.
            public let result: CheckResult
        }

        /// The phase of the service's life.
        public let phase: Phase
        /// By name.
        public let checks: [Check]

        /// Whether the service may get work.
        public var isReady: Bool { self.phase == .serving && self.checks.allSatisfy(\.result.isOK) }
    }

    private struct State {
        var phase = Phase.starting
        var checks: [(name: String, check: @Sendable () async -> CheckResult)] = []
    }

    /// How long a check may take; what takes longer is failing.
    public static let checkDurationMax = Duration.seconds(2)
    private let state = Mutex(State())

    /// Starting, without checks.
    public init() {}

    /// Adds a check. It runs for every question, so it should look at what is known rather than ask.
    public func add(_ name: String, _ check: @escaping @Sendable () async -> CheckResult) {
        self.state.withLock { state in
            precondition(!state.checks.contains { $0.name == name }, "two checks are named \(name)")
            state.checks.append((name, check))
        }
    }

    /// The phase of the service's life.
    public var phase: Phase { self.state.withLock(\.phase) }

    /// Enters a phase; none follows draining.
    func enter(_ phase: Phase) {
        self.state.withLock { state in
            if state.phase != .draining { state.phase = phase }
        }
    }

    /// Runs all checks at once.
    public func report() async -> Report {
        let (phase, checks) = self.state.withLock { ($0.phase, $0.checks) }
        let results = await withTaskGroup(of: Report.Check.self) { group in
            for (name, check) in checks {
                group.addTask {
                    let result = await firstWithin(Self.checkDurationMax, check)
                    return Report.Check(name: name, result: result ?? .failing("no answer within 2 s"))
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        return Report(phase: phase, checks: results.sorted { $0.name < $1.name })
    }
}

/// Checks that the threads that drive sockets still answer.
struct EventLoopHealth: Sendable {
    let eventLoopGroup: any EventLoopGroup

    /// How long an event loop may take to answer before the process counts as stuck.
    static let answerMax = Duration.seconds(1)

    /// Counts the event loops that do not answer in time.
    func stuckCount() async -> Int {
        var stuck = 0
        for loop in self.eventLoopGroup.makeIterator() {
            let answered = await firstWithin(Self.answerMax) { (try? await loop.submit {}.get()) != nil }
            if answered != true { stuck += 1 }
        }
        return stuck
    }
}
