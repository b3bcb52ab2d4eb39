/// Passes elements from one task to another, in their order, and lets the first one wait while too many are on the way.
package actor BoundedQueue<Element: Sendable> {
    private let costMax: Int
    private var elements: [Element] = []
    private var cost = 0
    private var isFinished = false
    private var isClosed = false
    /// The task that waits for room.
    private var appending: CheckedContinuation<Void, Never>?
    /// The task that waits for elements.
    private var taking: CheckedContinuation<Void, Never>?

    /// Creates an empty queue.
    ///
    /// - Parameter costMax: from which cost of the waiting elements on no more are accepted, in whatever unit `append` counts.
    package init(costMax: Int) {
        precondition(costMax > 0)
        self.costMax = costMax
    }

    /// True when the next call of `append` waits.
    package var isFull: Bool { self.cost >= self.costMax }

    /// Appends elements as soon as those that wait cost less than the maximum: so they exceed it by one call's at most. One task at a time.
    ///
    /// - Returns: false when nobody takes elements any more.
    package func append(_ new: [Element], cost: Int) async -> Bool {
        precondition(!self.isFinished && self.appending == nil, "one task appends, until it has finished")
        while self.isFull, !self.isClosed {
            await withCheckedContinuation { self.appending = $0 }
        }
        guard !self.isClosed else { return false }
        self.elements += new
        self.cost += cost
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
        while self.elements.isEmpty, !self.isFinished, !self.isClosed {
            await withCheckedContinuation { self.taking = $0 }
        }
        guard !self.elements.isEmpty else { return nil }
        let taken = self.elements
        self.elements = []
        self.cost = 0
        self.wake(&self.appending)
        return taken
    }

    /// Closes the queue for the reader: drops the elements in it, and takes no more.
    package func close() {
        self.isClosed = true
        self.elements = []
        self.wake(&self.appending)
        self.wake(&self.taking)
    }

    private func wake(_ waiting: inout CheckedContinuation<Void, Never>?) {
        waiting?.resume()
        waiting = nil
    }
}
