internal import Synchronization

/// Makes one call of requests that come together.
///
/// The first request starts a call at once. Requests that come before that call has begun, or while one is under way, share the next one. So no
/// request waits for a batch to fill, and batches grow with the load.
package final class CallBatcher<Request: Sendable, Answer: Sendable>: Sendable {
    /// Makes a call of several requests, and returns an answer for each, in their order.
    package typealias Perform = @Sendable ([Request]) async throws -> [Answer]

    private struct State {
        var waiting: [(request: Request, continuation: CheckedContinuation<Answer, any Error>)] = []
        var isUnderWay = false
    }

    private let countMax: Int
    private let executor: (any TaskExecutor)?
    private let perform: Perform
    private let state = Mutex(State())

    /// Creates a batcher.
    ///
    /// - Parameters:
    ///   - countMax: the maximum number of requests of one call.
    ///   - executor: where calls are made; nil for the default executor.
    package init(countMax: Int, on executor: (any TaskExecutor)? = nil, _ perform: @escaping Perform) {
        precondition(countMax > 0)
        self.countMax = countMax
        self.executor = executor
        self.perform = perform
    }

    /// Returns the answer to a request, from a call that may carry others.
    ///
    /// - Throws: the call's error, which all its requests share.
    package func answer(to request: Request) async throws -> Answer {
        try await withCheckedThrowingContinuation { continuation in
            let mustBegin = self.state.withLock { state in
                state.waiting.append((request, continuation))
                defer { state.isUnderWay = true }
                return !state.isUnderWay
            }
            if mustBegin { Task(executorPreference: self.executor) { await self.run() } }
        }
    }

    private func run() async {
        while let batch = self.take() {
            do {
                let answers = try await self.perform(batch.map(\.request))
                precondition(answers.count == batch.count, "a call answers each of its requests")
                for (waiting, answer) in zip(batch, answers) { waiting.continuation.resume(returning: answer) }
            } catch {
                for waiting in batch { waiting.continuation.resume(throwing: error) }
            }
        }
    }

    private func take() -> [(request: Request, continuation: CheckedContinuation<Answer, any Error>)]? {
        self.state.withLock { state in
            guard !state.waiting.isEmpty else {
                state.isUnderWay = false
                return nil
            }
            let batch = Array(state.waiting.prefix(self.countMax))
            state.waiting.removeFirst(batch.count)
            return batch
        }
    }
}
