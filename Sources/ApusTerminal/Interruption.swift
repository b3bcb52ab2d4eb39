internal import Dispatch
internal import Glibc

/// Converts Ctrl-C and similar signals to cancellation, so that everything that was started ends in order.
package enum Interruption {
    /// Runs `body`; SIGINT, SIGTERM and SIGHUP cancel it. A second signal has no effect: cleaning up takes a moment.
    package static func whileWatching<Result: Sendable>(
        _ body: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        let task = Task { try await body() }
        let watch = Task {
            for await _ in Self.signals() { task.cancel() }
        }
        defer { watch.cancel() }
        return try await task.value
    }

    private static func signals() -> AsyncStream<Int32> {
        AsyncStream { continuation in
            // Dispatch locks its sources itself, but its Swift overlay does not declare it.
            nonisolated(unsafe) let sources = [SIGINT, SIGTERM, SIGHUP].map { number in
                _ = signal(number, SIG_IGN)
                let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
                source.setEventHandler { continuation.yield(number) }
                source.resume()
                return source
            }
            continuation.onTermination = { _ in
                for source in unsafe sources { source.cancel() }
            }
        }
    }
}
