internal import Synchronization

/// Counts the bytes that clients make the process hold: bodies of requests, lines of imports, and answers that are not read yet.
package final class MemoryBudget: Sendable {
    /// The limit in bytes.
    package let limit: Int
    private let held = Atomic(0)

    /// Creates a budget of which nothing is held.
    ///
    /// - Parameter limit: in bytes, above 0.
    package init(limit: Int) {
        precondition(limit > 0)
        self.limit = limit
    }

    /// The bytes held.
    package var bytes: Int { self.held.load(ordering: .relaxed) }

    /// True when the limit is reached.
    package var isSpent: Bool { self.bytes >= self.limit }

    /// Holds bytes if they fit.
    ///
    /// - Returns: false when they do not; nothing is held then.
    package func reserve(_ bytes: Int) -> Bool {
        guard self.held.add(bytes, ordering: .relaxed).newValue > self.limit else { return true }
        self.release(bytes)
        return false
    }

    /// Holds bytes if they fit, as long as the result exists.
    ///
    /// - Returns: nil when they do not; nothing is held then.
    func reservation(of bytes: Int) -> MemoryReservation? {
        self.reserve(bytes) ? MemoryReservation(self, bytes) : nil
    }

    /// Holds bytes that are in memory already, whether they fit or not.
    package func hold(_ bytes: Int) { self.held.add(bytes, ordering: .relaxed) }

    /// Gives bytes back.
    package func release(_ bytes: Int) { self.held.subtract(bytes, ordering: .relaxed) }
}

/// Holds bytes of a budget until nobody refers to it.
final class MemoryReservation: Sendable {
    private let budget: MemoryBudget
    private let bytes: Int

    fileprivate init(_ budget: MemoryBudget, _ bytes: Int) {
        self.budget = budget
        self.bytes = bytes
    }

    deinit { self.budget.release(self.bytes) }
}
