@_spi(ExperimentalCustomExecutors) @_spi(ExperimentalScheduling) internal import _Concurrency

/// The executors of Swift's tasks, which give every job to the scheduler of the simulation.
struct SimulatedExecutors: ExecutorFactory {
    static let mainExecutor: any MainExecutor = SimulatedMainExecutor()
    static let defaultExecutor: any TaskExecutor = SimulatedTaskExecutor()
    /// The reference by which jobs know their executor, which lives as long as the program.
    static let defaultReference = unsafe Self.defaultExecutor.asUnownedTaskExecutor()

    /// Takes the place of the system's executors. It must be called before the first task is created.
    static func install() { _createExecutors(factory: Self.self) }
}

private final class SimulatedTaskExecutor: TaskExecutor, SchedulingExecutor {
    func enqueue(_ job: consuming ExecutorJob) { Scheduler.current.enqueue(UnownedJob(job)) }

    func enqueue<C: Clock>(
        _ job: consuming ExecutorJob,
        after delay: C.Duration,
        tolerance: C.Duration?,
        clock: C,
    ) {
        guard let delay = delay as? Duration else { preconditionFailure("a clock with durations of its own") }
        let (seconds, attoseconds) = delay.components
        let nanoseconds = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        // A sleep without an end.
        guard !nanoseconds.overflow else { return }
        Scheduler.current.enqueue(UnownedJob(job), after: nanoseconds.partialValue + attoseconds / 1_000_000_000)
    }

    func enqueue<C: Clock>(
        _ job: consuming ExecutorJob,
        at instant: C.Instant,
        tolerance: C.Duration?,
        clock: C,
    ) {
        self.enqueue(job, after: clock.now.duration(to: instant), tolerance: tolerance, clock: clock)
    }
}

private final class SimulatedMainExecutor: MainExecutor {
    func enqueue(_ job: consuming ExecutorJob) { Scheduler.current.enqueue(UnownedJob(job)) }
    func run() throws {}
    func stop() {}
}
