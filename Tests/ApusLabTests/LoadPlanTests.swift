import ApusCore
import ApusLab
import Testing

@Suite struct LoadPlanTests {
    @Test(arguments: [0.1, 1, 3, 7, 333.3, 1_000, 123_456.7])
    func `All requests before a moment are due at it, at any rate`(_ rate: Double) {
        let plan = LoadPlan(ratePerSecond: rate, warmUp: 10, measured: 500)
        #expect(plan.dueCount(at: -1) == 0)
        #expect(plan.dueCount(at: 0) == 1)
        for index in 1..<plan.count {
            #expect(plan.dueCount(at: plan.due(index)) == index + 1)
            #expect(plan.dueCount(at: plan.due(index) - 1) == index)
        }
        #expect(plan.dueCount(at: .max / 4) == 510)
    }

    @Test func `The warm-up is not measured`() {
        let plan = LoadPlan(ratePerSecond: 10, warmUp: 2, measured: 3)
        #expect((0..<plan.count).map(plan.isMeasured) == [false, false, true, true, true])
    }

    @Test func `Percentiles are exact to three digits`() throws {
        var summary = LatencySummary()
        #expect(summary.milliseconds(percentile: 50) == nil)
        for milliseconds in 1...1_000 { summary.record(nanoseconds: Int64(milliseconds) * 1_000_000) }
        #expect(summary.count == 1_000)
        for (percentile, expected) in [(50.0, 500.0), (99, 990), (99.9, 999), (100, 1_000)] {
            let value = try #require(summary.milliseconds(percentile: percentile))
            #expect(abs(value - expected) <= expected / 1_000)
        }
    }

    @Test func `A clock that went back, and an hour, stay within bounds`() {
        var summary = LatencySummary()
        summary.record(nanoseconds: -5)
        summary.record(nanoseconds: .max - 1_000)
        #expect(summary.count == 2)
        #expect(summary.milliseconds(percentile: 50) == 0)
        #expect(summary.json["count"]?.int64 == 2)
    }

    @Test func `A plan without a rate is an error`() async {
        await #expect(processExitsWith: .failure) { _ = LoadPlan(ratePerSecond: 0, warmUp: 0, measured: 1) }
        await #expect(processExitsWith: .failure) { _ = LoadPlan(ratePerSecond: 1, warmUp: 0, measured: 0) }
    }
}
