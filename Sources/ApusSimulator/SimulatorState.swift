package import ApusCore
internal import Synchronization

/// The settings that apply to all connections and may change while they are open.
package struct SharedRules: Sendable {
    /// The behaviors of tokens.
    package var behaviors = TokenBehaviors()
    /// Called with each message that a strict connection accepts.
    var observer: (@Sendable (AcceptedRequest) -> Void)?
}

/// The state that all connections of a simulator share.
package final class SimulatorState: Sendable {
    /// The ledger of received requests.
    package let ledger: SimulatorLedger
    /// The faults of requests.
    package let faults: FaultInjector
    /// The time of day.
    package let clock: any WallClock

    private let providers: [any SimulatedProvider]
    private let shared: Mutex<SharedRules>
    private let version: Atomic<UInt64>
    private let connections: Atomic<UInt64>

    /// Creates the state of a simulator with the given providers.
    package init(
        providers: [any SimulatedProvider],
        behaviors: TokenBehaviors = TokenBehaviors(),
        faults: FaultInjector = FaultInjector(),
        ledger: SimulatorLedger,
        clock: any WallClock = SystemClock(),
    ) {
        self.providers = providers
        self.ledger = ledger
        self.faults = faults
        self.clock = clock
        self.shared = Mutex(SharedRules(behaviors: behaviors))
        self.version = Atomic(1)
        self.connections = Atomic(0)
    }

    /// Returns the provider that serves a route.
    func provider(of route: FaultRoute) -> any SimulatedProvider {
        guard let match = self.providers.first(where: { type(of: $0).traits.routes.contains(route) }) else {
            preconditionFailure("no provider serves \(route.name)")
        }
        return match
    }

    /// Returns the provider of a type.
    package func provider<Wanted: SimulatedProvider>(_ type: Wanted.Type) -> Wanted {
        guard let match = self.providers.lazy.compactMap({ $0 as? Wanted }).first else {
            preconditionFailure("\(type) is not simulated")
        }
        return match
    }

    /// Passes every provider to `body`.
    func forEachProvider(_ body: (any SimulatedProvider) -> Void) { for provider in self.providers { body(provider) } }

    /// The current rules.
    package var rules: SharedRules { self.shared.withLock { $0 } }

    /// A number that changes with the rules, so that connections need not copy them for each request.
    var rulesVersion: UInt64 { self.version.load(ordering: .acquiring) }

    /// Changes the rules for all connections.
    package func change(_ body: (inout SharedRules) -> Void) {
        self.shared.withLock { rules in
            body(&rules)
            self.version.add(1, ordering: .acquiringAndReleasing)
        }
    }

    /// The ledger's counters, and the seed of the faults in force.
    var summary: LedgerSummary {
        var summary = self.ledger.snapshot.summary
        summary.seed = self.faults.plan.seed
        return summary
    }

    /// Returns a new connection's number, from 1.
    package func nextConnection() -> UInt64 { self.connections.add(1, ordering: .relaxed).newValue }

    /// Clears the ledger, the behaviors of tokens, the faults and scripts, and the changes by requests.
    package func reset() {
        self.ledger.reset()
        self.faults.clear()
        self.forEachProvider { $0.reset() }
        self.change { $0.behaviors = TokenBehaviors() }
    }
}

/// A connection's copy of the shared rules, renewed when they have changed.
struct CachedRules {
    private let state: SimulatorState
    private var version: UInt64
    private(set) var current: SharedRules

    init(_ state: SimulatorState) {
        self.state = state
        self.version = state.rulesVersion
        self.current = state.rules
    }

    /// Renews the copy if it is old.
    @inline(__always)
    mutating func refresh() {
        let version = self.state.rulesVersion
        guard version != self.version else { return }
        self.version = version
        self.current = self.state.rules
    }
}
