internal import Synchronization

/// Lets so many in at once, and the others in the order in which they came.
package final class Turnstile: Sendable {
    private struct State {
        var free: Int
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state: Mutex<State>

    /// Creates a turnstile.
    ///
    /// - Parameter most: the maximum of those inside, from 1.
    package init(_ most: Int) {
        precondition(most > 0)
        self.state = Mutex(State(free: most))
    }

    /// Waits until there is room.
    package func enter() async {
        await withCheckedContinuation { continuation in
            let isFree = self.state.withLock { state in
                guard state.free == 0 else {
                    state.free -= 1
                    return true
                }
                state.waiting.append(continuation)
                return false
            }
            if isFree { continuation.resume() }
        }
    }

    /// Makes room for the next one.
    package func leave() {
        let next = self.state.withLock { state -> CheckedContinuation<Void, Never>? in
            guard state.waiting.isEmpty else { return state.waiting.removeFirst() }
            state.free += 1
            return nil
        }
        next?.resume()
    }
}
