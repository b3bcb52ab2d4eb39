internal import Synchronization

/// Limits the tasks that hold a permit at once. The others wait in the order in which they came.
package final class AsyncSemaphore: Sendable {
    private struct State {
        var permits: Int
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state: Mutex<State>

    /// Creates a semaphore.
    ///
    /// - Parameter permits: the maximum of tasks that hold a permit, from 1.
    package init(_ permits: Int) {
        precondition(permits > 0)
        self.state = Mutex(State(permits: permits))
    }

    /// Waits for a permit.
    package func acquire() async {
        await withCheckedContinuation { continuation in
            let isFree = self.state.withLock { state in
                guard state.permits == 0 else {
                    state.permits -= 1
                    return true
                }
                state.waiting.append(continuation)
                return false
            }
            if isFree { continuation.resume() }
        }
    }

    /// Gives the permit back.
    package func release() {
        let next = self.state.withLock { state -> CheckedContinuation<Void, Never>? in
            guard state.waiting.isEmpty else { return state.waiting.removeFirst() }
            state.permits += 1
            return nil
        }
        next?.resume()
    }
}
