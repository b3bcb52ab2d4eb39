import Testing

@testable import ApusStreams

@Suite struct PoisonMachineTests {
    private static func machine() -> PoisonMachine {
        PoisonMachine(
            times: .init(
                emptyingMax: .seconds(2),
                aloneMax: .seconds(3),
                lastEmptyingMax: .seconds(20),
                lastAloneMax: .seconds(30),
                shutMax: .seconds(5),
                rest: .seconds(6),
                slowRest: .seconds(7)
            )
        )
    }

    @Test func `A poison entry waits for what is in hand, runs alone, and lets the others in at its first progress`() {
        var gate = Self.machine()
        #expect(gate.arrived(1, isPoison: false) == [.admit(1)])
        #expect(
            gate.arrived(2, isPoison: true) == [.start(.shut(2), .seconds(5)), .start(.emptying(2), .seconds(2))]
        )
        #expect(!gate.isOpen)
        #expect(gate.arrived(3, isPoison: false).isEmpty)
        #expect(gate.ended(1) == [.excuse(2)])
        #expect(gate.excused(2) == [.admit(2), .start(.alone(2), .seconds(3))])
        #expect(gate.progressed(2) == [.admit(3), .start(.rest(2), .seconds(6))])
        #expect(gate.isOpen)
        // The clocks that were started mean nothing any more.
        #expect(gate.timePassed(.emptying(2)).isEmpty && gate.timePassed(.alone(2)).isEmpty)
        #expect(gate.timePassed(.shut(2)).isEmpty && gate.timePassed(.rest(2)).isEmpty && gate.isOpen)
        #expect(gate.ended(2).isEmpty && gate.ended(3).isEmpty)
    }

    @Test func `What does not end in time is excused, and the poison entry runs beside it`() {
        var gate = Self.machine()
        _ = gate.arrived(1, isPoison: false)
        _ = gate.arrived(2, isPoison: true)
        #expect(gate.timePassed(.emptying(2)) == [.excuse(2)])
        #expect(gate.ended(1).isEmpty)
        #expect(gate.excused(2) == [.admit(2), .start(.alone(2), .seconds(3))])
        #expect(gate.ended(2) == [.start(.rest(2), .seconds(6))])
        #expect(gate.isOpen)
    }

    @Test func `Poison entries run one after the other, as long as nobody else waits`() {
        var gate = Self.machine()
        #expect(gate.arrived(1, isPoison: true) == [.start(.shut(1), .seconds(5)), .excuse(1)])
        #expect(gate.arrived(2, isPoison: true).isEmpty)
        _ = gate.excused(1)
        // The first makes progress and goes on as one of the many: the second waits for it.
        #expect(gate.progressed(1) == [.start(.emptying(2), .seconds(2))])
        #expect(gate.ended(1) == [.excuse(2)])
    }

    @Test func `Whoever waits begins after one poison entry, however many more there are`() {
        var gate = Self.machine()
        for poison in UInt64(1)...200 { _ = gate.arrived(poison, isPoison: true) }
        #expect(gate.arrived(1_000, isPoison: false).isEmpty)
        _ = gate.excused(1)
        #expect(gate.ended(1) == [.admit(1_000), .start(.rest(1), .seconds(6))])
        #expect(gate.isOpen)
        #expect(gate.arrived(1_001, isPoison: false) == [.admit(1_001)])
        _ = gate.ended(1_000)
        _ = gate.ended(1_001)
        #expect(gate.timePassed(.rest(1)) == [.start(.shut(2), .seconds(5)), .excuse(2)])
    }

    @Test func `Poison entries keep the others from being read for a bounded time, even if nobody waits`() {
        var gate = Self.machine()
        for poison in UInt64(1)...200 { _ = gate.arrived(poison, isPoison: true) }
        _ = gate.excused(1)
        #expect(gate.ended(1) == [.excuse(2)])
        _ = gate.excused(2)
        #expect(gate.timePassed(.shut(1)).isEmpty)
        #expect(gate.ended(2) == [.start(.rest(2), .seconds(6))])
        #expect(gate.isOpen)
        #expect(gate.timePassed(.rest(2)) == [.start(.shut(3), .seconds(5)), .excuse(3)])
    }

    @Test func `A poison entry that does nothing holds the others up for a bounded time, and the next one longer`() {
        var gate = Self.machine()
        _ = gate.arrived(1, isPoison: true)
        _ = gate.excused(1)
        #expect(gate.arrived(2, isPoison: true).isEmpty)
        #expect(gate.arrived(3, isPoison: false).isEmpty)
        #expect(gate.timePassed(.alone(1)) == [.admit(3), .start(.rest(1), .seconds(7))])
        #expect(gate.arrived(4, isPoison: false) == [.admit(4)])
        #expect(gate.timePassed(.rest(1)) == [.start(.shut(2), .seconds(5)), .start(.emptying(2), .seconds(2))])
    }

    @Test func `A poison entry that the next end would bury gets more time alone`() {
        var gate = Self.machine()
        _ = gate.arrived(1, isPoison: false)
        #expect(
            gate.arrived(2, isPoison: true, isLastChance: true)
                == [.start(.shut(2), .seconds(5)), .start(.emptying(2), .seconds(20))]
        )
        #expect(gate.timePassed(.emptying(2)) == [.excuse(2)])
        #expect(gate.excused(2) == [.admit(2), .start(.alone(2), .seconds(30))])
    }

    @Test(arguments: 0..<3) func `A stop refuses whoever has not begun`(steps: Int) {
        var gate = Self.machine()
        _ = gate.arrived(1, isPoison: false)
        _ = gate.arrived(2, isPoison: true)
        _ = gate.arrived(3, isPoison: false)
        if steps > 0 { _ = gate.timePassed(.emptying(2)) }
        if steps > 1 { _ = gate.excused(2) }
        let refused = gate.stop()
        #expect(Set(refused) == (steps > 1 ? [.refuse(3)] : [.refuse(3), .refuse(2)]))
        #expect(gate.isOpen)
        #expect(gate.arrived(4, isPoison: true) == [.refuse(4)])
        #expect(gate.excused(2).isEmpty && gate.ended(1).isEmpty)
        #expect(gate.ended(2) == (steps > 1 ? [.start(.rest(2), .seconds(6))] : []))
        #expect(gate.timePassed(.rest(2)).isEmpty)
    }
}
