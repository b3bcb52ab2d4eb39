import NIOCore
import NIOEmbedded
import Synchronization
import Testing

@testable import ApusStreams

/// Tests the times of an event loop's executor, on a loop whose clock the test moves.
@Suite struct LoopExecutorTests {
    @Test func `A tick comes at a multiple of the interval, however many are skipped`() async {
        let loop = NIOAsyncTestingEventLoop()
        let executor = LoopExecutor(loop)
        await loop.advanceTime(by: .milliseconds(25))
        let ticks = Mutex<[UInt64]>([])
        let ticking = Task(executorPreference: executor) {
            for skipped in [0, 3, 0] {
                await executor.tick(every: .milliseconds(10), skipping: skipped)
                ticks.withLock { $0.append(loop.now.uptimeNanoseconds / 1_000_000) }
            }
        }
        await loop.run()
        for _ in 0..<55 {
            await loop.advanceTime(by: .milliseconds(1))
            await loop.run()
        }
        await ticking.value
        #expect(ticks.withLock { $0 } == [30, 70, 80])
        await loop.shutdownGracefully()
    }
}
