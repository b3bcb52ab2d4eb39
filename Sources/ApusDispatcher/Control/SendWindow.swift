internal import ApusCore

/// Limits the number of unwritten recipients of a route on one event loop.
///
/// A recipient is unwritten from its request until its outcome is durable. After a `kill -9`, at most the unwritten
/// recipients are sent to again.
struct SendWindow: Sendable {
    /// The reserve for express: one part in this many of the limit, which bulk may not use.
    static let reserveParts = 8

    /// The maximum number of unwritten recipients.
    let limit: Int
    /// The current number of unwritten recipients.
    private(set) var unwritten = 0

    init(limit: Int) {
        precondition(limit >= Self.reserveParts)
        self.limit = limit
    }

    /// Returns how many more recipients a lane may send to.
    func room(_ lane: Lane) -> Int {
        let limit = lane == .express ? self.limit : self.limit - self.limit / Self.reserveParts
        return max(0, limit - self.unwritten)
    }

    /// Counts recipients that were sent to.
    mutating func sent(_ count: Int) { self.unwritten += count }

    /// Removes recipients whose outcome is durable, or whose request the provider did not process.
    mutating func settled(_ count: Int) {
        precondition(count <= self.unwritten)
        self.unwritten -= count
    }
}
