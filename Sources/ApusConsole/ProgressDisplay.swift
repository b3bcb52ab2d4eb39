/// Shows progress: one redrawn line at most ten times a second for a person, else a plain line every five
/// seconds and at the end.
package struct ProgressDisplay {
    private static let redrawSeconds = 0.1
    private static let plainSeconds = 5.0

    private let label: String
    private let isInteractive: Bool
    private let write: (String) -> Void
    private var shownAt: Double?

    /// Creates a display.
    ///
    /// - Parameters:
    ///   - label: stands before every line; empty: nothing does.
    ///   - write: takes text as it is to appear, line ends included.
    package init(
        label: String = "",
        isInteractive: Bool = Console.isInteractive,
        write: @escaping (String) -> Void = Console.message(raw:),
    ) {
        self.label = label.isEmpty ? "" : label + "  "
        self.isInteractive = isInteractive
        self.write = write
    }

    /// Shows a line, unless one was shown a moment ago.
    ///
    /// - Parameter time: seconds from any fixed moment.
    package mutating func show(_ line: @autoclosure () -> String, at time: Double) {
        let pause = self.isInteractive ? Self.redrawSeconds : Self.plainSeconds
        // A plain line comes only after its pause: what is over sooner needs but one.
        guard let shownAt else {
            self.shownAt = time
            if self.isInteractive { self.put(line(), end: "") }
            return
        }
        guard time - shownAt >= pause else { return }
        self.shownAt = time
        self.put(line(), end: self.isInteractive ? "" : "\n")
    }

    /// Shows the last line.
    package mutating func finish(_ line: String) { self.put(line, end: "\n") }

    private func put(_ line: String, end: String) {
        // Back to the start, and clear to the end of the line.
        self.write((self.isInteractive ? "\r\u{1b}[K" : "") + self.label + line + end)
    }
}

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
