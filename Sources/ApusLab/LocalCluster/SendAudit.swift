internal import ApusCore
package import ApusSimulator

/// Compares the audience of a send with what the simulator accepted, by token.
package struct SendAudit: Hashable, Sendable, CustomStringConvertible {
    /// The number of living devices that were never accepted.
    package var lost = 0
    /// The number of acceptances beyond the first one of a device.
    package var repeated = 0
    /// The number of accepted tokens outside of the audience.
    package var strangers = 0
    /// The number of acceptances that the simulator never answered because of a fault: each may be repeated.
    package var unanswered = 0
    /// The number of all acceptances.
    package var accepted = 0
    /// The times of the repetitions in nanoseconds since 1970.
    package var repeatTimes: [Int64] = []

    /// True when every device was accepted once, and no other token.
    package var isExact: Bool { self.lost == 0 && self.repeated == 0 && self.strangers == 0 }

    /// The audit in one line.
    package var description: String {
        "lost \(self.lost), repeated \(self.repeated), strangers \(self.strangers), accepted \(self.accepted)"
    }

    /// Compares the audience with the ledger.
    ///
    /// - Parameter audience: the digests of the tokens that must be accepted.
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
    /// Compares the audience of a send with the acceptances so far.
    package func audit(_ send: String, _ devices: some Sequence<SampleDevice>) -> SendAudit {
        SendAudit(of: send, audience: devices.lazy.map(\.digest), in: self.simulator.ledger.snapshot)
    }
}
