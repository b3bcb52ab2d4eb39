internal import ApusCore

/// Shows progress: on a terminal one line that is redrawn at most ten times a second, otherwise a plain line every five
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
    ///   - label: the text before every line; empty for none.
    ///   - write: writes text unchanged, including line ends.
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
    /// - Parameter time: the seconds since any fixed moment.
    package mutating func show(_ line: @autoclosure () -> String, at time: Double) {
        let pause = self.isInteractive ? Self.redrawSeconds : Self.plainSeconds
        // The first plain line comes after a pause: a short task shows only its last line.
        guard let shownAt else {
            self.shownAt = time
            if self.isInteractive { self.put(line(), end: "") }
            return
        }
        guard time - shownAt >= pause else { return }
        self.shownAt = time
        self.put(line(), end: self.isInteractive ? "" : "\n")
    }

    /// Writes a line that stays above the progress.
    package func announce(_ line: String) { self.put(line, end: "\n") }

    /// Shows the last line.
    package mutating func finish(_ line: String) { self.put(line, end: "\n") }

    private func put(_ line: String, end: String) {
        // The cursor returns to the start of the line, which is cleared.
        self.write((self.isInteractive ? "\r\u{1b}[K" : "") + self.label + line.visible + end)
    }
}

/// Computes the rate over the last seconds, from observed totals.
package struct RateWindow: Sendable {
    /// The length of the window in seconds.
    package static let seconds = 5.0

    private var samples: [(time: Double, total: UInt64)] = []

    /// Creates a window without samples.
    package init() {}

    /// Adds a total.
    ///
    /// - Parameters:
    ///   - total: the total, never less than before.
    ///   - time: the seconds since any fixed moment.
    package mutating func note(_ total: UInt64, at time: Double) {
        if let last = self.samples.last, time <= last.time { return }
        self.samples.append((time, total))
        // One sample from before the window is kept, so that the rate is over the whole window.
        while self.samples.count > 2, self.samples[1].time <= time - Self.seconds { self.samples.removeFirst() }
    }

    /// The rate per second; nil until there are two samples.
    package var rate: Double? {
        guard let first = self.samples.first, let last = self.samples.last, last.time > first.time else { return nil }
        return Double(last.total &- first.total) / (last.time - first.time)
    }
}
