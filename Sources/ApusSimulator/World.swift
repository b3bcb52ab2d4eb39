package import ApusCore
internal import Synchronization

/// How the providers judge at a moment.
package struct Rules: Sendable {
    /// Who is dead.
    package var fates: TokenFates
    /// Apple.
    package var apns: APNsJudge
    /// Google.
    package var fcm: FCMJudge
    /// Google's token endpoint.
    package var oauth: OAuthJudge
    /// Who sees what is accepted.
    var watcher: (@Sendable (SeenRequest) -> Void)?

    /// Rules.
    package init(fates: TokenFates, apns: APNsJudge, fcm: FCMJudge, oauth: OAuthJudge) {
        self.fates = fates
        self.apns = apns
        self.fcm = fcm
        self.oauth = oauth
    }
}

/// What all connections of a simulator share.
package final class World: Sendable {
    /// What happened.
    package let ledger: SimulatorLedger
    /// What goes wrong.
    package let faults: FaultInjector
    /// Apple's broadcast channels.
    package let channels = APNsChannels()
    /// Who is in Google's topics.
    package let topics = FCMTopics()
    /// The time of day.
    package let clock: any WallClock

    private let shared: Mutex<Rules>
    private let version: Atomic<UInt64>
    private let connections: Atomic<UInt64>

    /// A world.
    package init(rules: Rules, faults: FaultInjector, ledger: SimulatorLedger, clock: any WallClock) {
        self.ledger = ledger
        self.faults = faults
        self.clock = clock
        self.shared = Mutex(rules)
        self.version = Atomic(1)
        self.connections = Atomic(0)
    }

    /// The rules now.
    package var rules: Rules { self.shared.withLock { $0 } }

    /// Changes with the rules: so that connections look only at a number.
    package var rulesVersion: UInt64 { self.version.load(ordering: .acquiring) }

    /// Changes the rules for all connections.
    package func change(_ body: (inout Rules) -> Void) {
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

    /// A new connection's number, from 1.
    package func nextConnection() -> UInt64 { self.connections.add(1, ordering: .relaxed).newValue }
}

extension World {
    /// Forgets ledger, fates by declaration and by lot, broadcast channels, topics, faults and scripts.
    package func reset() {
        self.ledger.reset()
        self.faults.clear()
        self.channels.reset()
        self.topics.reset()
        self.change { rules in
            rules.fates.forgetDeclared()
            rules.fates.deadShare = DeadShare(0, seed: 0)
            rules.fates.deadSince = nil
        }
    }
}
