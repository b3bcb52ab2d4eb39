internal import ApusSimulator
internal import NIOCore
internal import NIOPosix

/// Blocks the simulator's event loops, to test that figures from a saturated simulator are refused.
struct SinkSaturator: Sendable {
    /// How long an event loop is blocked at a time.
    private static let span = Duration.milliseconds(50)
    /// How long it is free in between, so that it answers at all.
    private static let pause = TimeAmount.milliseconds(1)

    private let tasks: [RepeatedTask]

    /// From now on.
    static func start(on simulator: Simulator) async throws -> SinkSaturator {
        let tasks = try await simulator.onEachEventLoop {
            MultiThreadedEventLoopGroup.currentEventLoop?.scheduleRepeatedTask(
                initialDelay: .zero,
                delay: Self.pause
            ) { _ in Self.spin() }
        }
        return SinkSaturator(tasks: tasks.compactMap(\.self))
    }

    /// No more.
    func stop() { for task in self.tasks { task.cancel() } }

    private static func spin() {
        let end = ContinuousClock.now + Self.span
        while ContinuousClock.now < end {}
    }
}
