import ApusRegistration
import Testing

@Suite struct BoundedQueueTests {
    @Test func elementsComeInTheirOrderAndAllThatAreThere() async {
        let queue = BoundedQueue<Int>(costMax: 10)
        #expect(await queue.append([1, 2], cost: 4))
        #expect(await queue.append([3], cost: 4))
        #expect(await queue.takeAll() == [1, 2, 3])
        #expect(await queue.append([4], cost: 1))
        await queue.finish()
        #expect(await queue.takeAll() == [4])
        #expect(await queue.takeAll() == nil)
    }

    @Test func whoAppendsToAFullQueueWaitsForRoom() async {
        let queue = BoundedQueue<Int>(costMax: 10)
        // One call may exceed the maximum; the next one waits.
        #expect(await queue.append([1], cost: 25))
        async let appended = queue.append([2], cost: 1)
        while await !queue.isFull { await Task.yield() }
        #expect(await queue.takeAll() == [1])
        #expect(await appended)
        #expect(await queue.takeAll() == [2])
    }

    @Test func whoTakesFromAnEmptyQueueWaitsForElementsOrTheEnd() async {
        let queue = BoundedQueue<Int>(costMax: 10)
        async let taken = queue.takeAll()
        #expect(await queue.append([1], cost: 1))
        #expect(await taken == [1])
        async let end = queue.takeAll()
        await queue.finish()
        #expect(await end == nil)
    }

    @Test func whenNobodyTakesAnyMoreNobodyWaits() async {
        let queue = BoundedQueue<Int>(costMax: 10)
        #expect(await queue.append([1], cost: 10))
        async let appended = queue.append([2], cost: 1)
        await queue.close()
        #expect(await !appended)
        #expect(await !queue.append([3], cost: 1))
        #expect(await queue.takeAll() == nil)
    }
}
