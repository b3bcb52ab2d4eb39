internal import ApusCore
internal import Synchronization

/// Counts the bytes that clients make the process hold: bodies of requests, lines of imports, and answers that are not read yet.
package final class MemoryBudget: Sendable {
    /// The limit in bytes.
    package let limit: Int
    /// The budget that this one is a share of; nil for the whole.
    private let whole: MemoryBudget?
    private let held = Atomic(0)

    /// Creates a budget of which nothing is held.
    ///
    /// - Parameters:
    ///   - limit: in bytes, above 0.
    ///   - whole: the budget that this one is a share of: what is held here is held there too. Shares may be more than the whole together.
    package init(limit: Int, of whole: MemoryBudget? = nil) {
        precondition(limit > 0)
        self.limit = limit
        self.whole = whole
    }

    /// The bytes held.
    package var bytes: Int { self.held.load(ordering: .relaxed) }

    /// True when the limit is reached, or that of the whole.
    package var isSpent: Bool { self.bytes >= self.limit || self.whole?.isSpent ?? false }

    /// Returns true when bytes would fit at the moment.
    func hasRoom(for bytes: Int) -> Bool {
        self.bytes + bytes <= self.limit && self.whole?.hasRoom(for: bytes) ?? true
    }

    /// Holds bytes if they fit.
    ///
    /// - Returns: false when they do not; nothing is held then.
    package func reserve(_ bytes: Int) -> Bool {
        if self.held.add(bytes, ordering: .relaxed).newValue <= self.limit {
            guard let whole else { return true }
            if whole.reserve(bytes) { return true }
        }
        self.held.subtract(bytes, ordering: .relaxed)
        return false
    }

    /// Holds bytes if they fit, as long as the result exists.
    ///
    /// - Returns: nil when they do not; nothing is held then.
    func reservation(of bytes: Int) -> MemoryReservation? {
        let reservation = MemoryReservation(self)
        return reservation.grow(by: bytes) ? reservation : nil
    }

    /// Holds bytes that are in memory already, whether they fit or not.
    package func hold(_ bytes: Int) {
        self.held.add(bytes, ordering: .relaxed)
        self.whole?.hold(bytes)
    }

    /// Gives bytes back.
    package func release(_ bytes: Int) {
        self.held.subtract(bytes, ordering: .relaxed)
        self.whole?.release(bytes)
    }
}

/// Holds bytes of a budget until nobody refers to it.
final class MemoryReservation: Sendable {
    private let budget: MemoryBudget
    private let bytes = Atomic(0)

    /// Creates a reservation of nothing.
    init(_ budget: MemoryBudget) { self.budget = budget }

    deinit { self.budget.release(self.bytes.load(ordering: .relaxed)) }

    /// Holds further bytes if they fit.
    ///
    /// - Returns: false when they do not; none of these are held then.
    func grow(by bytes: Int) -> Bool {
        guard self.budget.reserve(bytes) else { return false }
        self.bytes.add(bytes, ordering: .relaxed)
        return true
    }
}

/// Divides a budget of memory, so that nobody's requests leave no room for all others': the backends of an app hold at most half of it, with
/// imports a quarter; the devices of its users a quarter together, and those of one user a sixteenth; all that have no credentials a quarter.
final class MemoryShares: Sendable {
    private enum Holder: Hashable {
        case backends(AppID)
        case imports(AppID)
        case users(AppID)
        case user(AppID, UserID)
    }

    private struct Share {
        weak var budget: MemoryBudget?
    }

    private struct State {
        var shares: [Holder: Share] = [:]
        /// The number of shares from which on those that nobody refers to are forgotten.
        var sharesMax = MemoryShares.sharesMin
    }

    /// The number of shares below which none is forgotten.
    private static let sharesMin = 1_024

    /// The whole.
    let whole: MemoryBudget
    /// The share of those that have no credentials.
    let anybody: MemoryBudget
    private let state = Mutex(State())

    /// Divides a budget.
    init(_ whole: MemoryBudget) {
        self.whole = whole
        self.anybody = MemoryBudget(limit: max(whole.limit / 4, APILimits.matrixHeldBytesMax), of: whole)
    }

    /// Returns the share of a caller.
    func share(of app: AppID, _ caller: Caller) -> MemoryBudget {
        switch caller {
        case .backend: self.share(.backends(app), self.whole.limit / 2) { $0.whole }
        case .user(let user):
            self.share(.user(app, user), max(self.whole.limit / 16, APILimits.userRemovalBytes)) {
                $0.share(.users(app), $0.whole.limit / 4) { $0.whole }
            }
        }
    }

    /// Returns the share of an app's imports, which is a part of its backends'.
    func importShare(of app: AppID) -> MemoryBudget {
        self.share(.imports(app), self.whole.limit / 4) {
            $0.share(.backends(app), $0.whole.limit / 2) { $0.whole }
        }
    }

    /// The number of shares that are remembered.
    var shareCount: Int { self.state.withLock { $0.shares.count } }

    private func share(_ holder: Holder, _ limit: Int, of whole: (MemoryShares) -> MemoryBudget) -> MemoryBudget {
        if let known = self.state.withLock({ $0.shares[holder]?.budget }) { return known }
        let new = MemoryBudget(limit: limit, of: whole(self))
        return self.state.withLock { state in
            // Another task may have come first.
            if let known = state.shares[holder]?.budget { return known }
            if state.shares.count >= state.sharesMax {
                state.shares = state.shares.filter { $0.value.budget != nil }
                state.sharesMax = max(Self.sharesMin, 2 * state.shares.count)
            }
            state.shares[holder] = Share(budget: new)
            return new
        }
    }
}
