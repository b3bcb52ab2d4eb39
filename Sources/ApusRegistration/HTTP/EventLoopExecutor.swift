internal import HummingbirdCore
internal import Logging
internal import NIOCore

/// Runs tasks on an event loop: a request then changes no thread on its way from the connection to Redis and back.
final class EventLoopExecutor: TaskExecutor {
    private let eventLoop: any EventLoop

    init(_ eventLoop: any EventLoop) { self.eventLoop = eventLoop }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        self.eventLoop.execute { unsafe job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}

/// Handles each connection on its own event loop.
struct EventLoopListener<Base: ServerChildChannel>: ServerChildChannel where Base.Value == HTTP1Channel.Value {
    typealias Value = HTTP1Channel.Value

    let base: Base

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
        self.base.setup(channel: channel, logger: logger)
    }

    func handle(value: Value, logger: Logger) async {
        await withTaskExecutorPreference(EventLoopExecutor(value.channel.eventLoop)) {
            await self.base.handle(value: value, logger: logger)
        }
    }
}
