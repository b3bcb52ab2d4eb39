package import NIOCore

/// Runs tasks on an event loop, so that a task that waits there for Redis or a provider resumes without waking another thread.
package final class LoopExecutor: TaskExecutor {
    /// The loop that tasks run on.
    package let eventLoop: any EventLoop

    /// Creates an executor of that loop.
    package init(_ eventLoop: any EventLoop) { self.eventLoop = eventLoop }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        self.eventLoop.execute { unsafe job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }

    /// Waits for that time on the loop's clock.
    ///
    /// - Throws: `CancellationError` in a task that was cancelled before.
    package func sleep(for time: TimeAmount) async throws {
        try Task.checkCancellation()
        try await self.eventLoop.scheduleTask(in: time) {}.futureResult.get()
    }

    /// Waits for the next multiple of an interval on the loop's clock, or for one of those that follow. All who wait for the same multiple
    /// resume in the same turn of the loop, so that what they then send to one server leaves in one write.
    ///
    /// - Parameter skipped: the number of multiples that pass before.
    package func tick(every interval: TimeAmount, skipping skipped: Int = 0) async {
        precondition(interval > .zero)
        let (now, every) = (self.eventLoop.now.uptimeNanoseconds, UInt64(interval.nanoseconds))
        let next = NIODeadline.uptimeNanoseconds((now / every + 1 + UInt64(skipped)) * every)
        _ = try? await self.eventLoop.scheduleTask(deadline: next) {}.futureResult.get()
    }
}
