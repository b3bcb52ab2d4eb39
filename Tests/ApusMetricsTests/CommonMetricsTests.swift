import ApusMetrics
import Foundation
import Testing

/// Feeds a text to a program; what it said and how it ended.
private func pipe(_ text: [UInt8], to program: String, _ arguments: [String]) throws -> (status: Int32, said: String) {
    let process = Process()
    process.executableURL = URL(filePath: program)
    process.arguments = arguments
    let input = Pipe()
    let output = Pipe()
    process.standardInput = input
    process.standardOutput = output
    process.standardError = output
    try process.run()
    // The exposition is larger than a pipe: write aside while reading.
    let writer = Thread {
        try? input.fileHandleForWriting.write(contentsOf: Data(text))
        try? input.fileHandleForWriting.close()
    }
    writer.start()
    let said = try output.fileHandleForReading.readToEnd() ?? Data()
    process.waitUntilExit()
    return (process.terminationStatus, String(decoding: said, as: UTF8.self))
}

private let promtool = "/usr/bin/promtool"
private let python = "/usr/bin/python3"

private func hasPrometheusClient() -> Bool {
    (try? pipe([], to: python, ["-c", "import prometheus_client"]).status) == 0
}

private func makeRegistry() -> (CommonMetrics, MetricRegistry) {
    var catalogue = MetricCatalogue()
    let build = BuildInformation(service: "apus-dispatcher", version: "1.2.3", revision: "abc", swiftVersion: "6.3")
    let metrics = catalogue.declare { CommonMetrics(build: build, reading: [.inExpress, .inBulk, .plan, .work]) }
    let registry = MetricRegistry(catalogue)
    registry.shared.add(7, to: metrics.logMessages[.info])
    registry.shared.observe(12_345, in: metrics.redis.commandDuration[.fcallReadOnly])
    registry.shared.set(metrics.configurationReloadSuccess, to: 1_700_000_000_123)
    registry.shared.set(metrics.process.openDescriptors, to: 12)
    for stream in [StreamLabel.inExpress, .inBulk, .plan, .work] {
        registry.shared.set(metrics.streams.backlog[GroupedStream(stream)], to: 0)
    }
    return (metrics, registry)
}

@Suite struct CommonMetricsTests {
    @Test(.enabled(if: FileManager.default.isExecutableFile(atPath: promtool), "needs the Debian package prometheus"))
    func promtoolFindsNothingToSay() async throws {
        let (_, registry) = makeRegistry()
        let verdict = try pipe(await registry.exposition(.prometheusText), to: promtool, ["check", "metrics"])
        #expect(verdict.said == "")
        #expect(verdict.status == 0)
    }

    @Test(.enabled(if: hasPrometheusClient(), "needs the Debian package python3-prometheus-client"))
    func aStrictParserReadsTheOpenMetricsForm() async throws {
        let (_, registry) = makeRegistry()
        let program = """
            import sys
            from prometheus_client.openmetrics.parser import text_string_to_metric_families
            for family in text_string_to_metric_families(sys.stdin.read()):
                print(family.name, family.type, family.unit, len(family.samples))
            """
        let verdict = try pipe(await registry.exposition(.openMetrics), to: python, ["-c", program])
        #expect(verdict.status == 0)
        let families = verdict.said.split(separator: "\n")
        #expect(families.contains("apus_build info  1"))
        #expect(families.contains("apus_log_messages counter  7"))
        #expect(families.contains("apus_event_loop_busy_seconds counter seconds 1"))
        #expect(families.contains("apus_stream_backlog_entries gauge entries 4"))
        #expect(families.contains("apus_redis_command_duration_seconds histogram seconds 187"))
    }

    @Test func streamsThatTheServiceDoesNotReadHaveNoSeries() async {
        let (_, registry) = makeRegistry()
        let text = String(decoding: await registry.exposition(.prometheusText), as: UTF8.self)
        #expect(text.contains("apus_stream_backlog_entries{stream=\"in_express\",group=\"dispatcher\"} 0\n"))
        #expect(!text.contains("stream=\"outcomes\""))
        #expect(text.contains("apus_stream_dead_letters_total{stream=\"plan\",reason=\"poison\"} 0\n"))
    }

    @Test func theCatalogueListsItself() {
        let (_, registry) = makeRegistry()
        let names = registry.definitions.map(\.familyName)
        #expect(names == names.sorted())
        let level = registry.definitions.first { $0.name == "apus_log_messages_total" }
        #expect(level?.labelValues["level"] == ["trace", "debug", "info", "notice", "warning", "error", "critical"])
        #expect(level?.kind == .counter)
    }
}
