internal import ApusSimulator
internal import NIOCore
internal import NIOPosix

/// Keeps the simulator's event loops busy with nothing, so that what is measured is a sink that can take no more.
struct SinkBurden: Sendable {
    /// How long an event loop is kept at a time: what comes meanwhile waits for it.
    private static let span = Duration.milliseconds(50)
    /// How long it is left alone in between, so that it answers at all.
    private static let pause = TimeAmount.milliseconds(1)

    private let tasks: [RepeatedTask]

    /// From now on.
    static func start(on simulator: Simulator) async throws -> SinkBurden {
        let tasks = try await simulator.onEachEventLoop {
            MultiThreadedEventLoopGroup.currentEventLoop?.scheduleRepeatedTask(
                initialDelay: .zero,
                delay: Self.pause
            ) { _ in Self.spin() }
        }
        return SinkBurden(tasks: tasks.compactMap(\.self))
    }

    /// No more.
    func stop() { for task in self.tasks { task.cancel() } }

    private static func spin() {
        let end = ContinuousClock.now + Self.span
        while ContinuousClock.now < end {}
    }
}
