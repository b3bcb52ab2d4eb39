import ApusCore
import Synchronization
import Testing

@Suite struct CallBatcherTests {
    private struct Refused: Error {}

    /// Records the calls that a batcher makes, and keeps them waiting as long as it is closed.
    private final class Calls: Sendable {
        private let state = Mutex((made: [[Int]](), waiters: [CheckedContinuation<Void, Never>](), isOpen: false))

        var made: [[Int]] { self.state.withLock { $0.made } }

        func make(_ requests: [Int]) async {
            await withCheckedContinuation { continuation in
                let isOpen = self.state.withLock { state in
                    state.made.append(requests)
                    if !state.isOpen { state.waiters.append(continuation) }
                    return state.isOpen
                }
                if isOpen { continuation.resume() }
            }
        }

        func open() {
            let waiters = self.state.withLock { state in
                state.isOpen = true
                defer { state.waiters = [] }
                return state.waiters
            }
            for waiter in waiters { waiter.resume() }
        }
    }

    private func untilTrue(_ condition: () -> Bool) async throws {
        while !condition() { try await Task.sleep(for: .milliseconds(1)) }
    }

    @Test func `A request by itself is a call by itself`() async throws {
        let calls = Calls()
        calls.open()
        let batcher = CallBatcher<Int, Int>(countMax: 10) { requests in
            await calls.make(requests)
            return requests.map { $0 * 2 }
        }
        #expect(try await batcher.answer(to: 1) == 2)
        #expect(try await batcher.answer(to: 2) == 4)
        #expect(calls.made == [[1], [2]])
    }

    @Test(.timeLimit(.minutes(1)))
    func `What comes while a call is under way shares the next ones, each with its answer, up to the limit`()
        async throws
    {
        let calls = Calls()
        let batcher = CallBatcher<Int, Int>(countMax: 4) { requests in
            await calls.make(requests)
            return requests.map { $0 * 2 }
        }
        try await withThrowingTaskGroup(of: (Int, Int).self) { group in
            group.addTask { (0, try await batcher.answer(to: 0)) }
            try await self.untilTrue { calls.made == [[0]] }
            for request in 1...10 { group.addTask { (request, try await batcher.answer(to: request)) } }
            // Nothing tells that all ten wait: a pause can only make the test weaker, never fail.
            try await Task.sleep(for: .milliseconds(20))
            calls.open()
            for try await (request, answer) in group { #expect(answer == request * 2) }
        }
        #expect(calls.made.flatMap(\.self).sorted() == Array(0...10))
        #expect(calls.made.allSatisfy { $0.count <= 4 } && calls.made.count <= 11)
    }

    @Test func `An error of a call is that of all its requests, and of no other`() async throws {
        let failures = Mutex(1)
        let batcher = CallBatcher<Int, Int>(countMax: 4) { requests in
            let fails = failures.withLock { count in
                defer { count -= 1 }
                return count > 0
            }
            if fails { throw Refused() }
            return requests
        }
        await #expect(throws: Refused.self) { try await batcher.answer(to: 1) }
        #expect(try await batcher.answer(to: 2) == 2)
    }
}
