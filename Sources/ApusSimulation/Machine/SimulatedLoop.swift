internal import ApusNetwork
internal import Dispatch
internal import NIOCore

/// An event loop of a simulated process. Each turn runs one task of its queue.
final class SimulatedLoop: VirtualNetworkLoop, @unchecked Sendable {
    let process: SimulatedProcess
    private let network: SimulatedNetwork
    private var tasks: [() -> Void] = []
    private var head = 0

    init(_ process: SimulatedProcess, _ network: SimulatedNetwork) {
        self.process = process
        self.network = network
    }

    private var scheduler: Scheduler { self.process.scheduler }

    /// True while tasks wait.
    var isBusy: Bool { self.head < self.tasks.count }

    /// Runs the first task.
    func turn() {
        let task = self.tasks[self.head]
        self.tasks[self.head] = {}
        self.head += 1
        if self.head == self.tasks.count {
            self.tasks.removeAll(keepingCapacity: true)
            self.head = 0
        }
        task()
    }

    // MARK: EventLoop

    var inEventLoop: Bool { self.scheduler.loop === self }

    var now: NIODeadline { .uptimeNanoseconds(UInt64(self.scheduler.now)) }

    func execute(_ task: @escaping @Sendable () -> Void) { self.add(task) }

    /// Adds a task of this loop.
    func add(_ task: @escaping () -> Void) {
        if self.process.isDead { return self.process.keep(task) }
        let wasBusy = self.isBusy
        self.tasks.append(task)
        // During a turn the scheduler looks afterwards whether there is more to do.
        if !wasBusy, !self.inEventLoop { self.scheduler.enqueue(self) }
    }

    @discardableResult
    func scheduleTask<Value>(
        deadline: NIODeadline,
        _ task: @escaping @Sendable () throws -> Value,
    ) -> Scheduled<Value> {
        let promise = self.makePromise(of: Value.self)
        let state = ScheduledState()
        let at = Int64(clamping: deadline.uptimeNanoseconds)
        self.scheduler.call(at: max(at, self.scheduler.now), for: self.process) {
            guard !state.isCancelled else { return }
            self.add {
                guard !state.isCancelled else { return }
                state.isRun = true
                do { promise.assumeIsolated().succeed(try task()) } catch { promise.fail(error) }
            }
        }
        return Scheduled(promise: promise) { state.isCancelled = !state.isRun }
    }

    @discardableResult
    func scheduleTask<Value>(
        in amount: TimeAmount,
        _ task: @escaping @Sendable () throws -> Value,
    ) -> Scheduled<Value> {
        self.scheduleTask(deadline: self.now + amount, task)
    }

    func shutdownGracefully(queue: DispatchQueue, _ callback: @escaping @Sendable ((any Error)?) -> Void) {
        self.execute { callback(nil) }
    }

    // MARK: Network

    func connect(
        to address: NetworkAddress,
        timeout: TimeAmount,
        initialize: @escaping @Sendable (any Channel) -> EventLoopFuture<Void>,
    ) -> EventLoopFuture<any Channel> {
        self.network.connect(self, to: address, timeout: timeout, initialize)
    }

    func listen(
        at port: Int,
        initialize: @escaping @Sendable (any Channel) -> EventLoopFuture<Void>,
    ) -> EventLoopFuture<any Channel> {
        self.makeSucceededFuture(self.network.listen(self, at: port, initialize))
    }
}

private final class ScheduledState: @unchecked Sendable {
    var isCancelled = false
    var isRun = false
}

/// The event loops of a simulated process.
final class SimulatedLoops: EventLoopGroup, @unchecked Sendable {
    private let loops: [SimulatedLoop]
    private var turn = 0

    init(_ loops: [SimulatedLoop]) { self.loops = loops }

    func next() -> any EventLoop {
        self.turn += 1
        return self.loops[self.turn % self.loops.count]
    }

    func any() -> any EventLoop { self.loops[0] }

    func makeIterator() -> EventLoopIterator { EventLoopIterator(self.loops) }

    func shutdownGracefully(queue: DispatchQueue, _ callback: @escaping @Sendable ((any Error)?) -> Void) {
        self.loops[0].execute { callback(nil) }
    }
}
