internal import ApusCore
internal import ServiceLifecycle

/// Limits the waits of a service that is asked to stop for things that nothing depends on.
package enum ShutdownLimits {
    /// The wait for work that was cancelled: it may be waiting for a Redis that is away.
    static let endingMax = Duration.seconds(1)
    /// The wait for connections that are being made.
    package static let closingMax = Duration.milliseconds(200)
}

/// Returns the result of some work; nil when the service is asked to stop first, or the task is cancelled. The work is cancelled
/// then, and not waited for any longer than `limit`.
package func unlessShutdown<Value: Sendable>(
    endingWithin limit: Duration = ShutdownLimits.endingMax,
    _ work: @escaping @Sendable () async throws -> Value,
) async throws -> Value? {
    typealias Ending = Result<Value?, any Error>
    let (endings, continuation) = AsyncStream<Ending>.makeStream(bufferingPolicy: .bufferingOldest(1))
    let working = Task {
        do {
            continuation.yield(.success(try await work()))
        } catch {
            continuation.yield(Task.isCancelled ? .success(nil) : .failure(error))
        }
    }
    @Sendable func stop() {
        working.cancel()
        Task {
            try? await Task.sleep(for: limit)
            continuation.yield(.success(nil))
        }
    }
    return try await withTaskCancellationHandler {
        try await withGracefulShutdownHandler {
            for await ending in endings { return try ending.get() }
            return nil
        } onGracefulShutdown: {
            stop()
        }
    } onCancel: {
        stop()
    }
}

/// Runs work that nothing depends on until it ends or the service is asked to stop. It is cancelled then, and not waited for any
/// longer than `limit`.
package func untilShutdown(
    endingWithin limit: Duration = ShutdownLimits.endingMax,
    _ work: @escaping @Sendable () async -> Void,
) async {
    _ = try? await unlessShutdown(endingWithin: limit) { await work() }
}
