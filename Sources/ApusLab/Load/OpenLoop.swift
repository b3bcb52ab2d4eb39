package import ApusCore
internal import ApusStreams
internal import NIOCore
internal import NIOPosix

/// Starts the tasks of a plan at their scheduled times, whatever happens to earlier ones.
///
/// It runs with its tasks on one of the process's shared event loops: a task that waits there for Redis or for a connection wakes no other
/// thread, so that the load takes little of the processor that it shares with what it measures.
package struct OpenLoop: Sendable {
    /// The maximum number of concurrent tasks. Beyond it the loop waits, and tasks start late: their latency counts all the same.
    package static let inFlightMax = 10_000
    /// The shortest pause: tasks that are due within it start together. A loop that slept for less would take much of the processor for waking up.
    static let pauseMin = TimeAmount.microseconds(500)

    private let plan: LoadPlan
    private let clock: any WallClock

    /// Creates a loop.
    package init(_ plan: LoadPlan, clock: any WallClock) {
        self.plan = plan
        self.clock = clock
    }

    /// Starts all tasks of the plan, and waits until each has ended.
    ///
    /// - Parameters:
    ///   - start: the scheduled time of the first task, in nanoseconds since 1970; nil for now.
    ///   - progress: called now and then with the number of started tasks.
    ///   - task: performs the task with its position in the plan and its scheduled time, in nanoseconds since 1970.
    /// - Returns: the results of the tasks, in no order.
    package func run<Found: Sendable>(
        from start: Int64? = nil,
        progress: (Int) -> Void = { _ in },
        _ task: @escaping @Sendable (Int, Int64) async -> Found,
    ) async throws -> [Found] {
        let executor = LoopExecutor(MultiThreadedEventLoopGroup.singleton.any())
        return try await withTaskExecutorPreference(executor) {
            try await self.run(on: executor, from: start, progress: progress, task)
        }
    }

    private func run<Found: Sendable>(
        on executor: LoopExecutor,
        from start: Int64?,
        progress: (Int) -> Void,
        _ task: @escaping @Sendable (Int, Int64) async -> Found,
    ) async throws -> [Found] {
        let start = start ?? self.clock.nanosecondsSince1970()
        return try await withThrowingTaskGroup(of: Found.self) { group in
            var done: [Found] = []
            done.reserveCapacity(self.plan.count)
            var started = 0
            while started < self.plan.count {
                try Task.checkCancellation()
                let due = self.plan.dueCount(at: self.clock.nanosecondsSince1970() - start)
                while started < due {
                    let index = started
                    let dueAt = start + self.plan.due(index)
                    if started - done.count >= Self.inFlightMax, let one = try await group.next() { done.append(one) }
                    started += 1
                    group.addTask { await task(index, dueAt) }
                }
                progress(started)
                guard started < self.plan.count else { break }
                let pause = start + self.plan.due(started) - self.clock.nanosecondsSince1970()
                if pause > 0 { try await executor.sleep(for: max(.nanoseconds(pause), Self.pauseMin)) }
            }
            for try await one in group { done.append(one) }
            return done
        }
    }
}
