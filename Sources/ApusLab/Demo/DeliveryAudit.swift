internal import ApusCore
internal import ApusSimulator

/// Compares the audience of sends with what the providers received, as sets of (send, token).
///
/// A living token must have been accepted exactly once for each of its sends; a dead one must have been tried exactly once.
package struct DeliveryAudit: Sendable {
    /// The result of the comparison.
    package struct Finding: Hashable, Sendable {
        /// The number of pairs that no provider received, or that were never accepted although the token is alive.
        package var lost = 0
        /// The number of requests beyond the one that settled a pair.
        package var repeated = 0
        /// The number of requests without an audience.
        package var unexpected = 0
        /// The number of requests that the provider refused for another reason than a dead token, or never answered.
        package var refused = 0

        /// Creates an empty finding.
        package init() {}
    }

    private struct Audience {
        /// The positions of the audience's members.
        var members: Set<Int32>
        /// The number of requests that settled a member's pair, by position.
        var settled: [Int32: Int32] = [:]
        var unexpected = 0
        var refused = 0
    }

    private let devices: [DemoDevice]
    private let positions: [TokenDigest: Int32]
    private var audiences: [String: Audience] = [:]
    private var strangers = 0

    /// Creates an audit of sends to a population.
    package init(_ population: DemoPopulation) {
        self.devices = population.devices
        var positions: [TokenDigest: Int32] = [:]
        positions.reserveCapacity(population.devices.count)
        for (index, device) in population.devices.enumerated() { positions[device.digest] = Int32(index) }
        self.positions = positions
    }

    /// Adds the audience of a send.
    package mutating func expect(_ send: String, to members: some Sequence<Int>) {
        self.audiences[send] = Audience(members: Set(members.map(Int32.init)))
    }

    /// Adds a request.
    package mutating func note(_ request: LedgerLine) {
        guard let send = request.send, self.audiences[send] != nil else {
            self.strangers += 1
            return
        }
        guard let position = self.positions[request.digest], self.audiences[send]?.members.contains(position) == true
        else {
            self.audiences[send]?.unexpected += 1
            return
        }
        let isSettled =
            self.devices[Int(position)].isDead
            ? request.status == 410 || request.status == 404 : request.isAccepted
        if isSettled {
            self.audiences[send]?.settled[position, default: 0] += 1
        } else {
            self.audiences[send]?.refused += 1
        }
    }

    /// Returns the size of a send's audience, and how many of its living tokens a provider accepted; nil for an unknown send.
    package func counts(of send: String) -> (audience: Int, accepted: Int)? {
        guard let audience = self.audiences[send] else { return nil }
        return (audience.members.count, audience.settled.keys.count { !self.devices[Int($0)].isDead })
    }

    /// The result over all sends.
    package var finding: Finding {
        var finding = Finding()
        finding.unexpected = self.strangers
        for audience in self.audiences.values {
            finding.lost += audience.members.count - audience.settled.count
            finding.repeated += audience.settled.values.reduce(0) { $0 + Int($1) - 1 }
            finding.unexpected += audience.unexpected
            finding.refused += audience.refused
        }
        return finding
    }
}
