internal import ApusMetrics
internal import NIOCore

/// The dispatcher's metrics with the cells that any thread may count in.
struct DispatcherInstruments: Sendable {
    let metrics: DispatcherMetrics
    let shared: SharedMetrics

    /// Does something of a stage, and records how long it took if it succeeds.
    func timing<Result>(_ stage: DispatchStage, _ body: () async throws -> Result) async throws -> Result {
        let start = NIODeadline.now()
        let result = try await body()
        self.shared.observe((NIODeadline.now() - start).nanoseconds, in: self.metrics.stageDuration[stage])
        return result
    }
}
