internal import Dispatch
internal import Glibc
internal import NIOCore
internal import Synchronization

/// Assigns event loops to lanes. The first loop of a group is for express alone, so that a login code never waits for a
/// campaign; all others are for bulk. A group of one loop serves both.
struct DispatchLoops: Sendable {
    /// The number of event loops that a dispatcher has in addition to the configured ones.
    static let reserved = 1

    /// The increment of the nice value of bulk's threads. On a busy machine they yield to threads with urgent work.
    static let bulkNiceness: Int32 = 5

    let express: any EventLoop
    let bulk: EventLoopPart

    init(_ group: any EventLoopGroup) {
        let loops = Array(group.makeIterator())
        self.express = loops[0]
        self.bulk = EventLoopPart(loops.count == 1 ? loops : Array(loops.dropFirst()))
        guard loops.count > 1 else { return }
        // On Linux this affects only the calling thread, see sched(7). If it is refused, the priority stays as it was.
        let thread = __priority_which_t(PRIO_PROCESS.rawValue)
        for loop in self.bulk.loops { loop.execute { _ = setpriority(thread, 0, Self.bulkNiceness) } }
    }
}

/// A subset of a group's event loops, as a group. It is not shut down by itself, but with the whole group.
final class EventLoopPart: EventLoopGroup {
    let loops: [any EventLoop]
    private let turn = Atomic<UInt>(0)

    /// Creates a group. Traps on an empty list.
    init(_ loops: [any EventLoop]) {
        precondition(!loops.isEmpty)
        self.loops = loops
    }

    func next() -> any EventLoop {
        let turn = self.turn.wrappingAdd(1, ordering: .relaxed).oldValue
        return self.loops[Int(turn % UInt(self.loops.count))]
    }

    /// Returns the caller's event loop if it is in the group, and otherwise the next one.
    func any() -> any EventLoop { self.loops.first { $0.inEventLoop } ?? self.next() }

    func makeIterator() -> EventLoopIterator { EventLoopIterator(self.loops) }

    func shutdownGracefully(queue: DispatchQueue, _ callback: @escaping @Sendable ((any Error)?) -> Void) {
        queue.async { callback(EventLoopError.unsupportedOperation) }
    }
}
