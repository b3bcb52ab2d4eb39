import ApusCore
import ApusLab
import ApusTerminal
import Testing

@Suite struct BenchmarkSessionTests {
    @Test func `An unknown name is refused with all known ones`() throws {
        let failure = #expect(throws: CommandFailure.self) {
            _ = try BenchmarkRunner("speed", runs: 1, devices: nil, revision: "r")
        }
        for benchmark in Benchmark.all { #expect(failure?.description.contains(benchmark.name) == true) }
        _ = try BenchmarkRunner("all", runs: 1, devices: nil, revision: "r")
    }

    @Test func `All results are one document, and a failed one does not hide the rest`() {
        var findings = BenchmarkRunner.Findings(isOfAll: true, revision: "abc")
        findings.failures = [("fanout", "no redis-server")]
        #expect(findings.failed == ["fanout"])
        #expect(findings.json["revision"] == "abc" && findings.json["passed"] == false)
        #expect(findings.json["machine"]?["cores"]?.int64 ?? 0 > 0)
        #expect(
            findings.json["benchmarks"] == .array([["name": "fanout", "passed": false, "problem": "no redis-server"]])
        )
        #expect(findings.lines == ["FAILED  fanout: no redis-server"])
    }
}
