internal import ApusCore
internal import CVirtualTime
internal import Glibc

extension SeededGenerator {
    /// Returns true with a probability.
    mutating func chance(_ probability: Double) -> Bool { Double.random(in: 0..<1, using: &self) < probability }
}

/// Runs everything of a simulated fleet on one thread, in an order and at times that follow from a seed.
///
/// Units of work are jobs of Swift's tasks, and turns of event loops. Among those that are ready, one is drawn at each step; each takes a
/// drawn time of some microseconds. When none is ready, time moves to the next timer. Work belongs to the process on whose behalf it was
/// enqueued: that of a killed process is never run, that of a frozen one waits.
///
/// It is used on one thread only, as everything that it runs.
final class Scheduler: @unchecked Sendable {
    private final class CurrentScheduler: @unchecked Sendable {
        var scheduler = Scheduler(seed: 0)
    }

    private static let place = CurrentScheduler()

    /// The scheduler of the running simulation; replaced for each seed.
    static var current: Scheduler {
        get { Self.place.scheduler }
        set { Self.place.scheduler = newValue }
    }

    /// The longest time that a unit of work takes.
    static let unitNanosecondsMax: Int64 = 20_000
    /// The time since the start of the machine at which a simulation begins: timers may lie a little before it.
    static let startNanoseconds: Int64 = 1_000_000_000_000

    private struct Job {
        let process: SimulatedProcess?
        let job: UnownedJob
    }

    private struct Timer {
        let process: SimulatedProcess?
        let fire: () -> Void
    }

    /// A timer's time and turn, with the place where it is kept. The heap moves these, which hold no references.
    private struct Alarm {
        let at: Int64
        let number: Int
        let place: Int

        func comesBefore(_ other: Alarm) -> Bool {
            self.at != other.at ? self.at < other.at : self.number < other.number
        }
    }

    /// The source of all decisions.
    var random: SeededGenerator
    /// The time since the start of the machine, in nanoseconds.
    private(set) var now = Scheduler.startNanoseconds
    /// The process on whose behalf work runs; nil for what is outside the processes.
    private(set) var process: SimulatedProcess?
    /// The event loop whose turn it is.
    private(set) var loop: SimulatedLoop?
    /// The difference between the time of day and the time since the start of the machine, in nanoseconds.
    var wallOffset: Int64 = 0 {
        didSet { self.setClock() }
    }
    /// The units of work that have run.
    private(set) var steps = 0
    private var jobs: [Job] = []
    private var loops: [SimulatedLoop] = []
    /// The heap of the timers, the first one on top.
    private var alarms: [Alarm] = []
    /// The timers at their places, some of which are free.
    private var timers: [Timer?] = []
    private var freePlaces: [Int] = []
    private var timersCount = 0

    private let thread = pthread_self()

    init(seed: UInt64) { self.random = SeededGenerator(seed: seed) }

    /// Stops the program when something runs on a thread of its own: the same seed would not do the same again.
    private func checkThread() {
        precondition(pthread_equal(self.thread, pthread_self()) != 0, "a simulation has one thread")
    }

    // MARK: Work

    /// Adds a job of a task.
    func enqueue(_ job: UnownedJob) { self.add(Job(process: self.process, job: job)) }

    private func add(_ job: Job) {
        self.checkThread()
        if let process = job.process, process.isHalted {
            return process.keep { Scheduler.current.add(job) }
        }
        self.jobs.append(job)
    }

    /// Adds an event loop that has something to do.
    func enqueue(_ loop: SimulatedLoop) {
        self.checkThread()
        if loop.process.isHalted {
            return loop.process.keep { Scheduler.current.enqueue(loop) }
        }
        self.loops.append(loop)
    }

    /// Calls a function after a time on behalf of the running process.
    func call(after nanoseconds: Int64, _ fire: @escaping () -> Void) {
        self.call(at: self.now + max(0, nanoseconds), for: self.process, fire)
    }

    /// Calls a function at a time on behalf of a process; nil for what is outside the processes.
    func call(at time: Int64, for process: SimulatedProcess?, _ fire: @escaping () -> Void) {
        self.checkThread()
        let timer = Timer(process: process, fire: fire)
        let place: Int
        if let free = self.freePlaces.popLast() {
            place = free
            self.timers[place] = timer
        } else {
            place = self.timers.count
            self.timers.append(timer)
        }
        self.timersCount += 1
        self.push(Alarm(at: time, number: self.timersCount, place: place))
    }

    /// Resumes a job of a task after a time.
    func enqueue(_ job: UnownedJob, after nanoseconds: Int64) {
        self.call(after: nanoseconds) { Scheduler.current.enqueue(job) }
    }

    /// Calls a function on behalf of a process.
    func run<Result>(for process: SimulatedProcess?, _ body: () throws -> Result) rethrows -> Result {
        let (outer, outerLoop) = (self.process, self.loop)
        (self.process, self.loop) = (process, nil)
        self.setClock()
        defer {
            (self.process, self.loop) = (outer, outerLoop)
            self.setClock()
        }
        return try body()
    }

    /// Sets the process id and the time of day to those of the running process.
    private func setClock() {
        virtual_set_process(self.process?.pid ?? 1)
        virtual_set_wall_offset(self.wallOffset + (self.process?.clockError ?? 0))
    }

