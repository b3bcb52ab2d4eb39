/// The rate over the last seconds, from totals that were seen.
package struct RateWindow: Sendable {
    /// Seconds that count.
    package static let seconds = 5.0

    private var samples: [(time: Double, total: UInt64)] = []

    /// Nothing seen yet.
    package init() {}

    /// Notes a total.
    ///
    /// - Parameters:
    ///   - total: never less than before.
    ///   - time: seconds from any fixed moment.
    package mutating func note(_ total: UInt64, at time: Double) {
        if let last = self.samples.last, time <= last.time { return }
        self.samples.append((time, total))
        // One sample from before the window stays: the rate is over the whole window.
        while self.samples.count > 2, self.samples[1].time <= time - Self.seconds { self.samples.removeFirst() }
    }

    /// Per second; nil until there are two samples.
    package var rate: Double? {
        guard let first = self.samples.first, let last = self.samples.last, last.time > first.time else { return nil }
        return Double(last.total &- first.total) / (last.time - first.time)
    }
}
