import Testing

@testable import ApusStreams

@Suite struct PoisonMachineTests {
    private static let poison = PoisonMachine.Standing.poison(isLastChance: false)
    private static let lastChance = PoisonMachine.Standing.poison(isLastChance: true)

    private static func machine() -> PoisonMachine {
        PoisonMachine(
            times: .init(
                emptyingMax: .seconds(2),
                turnMax: .seconds(3),
                lastEmptyingMax: .seconds(20),
                lastTurnMax: .seconds(30),
                shutMax: .seconds(5),
                rest: .seconds(6),
                slowRest: .seconds(7)
            )
        )
    }

    @Test(.timeLimit(.minutes(1)))
    func `A shard that cannot excuse its entries keeps no poison entry of another waiting for long`() async {
        let gate = PoisonGate(times: .init(turnMax: .seconds(60), excusingMax: .milliseconds(20)))
        let (never, end) = AsyncStream<Void>.makeStream()
        let away = gate.join { _ in for await _ in never {} }
        let entry = StreamEntry(
            stream: "s",
            id: "1-1",
            message: [],
            deliveries: StreamLimits.deliveriesTogetherMax + 1,
        )
        let ticket = await gate.enter(entry)
        #expect(ticket != nil)
        end.finish()
        gate.resign(away)
    }

    @Test func `A poison entry waits for entries in hand, and redelivered ones begin at its first progress`() {
        var gate = Self.machine()
        #expect(gate.arrived(1, .returned) == [.admit(1)])
        #expect(gate.arrived(2, Self.poison) == [.start(.shut(2), .seconds(5)), .start(.emptying(2), .seconds(2))])
        #expect(!gate.isOpen)
        #expect(gate.arrived(3, .returned).isEmpty)
        #expect(gate.ended(1) == [.excuse(2)])
        #expect(gate.excused(2) == [.admit(2), .start(.turn(2), .seconds(3))])
        #expect(gate.progressed(2) == [.admit(3), .start(.rest(2), .seconds(6))])
        #expect(gate.isOpen)
        // The clocks that were started mean nothing any more.
        #expect(gate.timePassed(.emptying(2)).isEmpty && gate.timePassed(.turn(2)).isEmpty)
        #expect(gate.timePassed(.shut(2)).isEmpty && gate.timePassed(.rest(2)).isEmpty && gate.isOpen)
        #expect(gate.ended(2).isEmpty && gate.ended(3).isEmpty)
    }

