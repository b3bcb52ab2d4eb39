import Testing

@testable import ApusStreams

@Suite struct QuarantineMachineTests {
    private static func machine() -> QuarantineMachine {
        QuarantineMachine(emptyingMax: .seconds(2), aloneMax: .seconds(3))
    }

    @Test func `A suspect waits for what is in hand, runs alone, and lets the others in at its first progress`() {
        var gate = Self.machine()
        #expect(gate.arrived(1, isSuspect: false) == [.admit(1)])
        #expect(gate.arrived(2, isSuspect: true) == [.start(.emptying(2), .seconds(2))])
        #expect(!gate.isOpen)
        #expect(gate.arrived(3, isSuspect: false).isEmpty)
        #expect(gate.ended(1) == [.excuse(2)])
        #expect(gate.excused(2) == [.admit(2), .start(.alone(2), .seconds(3))])
        #expect(gate.progressed(2) == [.admit(3)])
        #expect(gate.isOpen)
        // The clocks that were started mean nothing any more.
        #expect(gate.timePassed(.emptying(2)).isEmpty && gate.timePassed(.alone(2)).isEmpty)
        #expect(gate.ended(2).isEmpty && gate.ended(3).isEmpty)
    }

    @Test func `What does not end in time is excused, and the suspect runs beside it`() {
        var gate = Self.machine()
        _ = gate.arrived(1, isSuspect: false)
        _ = gate.arrived(2, isSuspect: true)
        #expect(gate.timePassed(.emptying(2)) == [.excuse(2)])
        #expect(gate.ended(1).isEmpty)
        #expect(gate.excused(2) == [.admit(2), .start(.alone(2), .seconds(3))])
        #expect(gate.ended(2).isEmpty)
        #expect(gate.isOpen)
    }

    @Test func `Suspects run one after the other`() {
        var gate = Self.machine()
        #expect(gate.arrived(1, isSuspect: true) == [.excuse(1)])
        #expect(gate.arrived(2, isSuspect: true).isEmpty)
        _ = gate.excused(1)
        // The first makes progress and goes on as one of the many: the second waits for it.
        #expect(gate.progressed(1) == [.start(.emptying(2), .seconds(2))])
        #expect(gate.ended(1) == [.excuse(2)])
    }

    @Test
    func
        `A suspect that does nothing holds the others up for a bounded time, and they get as much before the next one`()
    {
        var gate = Self.machine()
        _ = gate.arrived(1, isSuspect: true)
        _ = gate.excused(1)
        #expect(gate.arrived(2, isSuspect: true).isEmpty)
        #expect(gate.arrived(3, isSuspect: false).isEmpty)
        #expect(gate.timePassed(.alone(1)) == [.admit(3), .start(.rest(1), .seconds(3))])
        #expect(gate.arrived(4, isSuspect: false) == [.admit(4)])
        #expect(gate.timePassed(.rest(1)) == [.start(.emptying(2), .seconds(2))])
    }

    @Test(arguments: 0..<3) func `A stop refuses whoever has not begun`(steps: Int) {
        var gate = Self.machine()
        _ = gate.arrived(1, isSuspect: false)
        _ = gate.arrived(2, isSuspect: true)
        _ = gate.arrived(3, isSuspect: false)
        if steps > 0 { _ = gate.timePassed(.emptying(2)) }
        if steps > 1 { _ = gate.excused(2) }
        let refused = gate.stop()
        #expect(Set(refused) == (steps > 1 ? [.refuse(3)] : [.refuse(3), .refuse(2)]))
        #expect(gate.isOpen)
        #expect(gate.arrived(4, isSuspect: true) == [.refuse(4)])
        #expect(gate.excused(2).isEmpty && gate.ended(1).isEmpty && gate.ended(2).isEmpty)
    }
}
