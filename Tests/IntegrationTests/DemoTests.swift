import ApusCore
import ApusTestKit
import Testing

/// Tests the demo as a newcomer runs it: its own Redis, the simulator, three services, and an exit code that says whether all of it added up.
@Suite(.serialized) struct DemoTests {
    private static func demo(_ arguments: String...) throws -> OperatorProgram.Answer {
        try OperatorProgram.run(
            ["demo", "--json", "--no-strict", "--latency-sends", "20"] + arguments,
            program: "apus-lab"
        )
    }

    private static func expectExact(_ report: JSONValue, devices: Int64) {
        #expect(report["devices"]?.int64 == devices)
        for name in ["lost", "unexpected", "left_in_streams"] { #expect(report[name]?.int64 == 0, "\(name)") }
        #expect(report["pruned"]?.int64 == report["dead_tokens"]?.int64)
        #expect(report["complaints"]?.array?.isEmpty == true)
        let reached = report["sends"]?.array?.compactMap { $0["accepted"]?.int64 }.reduce(0, +) ?? 0
        #expect(reached > devices)
    }

    @Test func `The demo reaches everyone once and leaves nothing behind`() throws {
        let answer = try Self.demo("--devices", "300", "--dead", "0.1")
        #expect(answer.code == 0, "\(answer.talk)")
        let report = try #require(answer.json)
        Self.expectExact(report, devices: 300)
        #expect(report["repeated"]?.int64 == 0 && report["dead_tokens"]?.int64 ?? 0 > 10)
    }

    @Test func `With three masters one is killed in the middle and another one joins, and it adds up`() throws {
        let answer = try Self.demo("--devices", "1000", "--masters", "3")
        #expect(answer.code == 0, "\(answer.talk)")
        let report = try #require(answer.json)
        Self.expectExact(report, devices: 1_000)
        #expect(report["repeated"]?.int64 ?? .max <= report["repeated_max"]?.int64 ?? 0)
        let changes = report["redis"]?.array?.compactMap(\.string) ?? []
        #expect(
            changes.contains { $0.contains("took over") } && changes.contains { $0.contains("joined") },
            "\(changes)"
        )
    }
}
