import ApusCore
import ApusLab
import Testing

@Suite struct ReportTests {
    @Test func `Drills and benchmarks have unique names, and are found by them`() {
        let drills = Drill.all.map(\.name)
        #expect(drills.count == 28 && Set(drills).count == drills.count)
        #expect(drills.allSatisfy { Drill.named($0)?.name == $0 } && Drill.named("none") == nil)
        #expect(
            Benchmark.all.map(\.name)
                == [
                    "fanout", "transactional", "flat", "lanes", "bulkheads", "memory", "rate", "kills", "registration",
                    "browsers", "encryption", "listing", "scaling", "memory-after-attack", "hostile-clients",
                    "recovery",
                ]
        )
        #expect(Benchmark.named("lanes")?.name == "lanes" && Benchmark.named("none") == nil)
    }

    @Test func `The median of an odd number of values is one of them, of an even number between two`() {
        let odd = BenchmarkReport.Spread([5, 1, 3])
        #expect(odd.least == 1 && odd.median == 3 && odd.most == 5)
        #expect(BenchmarkReport.Spread([4, 1, 3, 2]).median == 2.5)
        #expect(BenchmarkReport.Spread([7]).median == 7)
    }

    @Test func `The memory of a process is the second field of statm, in pages`() {
        #expect(ProcessStatistics.residentBytes(statm: "900 25 7 1 0 50 0\n", page: 4_096) == 102_400)
        #expect(ProcessStatistics.residentBytes(statm: "", page: 4_096) == nil)
        #expect((ProcessStatistics.residentBytes(of: 1) ?? 1) > 0 && ProcessStatistics.residentBytes(of: -1) == nil)
    }

    @Test func `The best figure of each limit program counts`() {
        let output = """
            C nghttp2 V=[] rec=16384 conns=1 streams=1000 n=500000 ok=500000 rps=227000 cpu_per_1M=3.051 wakeups=9
            C nghttp2 V=[] rec=16384 conns=4 streams=1000 n=500000 ok=500000 rps=231000 cpu_per_1M=2.900 wakeups=9
            requests 500000, cpu_per_1M=5.0
            C hand-framed noauth=0 rec=16384 conns=1 streams=1000 n=500000 ok=500000 cpu_per_1M=0.640 wakeups=9
            """
        #expect(
            LimitPrograms.figures(output) == [
                "limit_nghttp2_cpu_seconds_per_million": 2.9, "limit_framed_cpu_seconds_per_million": 0.64,
            ]
        )
        #expect(LimitPrograms.figures("C nghttp2 cpu_per_1M=fast").isEmpty)
    }
}
