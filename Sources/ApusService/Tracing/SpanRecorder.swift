internal import ApusCore
public import ApusMetrics
internal import Synchronization

/// Keeps the spans of a process until they are exported. Spans that are not sampled (the flag of W3C) are not kept.
public final class SpanRecorder: Sendable {
    /// The maximum number of waiting spans. A further span is dropped and counted: sending never waits for tracing.
    public static let waitingMax = 4_096

    private let waiting = Mutex<[TraceSpan]>([])
    private let metrics: CounterBy<SpanOutcomeLabel>
    private let shared: SharedMetrics

    /// Creates an empty recorder.
    public init(_ metrics: CounterBy<SpanOutcomeLabel>, shared: SharedMetrics) {
        self.metrics = metrics
        self.shared = shared
    }

    /// Keeps a span if its trace is sampled and there is room.
    public func record(_ span: TraceSpan) {
        guard span.context.isSampled else { return }
        let isKept = self.waiting.withLock { waiting in
            guard waiting.count < Self.waitingMax else { return false }
            waiting.append(span)
            return true
        }
        if !isKept { self.count(1, .dropped) }
    }

    /// Removes and returns the oldest spans, at most `countMax`.
    func take(_ countMax: Int) -> [TraceSpan] {
        self.waiting.withLock { waiting in
            let taken = Array(waiting.prefix(countMax))
            waiting.removeFirst(taken.count)
            return taken
        }
    }

    func count(_ spans: Int, _ outcome: SpanOutcomeLabel) {
        self.shared.add(Int64(spans), to: self.metrics[outcome])
    }
}
