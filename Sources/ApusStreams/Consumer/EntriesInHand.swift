internal import Synchronization

/// The entries of some streams that this process is at work on, and the room for more.
final class EntriesInHand: Sendable {
    private struct State {
        /// Ids by stream.
        var entries: [String: Set<String>] = [:]
        var count = 0
        var waiters: [CheckedContinuation<Void, Never>] = []
        var isStopped = false
    }

    private let countMax: Int
    private let state = Mutex(State())

    init(countMax: Int) {
        precondition(countMax > 0)
        self.countMax = countMax
    }

    /// Whether nothing is in hand.
    var isEmpty: Bool { self.state.withLock { $0.count == 0 } }

    /// Ids of what is in hand.
    var byStream: [(stream: String, entries: [String])] {
        self.state.withLock { state in state.entries.map { ($0.key, Array($0.value)) } }
    }

    /// Counts an entry; false when it is in hand already: it came back because its lease ran out here.
    func add(_ entry: StreamEntry) -> Bool {
        self.state.withLock { state in
            guard state.entries[entry.stream, default: []].insert(entry.id).inserted else { return false }
            state.count += 1
            return true
        }
    }

    /// Counts it no more.
    func remove(_ entry: StreamEntry) {
        self.wake { state in
            state.entries[entry.stream]?.remove(entry.id)
            if state.entries[entry.stream]?.isEmpty == true { state.entries[entry.stream] = nil }
            state.count -= 1
        }
    }

    /// Nobody may begin anything any more.
    func stop() {
        self.wake { $0.isStopped = true }
    }

    /// Waits until an entry may be begun; false: nothing may be begun any more.
    func waitForRoom() async -> Bool {
        let countMax = self.countMax
        await self.wait { count, isStopped in count >= countMax && !isStopped }
        return self.state.withLock { !$0.isStopped }
    }

    /// Waits until nothing is in hand.
    func waitUntilEmpty() async {
        await self.wait { count, _ in count > 0 }
    }

    private func wait(while condition: @escaping @Sendable (Int, _ isStopped: Bool) -> Bool) async {
        while self.state.withLock({ condition($0.count, $0.isStopped) }) {
            await withCheckedContinuation { continuation in
                if !self.enlist(continuation, while: condition) { continuation.resume() }
            }
        }
    }

    /// Whether the waiter was taken: the condition still holds.
    private func enlist(
        _ continuation: CheckedContinuation<Void, Never>,
        while condition: (Int, _ isStopped: Bool) -> Bool,
    ) -> Bool {
        self.state.withLock { state in
            guard condition(state.count, state.isStopped) else { return false }
            state.waiters.append(continuation)
            return true
        }
    }

    private func wake(_ change: (inout State) -> Void) {
        let waiters = self.state.withLock { state in
            change(&state)
            let waiters = state.waiters
            state.waiters = []
            return waiters
        }
        for waiter in waiters { waiter.resume() }
    }
}
