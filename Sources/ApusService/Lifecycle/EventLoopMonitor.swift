internal import ApusMetrics
internal import NIOCore
internal import ServiceLifecycle
internal import Synchronization

/// Measures on every event loop how late a timer fires and how much processor time the loop's thread takes.
struct EventLoopMonitor: Service {
    let eventLoopGroup: any EventLoopGroup
    let registry: MetricRegistry
    let metrics: CommonMetrics

    /// The time between two measurements.
    static let interval = TimeAmount.milliseconds(100)

    func run() async throws {
        var tasks: [RepeatedTask] = []
        for (number, loop) in self.eventLoopGroup.makeIterator().enumerated() {
            let busy = self.metrics.eventLoopBusy[self.metrics.eventLoops.slot(for: "\(number)")]
            let shared = self.registry.shared
            let lag = self.metrics.eventLoopLag
            let last = Measurement()
            tasks.append(
                loop.scheduleRepeatedTask(initialDelay: Self.interval, delay: Self.interval) { _ in
                    let now = NIODeadline.now().uptimeNanoseconds
                    let expected = last.exchange(due: now + UInt64(Self.interval.nanoseconds))
                    if expected != 0 { shared.observe(Int64(now) - Int64(expected), in: lag) }
                    // Loops without a series of their own share one.
                    shared.add(last.advance(busy: CPUClock.threadNanoseconds()), to: busy)
                }
            )
        }
        try? await gracefulShutdown()
        for task in tasks { task.cancel() }
    }

    /// Holds what the next measurement of a loop goes by.
    private final class Measurement: Sendable {
        private let due = Atomic<UInt64>(0)
        private let busy = Atomic<Int64>(0)

        /// Sets the time at which the next measurement is due, in nanoseconds of the monotonic clock.
        ///
        /// - Returns: the time at which this one was due; 0 for the first.
        func exchange(due next: UInt64) -> UInt64 { self.due.exchange(next, ordering: .relaxed) }

        /// Sets the processor time of the loop's thread.
        ///
        /// - Returns: the processor time since the last measurement.
        func advance(busy total: Int64) -> Int64 { total - self.busy.exchange(total, ordering: .relaxed) }
    }
}
