internal import ApusSimulator
internal import NIOCore
internal import NIOPosix

/// Blocks the simulator's event loops, to test that figures from a saturated simulator are refused.
struct SinkSaturator: Sendable {
    /// The duration of each blocking of an event loop.
    private static let span = Duration.milliseconds(50)
    /// The pause between two, so that the loop responds at all.
    private static let pause = TimeAmount.milliseconds(1)

    private let tasks: [RepeatedTask]

    /// Starts to block the simulator's event loops.
    static func start(on simulator: Simulator) async throws -> SinkSaturator {
        let tasks = try await simulator.onEachEventLoop {
            MultiThreadedEventLoopGroup.currentEventLoop?.scheduleRepeatedTask(
                initialDelay: .zero,
                delay: Self.pause
            ) { _ in Self.spin() }
        }
        return SinkSaturator(tasks: tasks.compactMap(\.self))
    }

    /// Stops blocking.
    func stop() { for task in self.tasks { task.cancel() } }

    private static func spin() {
        let end = ContinuousClock.now + Self.span
        while ContinuousClock.now < end {}
    }
}
