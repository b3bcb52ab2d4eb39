import ApusCore
import ApusLab
import Testing

@Suite struct LoadValidationTests {
    private func problems(_ achieved: Double = 1_000, sink: Double = 0.5, late: Double = 1) -> [String] {
        LoadValidation(rates: [("sends", 1_000, achieved)], sinkShare: sink, lateMilliseconds: late).problems.map(
            \.name
        )
    }

    @Test func `At each limit figures are reported, past it they are not, with the reason`() {
        #expect(self.problems() == [])
        #expect(self.problems(980, sink: 0.9, late: 50) == [])
        #expect(self.problems(979.9) == ["target_not_reached"])
        #expect(self.problems(sink: 0.901) == ["sink_saturated"])
        #expect(self.problems(late: 50.1) == ["driver_late"])
        #expect(self.problems(0, sink: 1, late: 1_000) == ["target_not_reached", "sink_saturated", "driver_late"])
    }

    @Test func `Every refusal says what was measured, and the cure`() {
        let validation = LoadValidation(
            rates: [("sends", 200, 200), ("bulk notifications", 1_000, 900)],
            sinkShare: 0.95,
            lateMilliseconds: 70,
        )
        let text = validation.problems.map(\.description).joined(separator: "\n")
        #expect(validation.problems.count == 3)
        #expect(
            text.contains("900 instead of 1000 bulk notifications") && text.contains("95 %") && text.contains("70 ms")
        )
        #expect(validation.problems.allSatisfy { $0.description.contains("; ask for less") })
    }

    @Test func `A rate is of the planned time, or of what it took when that was longer`() {
        #expect(LoadValidation.rate(100, planned: 10, span: 0...5_000_000_000) == 10)
        #expect(LoadValidation.rate(100, planned: 10, span: 0...20_000_000_000) == 5)
        #expect(LoadValidation.rate(0, planned: 10, span: nil) == 0)
    }

    @Test func `A result whose load was not the planned one reports no latencies`() {
        var result = LoadResult(ScenarioOptions(.transactional))
        result.latency.record(nanoseconds: 2_000_000)
        result.ratePerSecond = 1_000
        #expect(result.problems.isEmpty)
        #expect(result.json(revision: "r")["latency_ms"]?["p50"]?.text == "2")
        result.ratePerSecond = 900
        #expect(result.problems.count == 1)
        let json = result.json(revision: "r")
        #expect(json["latency_ms"] == .null && json["refused"] == .array(["target_not_reached"]))
        #expect(!result.lines.contains { $0.contains("p99") })
        result.ratePerSecond = 1_000
        result.lost = 1
        result.bulk = (9_000, LatencySummary())
        #expect(result.problems.count == 2 && result.validation.problems.map(\.name) == ["target_not_reached"])
    }

    @Test func `The usage is taken from the samples around the requested time`() {
        let samples: [ResourceSample] = (0...10).map { (second: Int) -> ResourceSample in
            let seconds = Double(second)
            let sink: [Double] = [seconds, seconds / 4]
            let time = Int64(second) * 1_000_000_000
            let bytes: Int64 = second == 4 ? 900 : 100
            return ResourceSample(time: time, seconds: ["redis": seconds / 2], sink: sink, residentBytes: bytes)
        }
        let usage = ResourceUsage(samples, from: 2_500_000_000, to: 5_500_000_000)
        #expect(usage.seconds == ["redis": 2] && usage.sinkShare == 1 && usage.residentBytesMax == 900)
        #expect(ResourceUsage(samples, from: 5_000_000_000, to: 6_000_000_000).residentBytesMax == 100)
        #expect(ResourceUsage(samples, from: -1, to: .max).seconds == ["redis": 5])
        #expect(ResourceUsage([], from: 0, to: 1).seconds.isEmpty)
    }

    @Test func `A thread's times are the first two fields of schedstat, in nanoseconds`() throws {
        let seconds = try #require(ProcessStatistics.threadSeconds(schedstat: "1500000000 250000000 7\n"))
        #expect(seconds.ran == 1.5 && seconds.waited == 0.25)
        #expect(ProcessStatistics.threadSeconds(schedstat: "") == nil)
    }
}
