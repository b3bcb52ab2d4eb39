internal import ApusCore
internal import Synchronization

/// Lets every entry of a process begin in its turn: poison entries one at a time, first deliveries always at once.
///
/// One gate serves all shards of a process, because a poison entry that ends the process ends it for all of them.
package final class PoisonGate: Sendable {
    typealias Ticket = PoisonMachine.Ticket
    /// Tells Redis that the redelivered entries in hand of one shard, except that entry, are not to be blamed for the end of this process.
    typealias Excuse = @Sendable (_ poison: StreamEntry) async -> Void

    private struct Suspended {
        var continuation: CheckedContinuation<Bool, Never>
        var entry: StreamEntry
    }

    private struct State {
        var machine: PoisonMachine
        var nextTicket: Ticket = 1
        /// The entries that wait for the machine's decision.
        var suspended: [Ticket: Suspended] = [:]
        var members: [UInt64: Excuse] = [:]
    }

    private let excusingMax: Duration
    private let state: Mutex<State>

    /// Creates an open gate.
    package convenience init() { self.init(times: PoisonTimes()) }

    init(times: PoisonTimes) {
        self.excusingMax = times.excusingMax
        self.state = Mutex(State(machine: PoisonMachine(times: times)))
    }

    /// Adds one shard's way to excuse the entries that it has in hand, and returns its number, with which it can be removed.
    func join(_ excuse: @escaping Excuse) -> UInt64 {
        self.state.withLock { state in
            state.nextTicket += 1
            state.members[state.nextTicket] = excuse
            return state.nextTicket
        }
    }

    func resign(_ member: UInt64) {
        self.state.withLock { $0.members[member] = nil }
    }

    /// Waits for an entry's turn; returns nil when nothing may begin any more.
    func enter(_ entry: StreamEntry) async -> Ticket? {
        let (ticket, isAdmitted) = self.state.withLock { state in
            state.nextTicket += 1
            return (state.nextTicket, state.machine.admits(state.nextTicket, entry.standing))
        }
        if isAdmitted { return ticket }
        let mayBegin = await withCheckedContinuation { continuation in
            self.run { state in
                state.suspended[ticket] = Suspended(continuation: continuation, entry: entry)
                return state.machine.arrived(ticket, entry.standing)
            }
        }
        return mayBegin ? ticket : nil
    }

    /// Reports that the entry made progress.
    func progressed(_ ticket: Ticket) { self.run { $0.machine.progressed(ticket) } }

    /// Reports that the entry has ended.
    func leave(_ ticket: Ticket) { self.run { $0.machine.ended(ticket) } }

    /// Stops the gate: no further entry begins.
    package func stop() { self.run { $0.machine.stop() } }

    /// True when redelivered entries may begin at once; until then none is worth taking over.
    var isOpen: Bool { self.state.withLock { $0.machine.isOpen } }

    private func run(_ body: (inout State) -> [PoisonMachine.Action]) {
        let steps = self.state.withLock { state in
            let actions = body(&state)
            return actions.map { self.step(for: $0, &state) }
        }
        for step in steps { step() }
    }

    /// Performs an action of the machine, outside the lock.
    private func step(for action: PoisonMachine.Action, _ state: inout State) -> @Sendable () -> Void {
        switch action {
        case .admit(let ticket):
            let suspended = state.suspended.removeValue(forKey: ticket)
            return { suspended?.continuation.resume(returning: true) }
        case .refuse(let ticket):
            let suspended = state.suspended.removeValue(forKey: ticket)
            return { suspended?.continuation.resume(returning: false) }
        case .excuse(let ticket):
            let entry = state.suspended[ticket]?.entry
            let members = Array(state.members.values)
            return {
                Task {
                    if let entry {
                        await withTaskGroup(of: Void.self) { group in
                            for excuse in members {
                                // A shard that is away stops the others no longer than that.
                                group.addTask { await firstWithin(self.excusingMax) { await excuse(entry) } }
                            }
                        }
                    }
                    self.run { $0.machine.excused(ticket) }
                }
            }
        case .start(let clock, let duration):
            return {
                Task {
                    try? await Task.sleep(for: duration)
                    self.run { $0.machine.timePassed(clock) }
                }
            }
        }
    }
}
