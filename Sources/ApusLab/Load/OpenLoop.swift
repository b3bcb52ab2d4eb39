package import ApusCore

/// Starts what a plan says when it is due, whatever became of what was started before.
package struct OpenLoop: Sendable {
    /// The maximum number of tasks that go on at once. Beyond them it waits, and what is due meanwhile starts late: its latency counts all the same.
    package static let inFlightMax = 10_000

    private let plan: LoadPlan
    private let clock: any WallClock

    /// Creates a loop.
    package init(_ plan: LoadPlan, clock: any WallClock) {
        self.plan = plan
        self.clock = clock
    }

    /// Starts all of the plan, and waits until each is over.
    ///
    /// - Parameters:
    ///   - start: when the first is due, in nanoseconds since 1970; nil for now.
    ///   - progress: told how many were started, now and then.
    ///   - task: gets its position in the plan and when it was due, in nanoseconds since 1970.
    /// - Returns: what each returned, in no order.
    package func run<Found: Sendable>(
        from start: Int64? = nil,
        progress: (Int) -> Void = { _ in },
        _ task: @escaping @Sendable (Int, Int64) async -> Found,
    ) async throws -> [Found] {
        let start = start ?? self.clock.nanosecondsSince1970()
        return try await withThrowingTaskGroup(of: Found.self) { group in
            var done: [Found] = []
            done.reserveCapacity(self.plan.count)
            var started = 0
            while started < self.plan.count {
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
                if pause > 0 { try await Task.sleep(for: .nanoseconds(pause), tolerance: .zero) }
            }
            for try await one in group { done.append(one) }
            return done
        }
    }
}
