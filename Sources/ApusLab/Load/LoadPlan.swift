/// Schedules sends at a constant rate, whatever happens to earlier ones.
///
/// Latencies count from these times, not from the time at which a send could be written: a driver that waits for a slow
/// system measures less exactly when the system is slow ("coordinated omission", https://github.com/giltene/wrk2).
package struct LoadPlan: Hashable, Sendable {
    /// The number of sends per second.
    package var ratePerSecond: Double
    /// The number of unmeasured sends at the start.
    package var warmUp: Int
    /// The number of measured sends.
    package var measured: Int

    /// Creates a plan.
    package init(ratePerSecond: Double, warmUp: Int, measured: Int) {
        precondition(ratePerSecond > 0 && ratePerSecond.isFinite, "a rate is above 0")
        precondition(warmUp >= 0 && measured > 0, "something is measured")
        self.ratePerSecond = ratePerSecond
        self.warmUp = warmUp
        self.measured = measured
    }

    /// The number of all sends.
    package var count: Int { self.warmUp + self.measured }

    /// Returns the nanoseconds from the start at which a send is due.
    package func due(_ index: Int) -> Int64 { Int64((Double(index) / self.ratePerSecond * 1e9).rounded()) }

    /// Returns the number of sends that are due at a time, in nanoseconds from the start.
    package func dueCount(at nanoseconds: Int64) -> Int {
        guard nanoseconds >= 0 else { return 0 }
        // The division may be off on either side of a due time: check.
        var count = max(0, Int(Double(nanoseconds) / 1e9 * self.ratePerSecond) - 1)
        while count < self.count, self.due(count) <= nanoseconds { count += 1 }
        return min(count, self.count)
    }

    /// Returns true when a send is measured.
    package func isMeasured(_ index: Int) -> Bool { index >= self.warmUp }
}
