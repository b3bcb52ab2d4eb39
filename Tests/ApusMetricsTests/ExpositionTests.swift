import ApusCore
import ApusMetrics
import Testing

/// A small service's metrics with every kind of family.
private struct ShopMetrics: MetricSet {
    enum Stage: Int, ClosedMetricLabel {
        case read
        case lookUp
        static let labelNames = ["stage"]
    }

    let deliveries = CounterBy2<Provider, Outcome>(
        "shop_deliveries_total",
        "Deliveries: \"final\" \\ ones.",
        by: .only([.apns]),
        .only([.accepted, .failed]),
    )
    let throttled = Counter("shop_throttled_seconds_total", "Time held back.", scale: .billionths)
    let inFlight = Gauge("shop_inflight", "Now.")
    let expiry = Gauge("shop_expiry_timestamp_seconds", "When.", scale: .thousandths, startsAbsent: true)
    let latency = HistogramBy<Stage>(
        "shop_latency_seconds",
        "How long.",
        buckets: MetricBuckets(bounds: [100_000, 1_000_000_000], scale: .billionths),
    )
    let apps = ConfiguredLabel("app", valuesMax: 2)
    let perApp: CounterBy<LabelSlot>

    init() {
        self.perApp = CounterBy("shop_apps_total", "By app.", by: .configured(self.apps))
        declareInfo("shop_build_info", "Build.", [("version", "1 \"x\"\n\\")])
    }
}

private func makeShop() -> (ShopMetrics, MetricRegistry) {
    var catalogue = MetricCatalogue()
    let metrics = ShopMetrics(&catalogue)
    return (metrics, MetricRegistry(catalogue))
}

private func text(_ registry: MetricRegistry, _ format: ExpositionFormat) async -> String {
    String(decoding: await registry.exposition(format), as: UTF8.self)
}

@Suite struct ExpositionTests {
    @Test func everythingEnumerableStartsAtZero() async {
        let (_, registry) = makeShop()
        let expected = """
            # HELP shop_apps_total By app.
            # TYPE shop_apps_total counter
            shop_apps_total{app="other"} 0
            # HELP shop_build_info Build.
            # TYPE shop_build_info gauge
            shop_build_info{version="1 \\"x\\"\\n\\\\"} 1
            # HELP shop_deliveries_total Deliveries: "final" \\\\ ones.
            # TYPE shop_deliveries_total counter
            shop_deliveries_total{provider="apns",outcome="accepted"} 0
            shop_deliveries_total{provider="apns",outcome="failed"} 0
            # HELP shop_inflight Now.
            # TYPE shop_inflight gauge
            shop_inflight 0
            # HELP shop_latency_seconds How long.
            # TYPE shop_latency_seconds histogram
            shop_latency_seconds_bucket{stage="read",le="0.0001"} 0
            shop_latency_seconds_bucket{stage="read",le="1.0"} 0
            shop_latency_seconds_bucket{stage="read",le="+Inf"} 0
            shop_latency_seconds_sum{stage="read"} 0.0
            shop_latency_seconds_count{stage="read"} 0
            shop_latency_seconds_bucket{stage="look_up",le="0.0001"} 0
            shop_latency_seconds_bucket{stage="look_up",le="1.0"} 0
            shop_latency_seconds_bucket{stage="look_up",le="+Inf"} 0
            shop_latency_seconds_sum{stage="look_up"} 0.0
            shop_latency_seconds_count{stage="look_up"} 0
            # HELP shop_throttled_seconds_total Time held back.
            # TYPE shop_throttled_seconds_total counter
            shop_throttled_seconds_total 0

            """
        #expect(await text(registry, .prometheusText) == expected)
    }

    @Test func openMetricsSaysTheSameInItsOwnForm() async {
        let (metrics, registry) = makeShop()
        registry.shared.add(3, to: metrics.deliveries[.apns, .failed])
        registry.shared.add(1_500_000_000, to: metrics.throttled)
        registry.shared.set(metrics.expiry, to: 1_700_000_000_250)
        registry.shared.add(2, to: metrics.perApp[metrics.apps.slot(for: "news")])
        let expected = """
            # TYPE shop_apps counter
            # HELP shop_apps By app.
            shop_apps_total{app="news"} 2
            shop_apps_total{app="other"} 0
            # TYPE shop_build info
            # HELP shop_build Build.
            shop_build_info{version="1 \\"x\\"\\n\\\\"} 1
            # TYPE shop_deliveries counter
            # HELP shop_deliveries Deliveries: \\"final\\" \\\\ ones.
            shop_deliveries_total{provider="apns",outcome="accepted"} 0
            shop_deliveries_total{provider="apns",outcome="failed"} 3
            # TYPE shop_expiry_timestamp_seconds gauge
            # UNIT shop_expiry_timestamp_seconds seconds
            # HELP shop_expiry_timestamp_seconds When.
            shop_expiry_timestamp_seconds 1700000000.25
            # TYPE shop_inflight gauge
            # HELP shop_inflight Now.
            shop_inflight 0
            # TYPE shop_latency_seconds histogram
            # UNIT shop_latency_seconds seconds
            # HELP shop_latency_seconds How long.
            shop_latency_seconds_bucket{stage="read",le="0.0001"} 0
            shop_latency_seconds_bucket{stage="read",le="1.0"} 0
            shop_latency_seconds_bucket{stage="read",le="+Inf"} 0
            shop_latency_seconds_sum{stage="read"} 0.0
            shop_latency_seconds_count{stage="read"} 0
            shop_latency_seconds_bucket{stage="look_up",le="0.0001"} 0
            shop_latency_seconds_bucket{stage="look_up",le="1.0"} 0
            shop_latency_seconds_bucket{stage="look_up",le="+Inf"} 0
            shop_latency_seconds_sum{stage="look_up"} 0.0
            shop_latency_seconds_count{stage="look_up"} 0
            # TYPE shop_throttled_seconds counter
            # UNIT shop_throttled_seconds seconds
            # HELP shop_throttled_seconds Time held back.
            shop_throttled_seconds_total 1.5
            # EOF

            """
        #expect(await text(registry, .openMetrics) == expected)
    }

