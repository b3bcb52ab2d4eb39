internal import ApusCore
internal import ApusMetrics
internal import ApusProviders
internal import NIOCore

/// The dispatcher's metrics with the cells that any thread may count in.
struct DispatcherInstruments: Sendable {
    let metrics: DispatcherMetrics
    let shared: SharedMetrics

    /// Records how large the messages of a route are.
    func note(_ context: RouteContext) {
        let histogram = self.metrics.payloadBytes[context.route.provider]
        for message in context.messages.variants { self.shared.observe(Int64(message.payloadBytes), in: histogram) }
    }

    /// A token was made for a provider, or was not to be had.
    func minted(_ provider: Provider, _ succeeded: Bool) {
        self.shared.add(to: self.metrics.tokenMints[provider, succeeded ? .ok : .failed])
    }

    /// Does something of a stage, and records how long it took if it succeeds.
    func timing<Result>(_ stage: DispatchStage, _ body: () async throws -> Result) async throws -> Result {
        let start = NIODeadline.now()
        let result = try await body()
        self.shared.observe((NIODeadline.now() - start).nanoseconds, in: self.metrics.stageDuration[stage])
        return result
    }
}