    @Test(arguments: [Self.poison, Self.lastChance])
    func `First deliveries begin at once, whatever a poison entry does`(
        poison: PoisonMachine.Standing
    ) {
        var gate = Self.machine()
        #expect(gate.arrived(1, .first) == [.admit(1)])
        _ = gate.arrived(2, poison)
        #expect(gate.arrived(3, .first) == [.admit(3)], "while what was in hand ends")
        // The turn does not wait for those that began since.
        #expect(gate.ended(1) == [.excuse(2)])
        #expect(gate.arrived(4, .first) == [.admit(4)], "while the others are excused")
        _ = gate.excused(2)
        #expect(gate.arrived(5, .first) == [.admit(5)], "during the turn")
        #expect(gate.arrived(6, .returned).isEmpty)
        for ticket in UInt64(3)...5 { #expect(gate.ended(ticket).isEmpty) }
        #expect(gate.timePassed(.turn(2)).first == .admit(6))
        #expect(gate.arrived(7, .first) == [.admit(7)])
        #expect(gate.arrived(8, .returned) == [.admit(8)])
    }

    @Test func `The end of an entry that began later does not begin the turn`() {
        var gate = Self.machine()
        _ = gate.admits(1, .first)
        _ = gate.arrived(2, Self.poison)
        _ = gate.admits(3, .first)
        #expect(gate.ended(3).isEmpty)
        #expect(gate.ended(1) == [.excuse(2)])
    }

    @Test func `Entries that do not end in time are excused, and the poison entry runs beside them`() {
        var gate = Self.machine()
        _ = gate.arrived(1, .returned)
        _ = gate.arrived(2, Self.poison)
        #expect(gate.timePassed(.emptying(2)) == [.excuse(2)])
        #expect(gate.ended(1).isEmpty)
        #expect(gate.excused(2) == [.admit(2), .start(.turn(2), .seconds(3))])
        #expect(gate.ended(2) == [.start(.rest(2), .seconds(6))])
        #expect(gate.isOpen)
    }

    @Test func `Poison entries run one after the other, as long as no redelivered entry waits`() {
        var gate = Self.machine()
        #expect(gate.arrived(1, Self.poison) == [.start(.shut(1), .seconds(5)), .excuse(1)])
        #expect(gate.arrived(2, Self.poison).isEmpty)
        _ = gate.excused(1)
        // The first makes progress and goes on as one of the many: the second waits for it.
        #expect(gate.progressed(1) == [.start(.emptying(2), .seconds(2))])
        #expect(gate.ended(1) == [.excuse(2)])
    }

    @Test func `Redelivered entries begin after one poison entry, however many more there are`() {
        var gate = Self.machine()
        for poison in UInt64(1)...200 { _ = gate.arrived(poison, Self.poison) }
        #expect(gate.arrived(1_000, .returned).isEmpty)
        _ = gate.excused(1)
        #expect(gate.ended(1) == [.admit(1_000), .start(.rest(1), .seconds(6))])
        #expect(gate.isOpen)
        #expect(gate.arrived(1_001, .returned) == [.admit(1_001)])
        _ = gate.ended(1_000)
        _ = gate.ended(1_001)
        #expect(gate.timePassed(.rest(1)) == [.start(.shut(2), .seconds(5)), .excuse(2)])
    }

    @Test func `Poison entries keep others from being taken over for a bounded time, even if none waits`() {
        var gate = Self.machine()
        for poison in UInt64(1)...200 { _ = gate.arrived(poison, Self.poison) }
        _ = gate.excused(1)
        #expect(gate.ended(1) == [.excuse(2)])
        _ = gate.excused(2)
        #expect(gate.timePassed(.shut(1)).isEmpty)
        #expect(gate.ended(2) == [.start(.rest(2), .seconds(6))])
        #expect(gate.isOpen)
        #expect(gate.timePassed(.rest(2)) == [.start(.shut(3), .seconds(5)), .excuse(3)])
    }

    @Test func `A poison entry that does nothing has a turn of bounded time, and the next one waits longer`() {
        var gate = Self.machine()
        _ = gate.arrived(1, Self.poison)
        _ = gate.excused(1)
        #expect(gate.arrived(2, Self.poison).isEmpty)
        #expect(gate.arrived(3, .returned).isEmpty)
        #expect(gate.timePassed(.turn(1)) == [.admit(3), .start(.rest(1), .seconds(7))])
        #expect(gate.arrived(4, .returned) == [.admit(4)])
        #expect(gate.timePassed(.rest(1)) == [.start(.shut(2), .seconds(5)), .start(.emptying(2), .seconds(2))])
    }

    @Test func `A poison entry that becomes a dead letter with the next end gets a longer turn`() {
        var gate = Self.machine()
        _ = gate.arrived(1, .first)
        #expect(
            gate.arrived(2, Self.lastChance) == [.start(.shut(2), .seconds(5)), .start(.emptying(2), .seconds(20))]
        )
        #expect(gate.timePassed(.emptying(2)) == [.excuse(2)])
        #expect(gate.excused(2) == [.admit(2), .start(.turn(2), .seconds(30))])
    }

    @Test func `An entry is classified by its deliveries`() {
        let standings = (UInt32(0)...6).map {
            StreamEntry(stream: "s", id: "1-1", message: [], deliveries: $0).standing
        }
        #expect(standings == [.first, .first, .returned, Self.poison, Self.lastChance, .returned, .returned])
    }

    /// Innocent entries that begin beside others' crimes, as a process that dies at the worst moments would count them.
    @Test func `Beside two poison entries in a row no other entry comes to need a turn of its own`() {
        // A first delivery is counted when its process ends in a turn; from then on it is excused, whether it runs or waits.
        var deliveries: UInt32 = 1
        for _ in 0..<4 {
            let entry = StreamEntry(stream: "s", id: "1-1", message: [], deliveries: deliveries)
            let counted = entry.standing == .first ? deliveries : deliveries - 1
            // The consumer that takes it over counts one more.
            deliveries = counted + 1
        }
        #expect(deliveries == StreamLimits.deliveriesTogetherMax)
    }

    @Test(arguments: 0..<3) func `A stop refuses entries that have not begun`(steps: Int) {
        var gate = Self.machine()
        _ = gate.arrived(1, .returned)
        _ = gate.arrived(2, Self.poison)
        _ = gate.arrived(3, .returned)
        if steps > 0 { _ = gate.timePassed(.emptying(2)) }
        if steps > 1 { _ = gate.excused(2) }
        let refused = gate.stop()
        #expect(Set(refused) == (steps > 1 ? [.refuse(3)] : [.refuse(3), .refuse(2)]))
        #expect(gate.isOpen)
        #expect(gate.arrived(4, Self.poison) == [.refuse(4)] && gate.arrived(5, .first) == [.refuse(5)])
        #expect(gate.excused(2).isEmpty && gate.ended(1).isEmpty)
        #expect(gate.ended(2) == (steps > 1 ? [.start(.rest(2), .seconds(6))] : []))
        #expect(gate.timePassed(.rest(2)).isEmpty)
    }
}
