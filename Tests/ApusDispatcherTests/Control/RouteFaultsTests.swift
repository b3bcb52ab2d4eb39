import ApusCore
import Testing

@testable import ApusDispatcher

@Suite struct RouteFaultsTests {
    private static let second: UInt64 = 1_000_000_000
    private let unclear = DeliveryOutcome.misconfigured(.unclear)
    private let stop = DeliveryOutcome.misconfigured(.route)

    /// Returns the decisions after that many answers without a reason, one a second.
    private func meanings(_ count: Int, of faults: inout RouteFaults, from second: UInt64 = 0) -> [DeliveryOutcome] {
        (0..<UInt64(count)).map { faults.record(self.unclear, now: (second + $0) * Self.second) }
    }

    @Test func `D7 A named fault counts with its first answer`() {
        var faults = RouteFaults()
        #expect(faults.record(self.stop, now: 0) == self.stop)
    }

    @Test func `D44 D47 A possible fault counts as one at the tenth in a row, and from then on`() {
        var faults = RouteFaults()
        #expect(self.meanings(9, of: &faults).allSatisfy { $0 == self.unclear })
        #expect(self.meanings(3, of: &faults, from: 9).allSatisfy { $0 == self.stop })
    }

    @Test func `D44 D47 An answer about a token or a message shows that the configuration works`() {
        let proofs: [DeliveryOutcome] = [
            .accepted, .unregistered(.unregistered, asOf: nil), .suspect(.badToken), .rejected(.payload),
        ]
        for proof in proofs {
            var faults = RouteFaults()
            _ = self.meanings(9, of: &faults)
            if proof == .accepted { faults.recordAccepted() } else { #expect(faults.record(proof, now: 0) == proof) }
            #expect(self.meanings(9, of: &faults).allSatisfy { $0 == self.unclear })
        }
    }

    @Test func `D44 D47 An outage of the provider shows nothing about the configuration`() {
        var faults = RouteFaults()
        _ = self.meanings(9, of: &faults)
        let silent: [DeliveryOutcome] = [
            .lost(.timeout), .deferred(Deferral(.providerUnavailable)), .misconfigured(.staleCredential),
        ]
        for outcome in silent { #expect(faults.record(outcome, now: 0) == outcome) }
        #expect(faults.record(self.unclear, now: 0) == self.stop)
    }

    @Test func `D47 One unknown device a day never stops a route`() {
        var faults = RouteFaults()
        for day in 0..<100 as Range<UInt64> {
            #expect(faults.record(self.unclear, now: day * 86_400 * Self.second) == self.unclear)
        }
    }

    @Test
    func
        `D47 A route resumed with its fault stops with the first answer, however much later; a restored one counts anew`()
    {
        var faults = RouteFaults()
        _ = self.meanings(10, of: &faults)
        #expect(faults.record(self.unclear, now: 90_000 * Self.second) == self.stop)
        faults.recordAccepted()
        #expect(faults.record(self.unclear, now: 90_001 * Self.second) == self.unclear)
    }
}
