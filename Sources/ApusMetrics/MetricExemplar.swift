public import ApusCore

/// An observation of a bucket that leads to a trace.
///
/// Source: OpenMetrics 1.0, "Exemplars".
public struct MetricExemplar: Sendable, Hashable {
    /// The trace.
    public let trace: TraceID
    /// The observed value, in steps of the buckets' scale.
    public let value: Int64
    /// The time, in milliseconds since 1970.
    public let milliseconds: Int64

    /// Creates an observation of a trace.
    @inlinable
    public init(trace: TraceID, value: Int64, milliseconds: Int64) {
        self.trace = trace
        self.value = value
        self.milliseconds = milliseconds
    }

    /// Stands for the missing exemplar of a bucket.
    @usableFromInline static let none = MetricExemplar(trace: TraceID(high: 0, low: 0), value: 0, milliseconds: 0)
}
