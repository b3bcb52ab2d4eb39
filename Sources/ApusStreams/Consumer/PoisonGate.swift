internal import Synchronization

/// Lets every entry of a process begin in its turn: poison entries one at a time, first deliveries always at once.
///
/// One gate serves all shards of a process, because a poison entry that ends the process ends it for all of them.
package final class PoisonGate: Sendable {
    typealias Visitor = PoisonMachine.Visitor
    /// Tells Redis that what one shard has in hand and came back, but for that entry, is not to answer for the end of this process.
    typealias Excuse = @Sendable (_ poison: StreamEntry) async -> Void

    private struct Suspended {
        var continuation: CheckedContinuation<Bool, Never>
        var entry: StreamEntry
    }

    private struct State {
        var machine: PoisonMachine
        var nextVisitor: Visitor = 1
        /// What the machine decided about those that have not asked for it yet.
        var suspended: [Visitor: Suspended] = [:]
        var members: [UInt64: Excuse] = [:]
    }

    private let state: Mutex<State>

    /// A gate that is open.
    package convenience init() { self.init(times: PoisonTimes()) }

    init(times: PoisonTimes) { self.state = Mutex(State(machine: PoisonMachine(times: times))) }

    /// One shard's way to excuse what it has in hand; its number, to take it away again.
    func join(_ excuse: @escaping Excuse) -> UInt64 {
        self.state.withLock { state in
            state.nextVisitor += 1
            state.members[state.nextVisitor] = excuse
            return state.nextVisitor
        }
    }

    func resign(_ member: UInt64) {
        self.state.withLock { $0.members[member] = nil }
    }

    /// Waits for an entry's turn; nil: nothing may begin any more.
    func enter(_ entry: StreamEntry) async -> Visitor? {
        let (visitor, isAdmitted) = self.state.withLock { state in
            state.nextVisitor += 1
            return (state.nextVisitor, state.machine.admits(state.nextVisitor, entry.standing))
        }
        if isAdmitted { return visitor }
        let mayBegin = await withCheckedContinuation { continuation in
            self.run { state in
                state.suspended[visitor] = Suspended(continuation: continuation, entry: entry)
                return state.machine.arrived(visitor, entry.standing)
            }
        }
        return mayBegin ? visitor : nil
    }

    /// It made progress.
    func progressed(_ visitor: Visitor) { self.run { $0.machine.progressed(visitor) } }

    /// It has ended.
    func leave(_ visitor: Visitor) { self.run { $0.machine.ended(visitor) } }

    /// Nothing begins any more.
    package func stop() { self.run { $0.machine.stop() } }

    /// Whether entries that came back may begin at once: before that none is worth taking over.
    var isOpen: Bool { self.state.withLock { $0.machine.isOpen } }

    private func run(_ body: (inout State) -> [PoisonMachine.Action]) {
        let steps = self.state.withLock { state in
            let actions = body(&state)
            return actions.map { self.step(for: $0, &state) }
        }
        for step in steps { step() }
    }

    /// What an action means, to be done outside the lock.
    private func step(for action: PoisonMachine.Action, _ state: inout State) -> @Sendable () -> Void {
        switch action {
        case .admit(let visitor):
            let suspended = state.suspended.removeValue(forKey: visitor)
            return { suspended?.continuation.resume(returning: true) }
        case .refuse(let visitor):
            let suspended = state.suspended.removeValue(forKey: visitor)
            return { suspended?.continuation.resume(returning: false) }
        case .excuse(let visitor):
            let entry = state.suspended[visitor]?.entry
            let members = Array(state.members.values)
            return {
                Task {
                    if let entry {
                        await withTaskGroup(of: Void.self) { group in
                            for excuse in members { group.addTask { await excuse(entry) } }
                        }
                    }
                    self.run { $0.machine.excused(visitor) }
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
