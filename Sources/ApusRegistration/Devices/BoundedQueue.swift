/// Passes elements from one task to another, in their order, and lets the first one wait while too many are on the way.
package actor BoundedQueue<Element: Sendable> {
    private let costMax: Int
    private let budget: MemoryBudget?
    private var elements: [Element] = []
    private var cost = 0
    /// The cost of the elements that were taken last: they are in memory until the next ones are taken.
    private var costTaken = 0
    private var isFinished = false
    private var isClosed = false
    /// The task that waits for room.
    private var appending: CheckedContinuation<Void, Never>?
    /// The task that waits for elements.
    private var taking: CheckedContinuation<Void, Never>?

    /// The time between two looks whether a budget that was spent has room again.
    private static var budgetPause: Duration { .milliseconds(100) }

    /// Creates an empty queue.
    ///
    /// - Parameters:
    ///   - costMax: from which cost of the waiting elements on no more are accepted, in whatever unit `append` counts.
    ///   - budget: holds what the elements cost, in bytes then, from when they are appended until those after them are taken. While it is
    ///     spent, a queue that has anything accepts nothing.
    package init(costMax: Int, budget: MemoryBudget? = nil) {
        precondition(costMax > 0)
        self.costMax = costMax
        self.budget = budget
    }

    deinit { self.budget?.release(self.cost + self.costTaken) }

    /// True when the next call of `append` waits.
    package var isFull: Bool { self.cost >= self.costMax }

    /// Appends elements as soon as those that wait cost less than the maximum: so they exceed it by one call's at most. One task at a time.
    ///
    /// - Returns: false when nobody takes elements any more.
    package func append(_ new: [Element], cost: Int) async -> Bool {
        precondition(!self.isFinished && self.appending == nil, "one task appends, until it has finished")
        while !self.isClosed {
            if self.isFull {
                await withCheckedContinuation { self.appending = $0 }
            } else if let budget, budget.isSpent, self.cost + self.costTaken > 0 {
                guard (try? await Task.sleep(for: Self.budgetPause)) != nil else { return false }
            } else {
                break
            }
        }
        guard !self.isClosed else { return false }
        self.elements += new
        self.cost += cost
        self.budget?.hold(cost)
        self.wake(&self.taking)
        return true
    }

    /// Finishes the queue: no more elements come.
    package func finish() {
        self.isFinished = true
        self.wake(&self.taking)
    }

    /// Takes all elements that are there, or waits for the next ones. One task at a time.
    ///
    /// - Returns: nil when no more come.
    package func takeAll() async -> [Element]? {
        precondition(self.taking == nil, "one task takes")
        self.budget?.release(self.costTaken)
        self.costTaken = 0
        while self.elements.isEmpty, !self.isFinished, !self.isClosed {
            await withCheckedContinuation { self.taking = $0 }
        }
        guard !self.elements.isEmpty else { return nil }
        let taken = self.elements
        self.elements = []
        (self.cost, self.costTaken) = (0, self.cost)
        self.wake(&self.appending)
        return taken
    }

    /// Closes the queue for the reader: drops the elements in it, and takes no more.
    package func close() {
        self.isClosed = true
        self.elements = []
        self.budget?.release(self.cost)
        self.cost = 0
        self.wake(&self.appending)
        self.wake(&self.taking)
    }

    private func wake(_ waiting: inout CheckedContinuation<Void, Never>?) {
        waiting?.resume()
        waiting = nil
    }
}
