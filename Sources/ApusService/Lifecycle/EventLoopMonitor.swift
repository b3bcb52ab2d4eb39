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
            let due = Due()
            tasks.append(
                loop.scheduleRepeatedTask(initialDelay: Self.interval, delay: Self.interval) { _ in
                    let now = NIODeadline.now().uptimeNanoseconds
                    let expected = due.exchange(now + UInt64(Self.interval.nanoseconds))
                    if expected != 0 { shared.observe(Int64(now) - Int64(expected), in: lag) }
                    shared.mirror(CPUClock.threadNanoseconds(), in: busy)
                }
            )
        }
        try? await gracefulShutdown()
        for task in tasks { task.cancel() }
    }

    /// Holds the time at which the next measurement is due, in nanoseconds of the monotonic clock.
    private final class Due: Sendable {
        private let nanoseconds = Atomic<UInt64>(0)

        func exchange(_ next: UInt64) -> UInt64 { self.nanoseconds.exchange(next, ordering: .relaxed) }
    }
}
