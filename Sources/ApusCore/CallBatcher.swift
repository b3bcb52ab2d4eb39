package import Synchronization

/// Makes one call of requests that come together.
///
/// The first request starts a call at once. Requests that come before that call has begun, or while one is under way, share the next one. So no
/// request waits for a batch to fill, and batches grow with the load.
///
/// It is inlinable, because unspecialized code would look up types at each request.
package final class CallBatcher<Request: Sendable, Answer: Sendable>: Sendable {
    /// Makes a call of several requests, and returns an answer for each, in their order.
    package typealias Perform = @Sendable ([Request]) async throws -> [Answer]

    @usableFromInline
    struct Batch {
        @usableFromInline var requests: [Request] = []
        /// The callers that wait, in the same order.
        @usableFromInline var callers: [CheckedContinuation<Answer, any Error>] = []

        @inlinable
        init() {}
    }

    @usableFromInline
    struct State {
        @usableFromInline var waiting = Batch()
        @usableFromInline var isUnderWay = false

        @inlinable
        init() {}
    }

    @usableFromInline let countMax: Int
    @usableFromInline let executor: (any TaskExecutor)?
    @usableFromInline let perform: Perform
    @usableFromInline let state = Mutex(State())

    /// Creates a batcher.
    ///
    /// - Parameters:
    ///   - countMax: the maximum number of requests of one call.
    ///   - executor: where calls are made; nil for the default executor.
    @inlinable
    package init(countMax: Int, on executor: (any TaskExecutor)? = nil, _ perform: @escaping Perform) {
        precondition(countMax > 0)
        self.countMax = countMax
        self.executor = executor
        self.perform = perform
    }

    /// Returns the answer to a request, from a call that may carry others.
    ///
    /// - Throws: the call's error, which all its requests share.
    @inlinable
    package func answer(to request: Request) async throws -> Answer {
        try await withCheckedThrowingContinuation { continuation in
            let mustBegin = self.state.withLock { state in
                state.waiting.requests.append(request)
                state.waiting.callers.append(continuation)
                defer { state.isUnderWay = true }
                return !state.isUnderWay
            }
            if mustBegin { Task(executorPreference: self.executor) { await self.run() } }
        }
    }

    @inlinable
    func run() async {
        while let batch = self.take() {
            do {
                let answers = try await self.perform(batch.requests)
                precondition(answers.count == batch.requests.count, "a call answers each of its requests")
                for index in answers.indices { batch.callers[index].resume(returning: answers[index]) }
            } catch {
                for caller in batch.callers { caller.resume(throwing: error) }
            }
        }
    }

    @inlinable
    func take() -> Batch? {
        self.state.withLock { state in
            guard !state.waiting.requests.isEmpty else {
                state.isUnderWay = false
                return nil
            }
            guard state.waiting.requests.count > self.countMax else {
                defer { state.waiting = Batch() }
                return state.waiting
            }
            var batch = Batch()
            batch.requests = Array(state.waiting.requests.prefix(self.countMax))
            batch.callers = Array(state.waiting.callers.prefix(self.countMax))
            state.waiting.requests.removeFirst(self.countMax)
            state.waiting.callers.removeFirst(self.countMax)
            return batch
        }
    }
}
