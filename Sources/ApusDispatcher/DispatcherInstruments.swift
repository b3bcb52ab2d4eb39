internal import ApusMetrics

/// The dispatcher's metrics with the cells that any thread may count in.
struct DispatcherInstruments: Sendable {
    let metrics: DispatcherMetrics
    let shared: SharedMetrics
}
