import ApusCore
import ApusMetrics
import ApusService
import Foundation
import Logging
import Testing

private struct StoppedClock: WallClock {
    func nanosecondsSince1970() -> Int64 { 0 }
}

@Suite struct LogSinkTests {
    /// Metrics that count what the sink writes.
    private static func counting(_ sink: LogSink) -> MetricRegistry {
        var catalogue = MetricCatalogue()
        let build = BuildInformation(service: "s", version: "v", revision: "r", swiftVersion: "6")
        let metrics = catalogue.declare { CommonMetrics(build: build, reading: []) }
        let registry = MetricRegistry(catalogue)
        sink.count(in: registry.shared, metrics)
        return registry
    }

    @Test func linesGoOutInOrderAndAreCountedByLevel() async throws {
        let pipe = Pipe()
        let writer = LogWriter(descriptor: pipe.fileHandleForWriting.fileDescriptor)
        let sink = LogSink(writer: writer, isJSON: false, level: .info, clock: StoppedClock())
        let registry = Self.counting(sink)
        var logger = sink.logger("test")
        logger[metadataKey: "app"] = "shop"
        logger.info("one", metadata: ["n": "1"])
        logger.debug("hidden")
        logger.error("two", metadata: ["app": "news"])
        sink.level = .debug
        logger.debug("three")
        sink.flush(within: .seconds(10))
        try pipe.fileHandleForWriting.close()
        let text = String(decoding: try pipe.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        #expect(
            text == """
                1970-01-01T00:00:00.000Z info     test: one app=shop n=1
                1970-01-01T00:00:00.000Z error    test: two app=news
                1970-01-01T00:00:00.000Z debug    test: three app=shop

                """
        )
        let exposition = String(decoding: await registry.exposition(.prometheusText), as: UTF8.self)
        #expect(exposition.contains("apus_log_messages_total{level=\"info\"} 1\n"))
        #expect(exposition.contains("apus_log_messages_total{level=\"error\"} 1\n"))
        #expect(exposition.contains("apus_log_messages_total{level=\"debug\"} 1\n"))
    }

    @Test func `A repeated error is written a limited number of times, and counted each time`() async throws {
        let pipe = Pipe()
        let writer = LogWriter(descriptor: pipe.fileHandleForWriting.fileDescriptor)
        let sink = LogSink(writer: writer, isJSON: false, level: .info, clock: StoppedClock())
        let registry = Self.counting(sink)
        let logger = sink.logger("test")
        for number in 0..<LogRepeats.linesMax + 5 { logger.error("again", metadata: ["n": "\(number)"]) }
        logger.error("another")
        for _ in 0..<LogRepeats.linesMax + 5 { logger.info("all of these") }
        sink.flush(within: .seconds(30))
        try pipe.fileHandleForWriting.close()
        let text = String(decoding: try pipe.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        let lines = text.split(separator: "\n")
        #expect(lines.count { $0.contains("again") } == LogRepeats.linesMax)
        #expect(lines.count { $0.contains("another") } == 1)
        #expect(lines.count { $0.contains("all of these") } == LogRepeats.linesMax + 5)
        let exposition = String(decoding: await registry.exposition(.prometheusText), as: UTF8.self)
        #expect(exposition.contains("apus_log_messages_total{level=\"error\"} \(LogRepeats.linesMax + 6)\n"))
        #expect(exposition.contains("apus_log_messages_dropped_total{level=\"error\"} 5\n"))
    }

    /// Tests a pipe that nobody reads: the writer's thread blocks, the logging thread does not.
    @Test func aStuckReaderCostsLinesAndNoTime() throws {
        let pipe = Pipe()
        let writer = LogWriter(descriptor: pipe.fileHandleForWriting.fileDescriptor)
        let line = [UInt8](repeating: 0x61, count: 64 * 1_024 - 1) + [0x0a]
        var taken = 0
        while writer.write(line, level: .info) { taken += 1 }
        let waitingMax = LogWriter.ordinaryBytesMax / line.count
        #expect(taken >= waitingMax)
        // The lines that wait, the one being written, and no more.
        #expect(taken <= 2 * waitingMax + 1)
        #expect(writer.dropped == 1)
        #expect(writer.write(line, level: .error))
        var urgent = 1
        while writer.write(line, level: .error) { urgent += 1 }
        #expect(urgent >= (LogWriter.urgentBytesMax - LogWriter.ordinaryBytesMax) / line.count)
        #expect(writer.dropped == 2)
        // The reader comes back: everything that was taken arrives.
        let expected = (taken + urgent) * line.count
        var read = 0
        while read < expected {
            let data = try #require(try pipe.fileHandleForReading.read(upToCount: 1 << 16))
            read += data.count
        }
        #expect(read == expected)
        writer.flush(within: .seconds(10))
    }
}
