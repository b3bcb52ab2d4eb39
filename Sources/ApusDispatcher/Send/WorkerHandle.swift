internal import ApusCore
internal import ApusMetrics
internal import NIOCore

/// Gives the rest of the process access to a worker. Every call runs on the worker's event loop.
struct WorkerHandle: Sendable {
    let eventLoop: any EventLoop
    private let box: NIOLoopBound<Worker>

    /// Creates a handle. Traps when not on the worker's event loop.
    init(_ worker: Worker) {
        self.eventLoop = worker.eventLoop
        self.box = NIOLoopBound(worker, eventLoop: worker.eventLoop)
    }

    /// Calls `body` on the worker's event loop.
    func onLoop<Result: Sendable>(_ body: @escaping @Sendable (Worker) -> Result) async throws -> Result {
        if self.eventLoop.inEventLoop { return body(self.box.value) }
        return try await self.eventLoop.submit { body(self.box.value) }.get()
    }

    /// Starts a run.
    func start(_ plan: RunPlan) async throws -> RunToken {
        // Without a closure, which would hold a copy.
        if self.eventLoop.inEventLoop { return self.box.value.start(plan) }
        return try await self.onLoop { $0.start(plan) }
    }

    /// Waits until the run has something to write, has ended, or a heartbeat has passed.
    func update(_ token: RunToken) async throws -> RunUpdate {
        try await withCheckedThrowingContinuation { continuation in
            if self.eventLoop.inEventLoop {
                self.box.value.awaitUpdate(token, continuation)
            } else {
                self.eventLoop.execute { self.box.value.awaitUpdate(token, continuation) }
            }
        }
    }

    /// Stops a run from sending anything more.
    func stop(_ token: RunToken) async throws {
        try await self.onLoop { $0.stop(token) }
    }

    /// Stops a run whose reports are not written any more.
    func abandon(_ token: RunToken) async throws {
        try await self.onLoop { $0.abandon(token) }
    }

    /// Ends the recipients that are not in flight with the given outcome.
    func closeRest(_ token: RunToken, _ outcome: Outcome, _ reason: Reason) async throws {
        try await self.onLoop { $0.closeRest(token, outcome, reason) }
    }

    /// Replaces the rows of recipients that were read again, if any were, and the message, and resumes the run.
    func recheck(
        _ token: RunToken,
        _ rows: RecipientTable?,
        of indices: [Int],
        readAt: NIODeadline,
        rendered: RouteContext?,
    ) async throws {
        try await self.onLoop { $0.recheck(token, rows, of: indices, readAt: readAt, rendered: rendered) }
    }

    /// Sets the maximum number of recipients of the run's send that the whole fleet may reach per second; 0 for no
    /// limit.
    func setRate(_ token: RunToken, perSecond: Double) async throws {
        try await self.onLoop { $0.setRate(token, perSecond: perSecond) }
    }

    /// Removes a run that has ended.
    func remove(_ token: RunToken) async throws {
        try await self.onLoop { $0.remove(token) }
    }

    /// Takes no more runs, waits for the requests in flight, and closes the connections.
    func drain() async {
        let drained = self.eventLoop.flatSubmit { self.box.value.drain() }
        _ = try? await drained.get()
    }
}
