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

    @Test func aSharedBudgetHoldsWhatWaitsAndWhatWasTakenLast() async {
        let budget = MemoryBudget(limit: 10)
        let queue = BoundedQueue<Int>(costMax: 100, budget: budget)
        #expect(await queue.append([1], cost: 6))
        #expect(budget.bytes == 6)
        #expect(await queue.takeAll() == [1])
        #expect(budget.bytes == 6)
        #expect(await queue.append([2], cost: 3))
        #expect(budget.bytes == 9)
        #expect(await queue.takeAll() == [2])
        #expect(budget.bytes == 3)
        await queue.close()
        #expect(await queue.takeAll() == nil)
        #expect(budget.bytes == 0)
    }

    @Test func whileABudgetIsSpentAQueueAcceptsOneElementAtATime() async {
        let budget = MemoryBudget(limit: 10)
        budget.hold(10)
        let queue = BoundedQueue<Int>(costMax: 100, budget: budget)
        #expect(await queue.append([1], cost: 5))
        let second = Task { await queue.append([2], cost: 5) }
        #expect(await queue.takeAll() == [1])
        async let taken = queue.takeAll()
        #expect(await second.value)
        #expect(await taken == [2])
        let third = Task { await queue.append([3], cost: 5) }
        budget.release(10)
        #expect(await third.value)
        #expect(budget.bytes == 10)
    }

    @Test func aQueueThatIsGoneHoldsNothing() async {
        let budget = MemoryBudget(limit: 10)
        do {
            let queue = BoundedQueue<Int>(costMax: 100, budget: budget)
            #expect(await queue.append([1], cost: 5))
        }
        #expect(budget.bytes == 0)
    }

    @Test func aBudgetReservesWhatFits() {
        let budget = MemoryBudget(limit: 10)
        #expect(budget.reserve(10))
        #expect(budget.isSpent)
        #expect(!budget.reserve(1))
        #expect(budget.bytes == 10)
        budget.release(4)
        #expect(!budget.reserve(5))
        #expect(budget.reserve(4))
    }
}
