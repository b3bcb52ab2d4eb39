/// When which send is due: a constant rate, whatever happens to the sends before.
///
/// Latencies count from these times, not from when a send could at last be written: a driver that waits for a slow
/// system asks it fewer questions exactly when it is slow ("coordinated omission", https://github.com/giltene/wrk2).
package struct LoadPlan: Hashable, Sendable {
    /// Sends per second.
    package var ratePerSecond: Double
    /// Sends that are not measured, at the start.
    package var warmUp: Int
    /// Sends that are measured.
    package var measured: Int

    /// Creates a plan.
    package init(ratePerSecond: Double, warmUp: Int, measured: Int) {
        precondition(ratePerSecond > 0 && ratePerSecond.isFinite, "a rate is above 0")
        precondition(warmUp >= 0 && measured > 0, "something is measured")
        self.ratePerSecond = ratePerSecond
        self.warmUp = warmUp
        self.measured = measured
    }

    /// All sends.
    package var count: Int { self.warmUp + self.measured }

    /// Nanoseconds from the start at which a send is due.
    package func due(_ index: Int) -> Int64 { Int64((Double(index) / self.ratePerSecond * 1e9).rounded()) }

    /// Sends that are due that many nanoseconds from the start: all before this position.
    package func dueCount(at nanoseconds: Int64) -> Int {
        guard nanoseconds >= 0 else { return 0 }
        // The division may land on either side of a due time: look.
        var count = max(0, Int(Double(nanoseconds) / 1e9 * self.ratePerSecond) - 1)
        while count < self.count, self.due(count) <= nanoseconds { count += 1 }
        return min(count, self.count)
    }

    /// Returns true when a send is measured.
    package func isMeasured(_ index: Int) -> Bool { index >= self.warmUp }
}