    @Test func shardsAndSharedCellsAreAddedUp() async {
        let (metrics, registry) = makeShop()
        for amount in [Int64(2), 5] {
            let shard = registry.makeShard()
            shard[metrics.deliveries[.apns, .accepted]] += amount
            shard[metrics.inFlight] = amount
            shard.observe(amount, in: metrics.latency[.read])
            let copy = shard.snapshot()
            registry.register { copy }
        }
        registry.shared.add(100, to: metrics.deliveries[.apns, .accepted])
        registry.shared.observe(3_000_000_000, in: metrics.latency[.read])
        let lines = await text(registry, .prometheusText).split(separator: "\n")
        #expect(lines.contains("shop_deliveries_total{provider=\"apns\",outcome=\"accepted\"} 107"))
        #expect(lines.contains("shop_inflight 7"))
        #expect(lines.contains("shop_latency_seconds_bucket{stage=\"read\",le=\"0.0001\"} 2"))
        #expect(lines.contains("shop_latency_seconds_bucket{stage=\"read\",le=\"1.0\"} 2"))
        #expect(lines.contains("shop_latency_seconds_bucket{stage=\"read\",le=\"+Inf\"} 3"))
        #expect(lines.contains("shop_latency_seconds_count{stage=\"read\"} 3"))
        #expect(lines.contains("shop_latency_seconds_sum{stage=\"read\"} 3.000000007"))
    }

    @Test func anOwnerThatDoesNotAnswerKeepsItsLastCopyInTheSum() async {
        let (metrics, registry) = makeShop()
        let shard = registry.makeShard()
        shard[metrics.throttled] += 1_000_000_000
        let copy = shard.snapshot()
        let answers = AnswersOnce(copy)
        registry.register { await answers.next() }
        #expect(await text(registry, .prometheusText).contains("shop_throttled_seconds_total 1\n"))
        #expect(await text(registry, .prometheusText).contains("shop_throttled_seconds_total 1\n"))
        #expect(await answers.asked == 2)
    }

    @Test func anAbsentGaugeHasNoFamilyUntilItIsSet() async {
        let (metrics, registry) = makeShop()
        #expect(await !text(registry, .openMetrics).contains("shop_expiry"))
        registry.shared.set(metrics.expiry, to: 0)
        #expect(await text(registry, .openMetrics).contains("shop_expiry_timestamp_seconds 0\n"))
        registry.shared.setAbsent(metrics.expiry)
        #expect(await !text(registry, .openMetrics).contains("shop_expiry"))
    }

    @Test func collectorsRunBeforeTheCopy() async {
        let (metrics, registry) = makeShop()
        registry.addCollector { registry.shared.mirror(2_000_000_000, in: metrics.throttled) }
        #expect(await text(registry, .prometheusText).contains("shop_throttled_seconds_total 2\n"))
    }

    @Test func configuredValuesBeyondTheBoundShareOther() async {
        let (metrics, registry) = makeShop()
        #expect(metrics.apps.slot(for: "a") == metrics.apps.slot(for: "a"))
        #expect(metrics.apps.slot(for: "a") != metrics.apps.slot(for: "b"))
        #expect(metrics.apps.slot(for: "c") == .other)
        #expect(metrics.apps.slot(for: "other") == .other)
        registry.shared.add(to: metrics.perApp[metrics.apps.slot(for: "c")])
        let lines = await text(registry, .prometheusText).split(separator: "\n")
        #expect(lines.contains("shop_apps_total{app=\"other\"} 1"))
    }
}

private actor AnswersOnce {
    private let snapshot: MetricSnapshot
    private(set) var asked = 0

    init(_ snapshot: MetricSnapshot) { self.snapshot = snapshot }

    func next() -> MetricSnapshot? {
        self.asked += 1
        return self.asked == 1 ? self.snapshot : nil
    }
}
