internal import ApusCore

/// Bounds how many recipients of a route may be unwritten on one event loop: on the wire, or answered and not yet durable. A `kill -9` repeats
/// at most so many.
struct SendWindow: Sendable {
    /// What bulk leaves to express: one part in so many.
    static let reserveParts = 8

    /// At most so many.
    let limit: Int
    /// So many now.
    private(set) var unwritten = 0

    init(limit: Int) {
        precondition(limit >= Self.reserveParts)
        self.limit = limit
    }

    /// How many more a lane may send.
    func room(_ lane: Lane) -> Int {
        let limit = lane == .express ? self.limit : self.limit - self.limit / Self.reserveParts
        return max(0, limit - self.unwritten)
    }

    /// So many went out.
    mutating func sent(_ count: Int) { self.unwritten += count }

    /// So many are durable, or were never looked at by the provider.
    mutating func settled(_ count: Int) {
        precondition(count <= self.unwritten)
        self.unwritten -= count
    }
}
