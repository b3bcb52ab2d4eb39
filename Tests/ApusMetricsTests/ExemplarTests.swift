import ApusCore
import ApusMetrics
import Testing

/// OpenMetrics 1.0, "Exemplars".
@Suite struct ExemplarTests {
    private struct TracedMetrics: MetricSet {
        private static let buckets = MetricBuckets(bounds: [1_000_000, 1_000_000_000], scale: .billionths)

        let plain = HistogramBy<Provider>("shop_plain_seconds", "How long.", buckets: buckets)
        let latency = HistogramBy<Provider>("shop_latency_seconds", "How long.", buckets: buckets, keepsExemplars: true)
    }

    private let trace = TraceID(high: 0x4bf9_2f35_77b3_4da6, low: 0x0ac)
    private let text = "4bf92f3577b34da600000000000000ac"

    private func lines(_ registry: MetricRegistry, _ format: ExpositionFormat) async -> [Substring] {
        String(decoding: await registry.exposition(format), as: UTF8.self).split(separator: "\n")
    }

    @Test func `The last trace of each bucket stands beside it, in OpenMetrics alone`() async {
        var catalogue = MetricCatalogue()
        let metrics = TracedMetrics(&catalogue)
        let registry = MetricRegistry(catalogue)
        let shard = registry.makeShard()
        let histogram = metrics.latency[.fcm]
        let first = MetricExemplar(trace: TraceID(high: 1, low: 1), value: 2_000_000, milliseconds: 1_000)
        let second = MetricExemplar(trace: self.trace, value: 250_000_000, milliseconds: 1_700_000_000_500)
        shard.observe(first, in: histogram)
        shard.observe(second, in: histogram)
        shard.observe(3_000_000_000, in: histogram)
        shard.observe(second, in: metrics.plain[.fcm])
        let copy = shard.snapshot()
        registry.register { copy }
        let name = "shop_latency_seconds_bucket{provider=\"fcm\",le="
        let open = await self.lines(registry, .openMetrics)
        #expect(open.contains("\(name)\"0.001\"} 0"))
        #expect(open.contains("\(name)\"1.0\"} 2 # {trace_id=\"\(self.text)\"} 0.25 1700000000.5"))
        #expect(open.contains("\(name)\"+Inf\"} 3"))
        #expect(open.count { $0.contains("trace_id") } == 1, "only a histogram that keeps them shows them")
        let plain = await self.lines(registry, .prometheusText)
        #expect(plain.contains("\(name)\"1.0\"} 2"))
        #expect(!plain.contains { $0.contains("trace_id") })
    }

    @Test func `The latest of several owners counts`() async {
        var catalogue = MetricCatalogue()
        let metrics = TracedMetrics(&catalogue)
        let registry = MetricRegistry(catalogue)
        for (low, milliseconds) in [(UInt64(1), Int64(20)), (2, 30), (3, 10)] {
            let shard = registry.makeShard()
            let exemplar = MetricExemplar(trace: TraceID(high: 0, low: low), value: 1, milliseconds: milliseconds)
            shard.observe(exemplar, in: metrics.latency[.apns])
            let copy = shard.snapshot()
            registry.register { copy }
        }
        let line = await self.lines(registry, .openMetrics).first { $0.contains("trace_id") }
        #expect(line?.contains("} 3 # {trace_id=\"00000000000000000000000000000002\"} 0.000000001 0.03") == true)
    }

    @Test func `A handle refers to its declaration`() {
        var catalogue = MetricCatalogue()
        let metrics = TracedMetrics(&catalogue)
        #expect(catalogue.definition(of: metrics.latency).name == "shop_latency_seconds")
        #expect(catalogue.definition(of: metrics.latency[.fcm]).name == "shop_latency_seconds")
        #expect(catalogue.definition(of: metrics.plain[.fcm]).name == "shop_plain_seconds")
        // Two bounds and the rest, sum and count, for each provider.
        #expect(catalogue.definition(of: metrics.plain).seriesCount == Provider.allCases.count * 5)
    }
}