    // MARK: Steps

    /// Runs until a condition holds or a time has passed.
    ///
    /// - Returns: true when the condition holds.
    func run(until condition: () -> Bool, within nanoseconds: Int64) -> Bool {
        let end = self.now + nanoseconds
        while !condition() {
            guard self.now < end, self.step() else { return condition() }
        }
        return true
    }

    /// Runs one unit of work; returns false when there is nothing left to do, ever.
    private func step() -> Bool {
        while let first = self.alarms.first, first.at <= self.now {
            guard let timer = self.takeTimer() else { preconditionFailure("an alarm without a timer") }
            if let process = timer.process, process.isHalted {
                process.keep { process.scheduler.fire(timer) }
            } else {
                self.fire(timer)
            }
        }
        let count = self.jobs.count + self.loops.count
        guard count > 0 else {
            guard let first = self.alarms.first else { return false }
            self.move(to: first.at)
            return true
        }
        self.steps += 1
        let drawn = Int.random(in: 0..<count, using: &self.random)
        if drawn < self.jobs.count {
            self.jobs.swapAt(drawn, self.jobs.count - 1)
            let job = self.jobs.removeLast()
            if let process = job.process, process.isHalted {
                process.keep { process.scheduler.add(job) }
                return true
            }
            self.run(for: job.process) { unsafe job.job.runSynchronously(on: SimulatedExecutors.defaultReference) }
        } else {
            let index = drawn - self.jobs.count
            let loop = self.loops[index]
            if loop.process.isHalted {
                loop.process.keep { loop.process.scheduler.enqueue(loop) }
                self.loops.swapAt(index, self.loops.count - 1)
                self.loops.removeLast()
                return true
            }
            self.run(for: loop.process) {
                self.loop = loop
                loop.turn()
            }
            if !loop.isBusy {
                self.loops.swapAt(index, self.loops.count - 1)
                self.loops.removeLast()
            }
        }
        self.move(to: self.now + Int64.random(in: 1...Self.unitNanosecondsMax, using: &self.random))
        return true
    }

    private func fire(_ timer: Timer) { self.run(for: timer.process, timer.fire) }

    private func move(to time: Int64) {
        self.now = time
        virtual_set_time(time)
    }

    // MARK: The heap of timers

    private func push(_ alarm: Alarm) {
        var index = self.alarms.count
        self.alarms.append(alarm)
        while index > 0 {
            let parent = (index - 1) / 2
            guard alarm.comesBefore(self.alarms[parent]) else { break }
            self.alarms[index] = self.alarms[parent]
            index = parent
        }
        self.alarms[index] = alarm
    }

    /// Takes the first timer.
    private func takeTimer() -> Timer? {
        let place = self.alarms[0].place
        let last = self.alarms.removeLast()
        if !self.alarms.isEmpty { self.sink(last) }
        self.freePlaces.append(place)
        defer { self.timers[place] = nil }
        return self.timers[place]
    }

    /// Puts an alarm in the place of the first one, and then where it belongs.
    private func sink(_ alarm: Alarm) {
        let count = self.alarms.count
        var index = 0
        while true {
            var child = 2 * index + 1
            guard child < count else { break }
            if child + 1 < count, self.alarms[child + 1].comesBefore(self.alarms[child]) { child += 1 }
            guard self.alarms[child].comesBefore(alarm) else { break }
            self.alarms[index] = self.alarms[child]
            index = child
        }
        self.alarms[index] = alarm
    }
}

/// A process of the simulated fleet.
final class SimulatedProcess: @unchecked Sendable {
    /// Its name in reports.
    let name: String
    /// Its process id.
    let pid: Int32
    let scheduler: Scheduler
    /// True once it was killed: nothing of it runs any more.
    private(set) var isDead = false
    /// True while it is stopped, as by SIGSTOP.
    private(set) var isFrozen = false
    private var kept: [() -> Void] = []
    /// The nanoseconds by which its time of day is ahead of the fleet's.
    var clockError: Int64 = 0
    /// Closes its connections.
    var onDeath: () -> Void = {}
    /// True once its service was asked to stop.
    var isStopping = false
    /// Asks its service to stop.
    var onStop: () -> Void = {}
    /// Lets it read its settings again.
    var onReload: () -> Void = {}
    /// True once its service has ended.
    var hasEnded = false

    init(_ name: String, pid: Int32, scheduler: Scheduler) {
        self.name = name
        self.pid = pid
        self.scheduler = scheduler
    }

    /// True when its work must not run now.
    var isHalted: Bool { self.isDead || self.isFrozen }

    /// Keeps work that must not run now: that of a frozen process runs later, and that of a killed one never, but the
    /// memory of a killed process is not taken apart object by object, either.
    func keep(_ work: @escaping () -> Void) { self.kept.append(work) }

    /// Ends it as `kill -9` does.
    func kill() {
        guard !self.isDead else { return }
        self.isDead = true
        self.onDeath()
    }

    /// Stops it.
    func freeze() { self.isFrozen = true }

    /// Lets it go on.
    func thaw() {
        self.isFrozen = false
        guard !self.isDead else { return }
        let kept = self.kept
        self.kept = []
        for work in kept { work() }
    }
}
