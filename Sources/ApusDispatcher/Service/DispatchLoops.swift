internal import Dispatch
internal import Glibc
internal import NIOCore
internal import Synchronization

/// Which threads serve which lane: the first of a group is for express alone, so that a code to log in never waits for a campaign's
/// turn; all others are for bulk. A group of one thread serves both.
struct DispatchLoops: Sendable {
    /// Threads that a dispatcher has besides those of its configuration.
    static let reserved = 1

    /// What bulk's threads add to their nice value: on a full machine they let others go first who have something to do at once.
    static let bulkNiceness: Int32 = 5

    let express: any EventLoop
    let bulk: EventLoopPart

    init(_ group: any EventLoopGroup) {
        let loops = Array(group.makeIterator())
        self.express = loops[0]
        self.bulk = EventLoopPart(loops.count == 1 ? loops : Array(loops.dropFirst()))
        guard loops.count > 1 else { return }
        // Linux: the calling thread alone, sched(7). Where it is refused all goes as before.
        let thread = __priority_which_t(PRIO_PROCESS.rawValue)
        for loop in self.bulk.loops { loop.execute { _ = setpriority(thread, 0, Self.bulkNiceness) } }
    }
}

/// Some event loops of a group, as a group. Not shut down by itself: the whole group is.
final class EventLoopPart: EventLoopGroup {
    let loops: [any EventLoop]
    private let turn = Atomic<UInt>(0)

    /// Traps when there is none.
    init(_ loops: [any EventLoop]) {
        precondition(!loops.isEmpty)
        self.loops = loops
    }

    func next() -> any EventLoop {
        let turn = self.turn.wrappingAdd(1, ordering: .relaxed).oldValue
        return self.loops[Int(turn % UInt(self.loops.count))]
    }

    /// The caller's own, where it is one of these.
    func any() -> any EventLoop { self.loops.first { $0.inEventLoop } ?? self.next() }

    func makeIterator() -> EventLoopIterator { EventLoopIterator(self.loops) }

    func shutdownGracefully(queue: DispatchQueue, _ callback: @escaping @Sendable ((any Error)?) -> Void) {
        queue.async { callback(EventLoopError.unsupportedOperation) }
    }
}
