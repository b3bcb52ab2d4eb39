internal import ApusCore
internal import Synchronization

/// What one check of the readiness found.
public enum CheckResult: Sendable, Hashable {
    /// Fine; with a word about it, if there is one.
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

/// Whether the service may get work: a list of checks, and where its life stands.
public final class Readiness: Sendable {
    /// Where the service's life stands.
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

        /// Where the service's life stands.
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

    /// Adds a check. It runs for every question, so it should look at what is known rather than go and see.
    public func add(_ name: String, _ check: @escaping @Sendable () async -> CheckResult) {
        self.state.withLock { state in
            precondition(!state.checks.contains { $0.name == name }, "two checks are named \(name)")
            state.checks.append((name, check))
        }
    }

    /// Where the service's life stands.
    public var phase: Phase { self.state.withLock(\.phase) }

    /// Moves on; draining is the end.
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
