/// The result of some work, or nil when it takes too long; the work is then cancelled, but not waited for.
package func firstWithin<Result: Sendable>(
    _ limit: Duration,
    _ work: @escaping @Sendable () async -> Result,
) async -> Result? {
    let (stream, continuation) = AsyncStream<Result?>.makeStream(bufferingPolicy: .bufferingOldest(1))
    let working = Task { continuation.yield(await work()) }
    let waiting = Task {
        try? await Task.sleep(for: limit)
        continuation.yield(nil)
    }
    defer {
        working.cancel()
        waiting.cancel()
    }
    for await result in stream { return result }
    return nil
}
