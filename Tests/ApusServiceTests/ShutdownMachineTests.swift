import ApusService
import Testing

@Suite struct ShutdownMachineTests {
    @Test func theFirstSignalDrainsAndTheSecondEnds() {
        var machine = ShutdownMachine()
        #expect(machine.receive(.reloadAsked) == .reload)
        #expect(machine.receive(.deadlinePassed) == .ignore)
        #expect(machine.receive(.stopAsked) == .drain)
        #expect(machine.receive(.reloadAsked) == .ignore)
        #expect(machine.receive(.stopAsked) == .exit)
        #expect(machine.receive(.stopAsked) == .ignore)
    }

    @Test func aDrainThatTakesTooLongEnds() {
        var machine = ShutdownMachine()
        #expect(machine.receive(.stopAsked) == .drain)
        #expect(machine.receive(.deadlinePassed) == .exit)
    }

    @Test func afterTheEndNothingHappens() {
        var machine = ShutdownMachine()
        #expect(machine.receive(.stopAsked) == .drain)
        #expect(machine.receive(.finished) == .ignore)
        #expect(machine.receive(.deadlinePassed) == .ignore)
        #expect(machine.receive(.stopAsked) == .ignore)
    }
}
