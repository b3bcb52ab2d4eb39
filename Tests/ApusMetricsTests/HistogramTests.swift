import ApusMetrics
import Testing

@Suite struct HistogramTests {
    /// Every place of every count of bounds: the search halves, so each count takes another path.
    @Test(arguments: 1...31)
    func everyObservationFallsInTheFirstBucketThatHoldsIt(count: Int) async {
        let bounds = (1...count).map { Int64($0) * 10 }
        var catalogue = MetricCatalogue()
        let sizes = catalogue.declare {
            Histogram("test_bytes", "Sizes.", buckets: MetricBuckets(bounds: bounds, scale: .one))
        }
        let registry = MetricRegistry(catalogue)
        let shard = registry.makeShard()
        var observed: [Int64] = []
        for bound in bounds { observed += [bound - 1, bound, bound + 1] }
        for value in observed { shard.observe(value, in: sizes) }
        let copy = shard.snapshot()
        registry.register { copy }
        let text = String(decoding: await registry.exposition(.prometheusText), as: UTF8.self)
        for bound in bounds {
            let below = observed.count { $0 <= bound }
            #expect(text.contains("test_bytes_bucket{le=\"\(bound).0\"} \(below)\n"))
        }
        #expect(text.contains("test_bytes_bucket{le=\"+Inf\"} \(observed.count)\n"))
        #expect(text.contains("test_bytes_sum \(Double(observed.reduce(0, +)))\n"))
    }

    @Test func aNegativeObservationCountsAsZeroSoThatTheSumNeverFalls() async {
        var catalogue = MetricCatalogue()
        let wait = catalogue.declare { Histogram("test_wait_seconds", "Wait.", buckets: .queueWait) }
        let registry = MetricRegistry(catalogue)
        registry.shared.observe(-5, in: wait)
        let text = String(decoding: await registry.exposition(.prometheusText), as: UTF8.self)
        #expect(text.contains("test_wait_seconds_sum 0.0\n"))
        #expect(text.contains("test_wait_seconds_count 1\n"))
    }

    @Test func boundsAreWrittenInCanonicalForm() {
        var catalogue = MetricCatalogue()
        catalogue.declare {
            _ = Histogram("test_wait_seconds", "Wait.", buckets: .queueWait)
            _ = Histogram("test_devices", "Devices.", buckets: .fanOut)
        }
        #expect(
            catalogue.definitions[1].bounds == [
                "0.0001", "0.00025", "0.0005", "0.001", "0.0025", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25",
                "0.5", "1.0", "2.5", "5.0", "10.0", "30.0", "60.0", "300.0", "1800.0", "7200.0",
            ]
        )
        #expect(catalogue.definitions[0].bounds == ["1.0", "10.0", "100.0", "1000.0", "10000.0", "100000.0"])
    }

    @Test func boundsThatWouldNeedAnExponentTrap() async {
        await #expect(processExitsWith: .failure) {
            _ = MetricBuckets(bounds: [1_000_000], scale: .one)
        }
        await #expect(processExitsWith: .failure) {
            _ = MetricBuckets(bounds: [2, 1], scale: .one)
        }
    }
}
