import ApusDispatcher
import ApusMetrics
import Testing

@Suite struct StageMetricsTests {
    @Test func `Each stage of dispatching has its own series, in the order of the stages`() {
        #expect(DispatchStage.allCases.flatMap(\.labelValues) == ["render", "resolve", "queue", "send", "write"])
        #expect(DispatchStage.labelNames == ["stage"])
    }
}
