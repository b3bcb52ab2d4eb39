internal import ApusCore
internal import ApusMetrics
internal import ApusProviders
internal import ApusService
internal import NIOCore

/// The dispatcher's metrics, with cells that any thread may count in.
struct DispatcherInstruments: Sendable {
    let metrics: DispatcherMetrics
    let shared: SharedMetrics
    /// Records the spans of sampled traces; nil if traces are not exported.
    var spans: SpanRecorder?

    /// Counts a token that was made for a provider, or could not be made.
    func minted(_ provider: Provider, _ succeeded: Bool) {
        self.shared.add(to: self.metrics.tokenMints[provider, succeeded ? .ok : .failed])
    }

    /// Runs `body` and records its duration under a stage if it succeeds.
    func timing<Result>(_ stage: DispatchStage, _ body: () async throws -> Result) async throws -> Result {
        let start = NIODeadline.now()
        let result = try await body()
        self.shared.observe((NIODeadline.now() - start).nanoseconds, in: self.metrics.stageDuration[stage])
        return result
    }
}
