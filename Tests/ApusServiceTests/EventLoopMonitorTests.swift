import ApusMetrics
import ApusTestKit
import NIOCore
import NIOPosix
import Testing

@testable import ApusService

/// Tests what is measured of event loops.
@Suite struct EventLoopMonitorTests {
    @Test func `The busy times of event loops without a series of their own add up, and never fall`() async throws {
        var catalogue = MetricCatalogue()
        let metrics = catalogue.declare { CommonMetrics(build: .current(.feedback), reading: []) }
        let registry = MetricRegistry(catalogue)
        let group = MultiThreadedEventLoopGroup(numberOfThreads: metrics.eventLoops.valuesMax + 2)
        let others = Array(group.makeIterator().suffix(2))
        let monitor = EventLoopMonitor(eventLoopGroup: group, registry: registry, metrics: metrics)
        let running = Task { try await monitor.run() }
        // Measuring alone would not take that long.
        for loop in others { try await loop.submit { while CPUClock.threadNanoseconds() < 30_000_000 {} }.get() }
        let used = try await Self.used(by: others)
        var last: Int64 = 0
        try await eventually("the times of both are counted") {
            let counted = await Self.counted(registry)
            #expect(counted >= last)
            last = counted
            return counted >= used
        }
        let usedSince = try await Self.used(by: others)
        #expect(last <= usedSince)
        running.cancel()
        try await running.value
        try await group.shutdownGracefully()
    }

    /// Returns the processor time of the threads of some loops, in nanoseconds.
    private static func used(by loops: [any EventLoop]) async throws -> Int64 {
        var sum: Int64 = 0
        for loop in loops { sum += try await loop.submit { CPUClock.threadNanoseconds() }.get() }
        return sum
    }

    /// Returns the processor time of the loops without a series of their own as a scrape has it, in nanoseconds.
    private static func counted(_ registry: MetricRegistry) async -> Int64 {
        let text = String(decoding: await registry.exposition(.prometheusText), as: UTF8.self)
        let name = #"apus_event_loop_busy_seconds_total{loop="other"} "#
        let line = text.split(separator: "\n").first { $0.hasPrefix(name) }
        let seconds = line.flatMap { Double($0.dropFirst(name.count)) } ?? 0
        return Int64((seconds * 1_000_000_000).rounded())
    }
}
