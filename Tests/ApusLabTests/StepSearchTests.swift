import ApusCore
import ApusLab
import Testing

@Suite struct StepSearchTests {
    /// Every rate that is tried when all up to `limit` are held.
    private func trace(from first: Double, limit: Double) -> (rates: [Double], knee: Double?) {
        var search = StepSearch(first: first)
        var rates: [Double] = []
        while let rate = search.next {
            rates.append(rate)
            search.note(held: rate <= limit)
        }
        return (rates, search.knee)
    }

    @Test func `The search doubles until a rate is not held, then halves the gap`() {
        let (rates, knee) = self.trace(from: 1_000, limit: 5_300)
        #expect(rates == [1_000, 2_000, 4_000, 8_000, 6_000, 5_000, 5_500, 5_250])
        #expect(knee == 5_250)
    }

    @Test func `When the first rate is not held the search goes down, and gives up at the lowest`() {
        #expect(self.trace(from: 1_000, limit: 300).rates.prefix(4) == [1_000, 500, 250, 375])
        let (rates, knee) = self.trace(from: 8, limit: 0)
        #expect(rates == [8, 4, 2, 1] && knee == nil)
    }

    @Test func `The search ends at the highest rate and after its steps, whatever the results`() {
        let (rates, knee) = self.trace(from: 4_000_000, limit: .infinity)
        #expect(rates == [4_000_000, 8_000_000] && knee == 8_000_000)
        for limit in stride(from: 1.0, to: 9_000_000, by: 170_003) {
            let (rates, knee) = self.trace(from: 1, limit: limit)
            #expect(rates.count <= StepSearch.stepsMax)
            #expect((knee ?? 0) <= limit && (knee ?? 0) * 1.06 >= min(limit, 8_388_608))
        }
    }

    @Test func `A search outside its limits is an error`() async {
        await #expect(processExitsWith: .failure) { _ = StepSearch(first: 0.5) }
        await #expect(processExitsWith: .failure) {
            var search = StepSearch(first: StepSearch.rateMax)
            search.note(held: true)
            search.note(held: true)
        }
    }

    @Test func `A report has the result at the knee, and its bounds`() {
        var order = ScenarioOptions(.transactional)
        order.ratePerSecond = 100
        var report = StepReport(order, latencyMillisecondsMax: 10)
        for (rate, latency) in [(100.0, 1), (200, 5), (400, 50), (300, 9), (350, 20), (325, 11), (312.5, 10)] {
            #expect(report.search.next == rate)
            var result = LoadResult(order)
            result.order.ratePerSecond = rate
            result.ratePerSecond = rate
            result.latency.record(nanoseconds: Int64(latency) * 1_000_000)
            report.note(result)
        }
        #expect(report.search.next == nil && report.search.knee == 312.5)
        #expect(report.best?.order.ratePerSecond == 312.5 && report.bounds == ["latency"] && report.problems == [])
        let json = report.json(revision: "r")
        #expect(json["knee_rate_per_second"]?.text == "312.5" && json["latency_ms"]?["p99"]?.text == "10")
        #expect(report.steps.count == 7 && report.steps[2].reasons == ["latency"])
    }

    @Test func `A rate at which something is lost or the load is not the planned one is not held`() {
        var order = ScenarioOptions(.fanout)
        order.ratePerSecond = 4
        var report = StepReport(order, latencyMillisecondsMax: 10)
        var result = LoadResult(order)
        result.lost = 1
        result.usage.sinkShare = 1
        report.note(result)
        #expect(report.steps[0].reasons == ["target_not_reached", "sink_saturated", "latency", "not_exact"])
        #expect(report.best == nil && report.problems.count == 1 && report.search.next == 2)
    }
}
