internal import ApusCore
package import ApusSimulator

/// Compares whom a send was for with what the simulator accepted, by token.
package struct SendAudit: Hashable, Sendable, CustomStringConvertible {
    /// Living devices that were never accepted.
    package var lost = 0
    /// Acceptances beyond the first one of a device.
    package var repeated = 0
    /// Tokens that were accepted although nobody asked for them.
    package var strangers = 0
    /// Acceptances that the simulator never answered, because a fault said so: each may be repeated by right.
    package var unanswered = 0
    /// Acceptances in all.
    package var accepted = 0
    /// The time at which each repeat was accepted: nanoseconds since 1970.
    package var repeatTimes: [Int64] = []

    /// Every device once, and nobody else.
    package var isExact: Bool { self.lost == 0 && self.repeated == 0 && self.strangers == 0 }

    /// In one line.
    package var description: String {
        "lost \(self.lost), repeated \(self.repeated), strangers \(self.strangers), accepted \(self.accepted)"
    }

    /// Compares.
    ///
    /// - Parameter audience: digests of the tokens that must be accepted.
    package init(of send: String, audience: some Sequence<TokenDigest>, in ledger: LedgerSnapshot) {
        var counts: [TokenDigest: Int32] = [:]
        for digest in audience { counts[digest] = 0 }
        ledger.visitAccepted(of: send) { digest, time, isAnswered in
            self.accepted += 1
            if !isAnswered { self.unanswered += 1 }
            guard let count = counts[digest] else {
                self.strangers += 1
                return
            }
            counts[digest] = count + 1
            guard count > 0 else { return }
            self.repeated += 1
            self.repeatTimes.append(time)
        }
        self.lost = counts.values.count { $0 == 0 }
    }
}

extension LocalCluster {
    /// Compares whom a send was for with what was accepted so far.
    package func audit(_ send: String, _ devices: some Sequence<SampleDevice>) -> SendAudit {
        SendAudit(of: send, audience: devices.lazy.map(\.digest), in: self.simulator.ledger.snapshot)
    }
}
