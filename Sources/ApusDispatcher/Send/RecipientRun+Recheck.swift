internal import ApusCore

/// Tracks for how long the recipients of a run may be sent to before their records are read, and their message is rendered, again.
///
/// A recipient that logs out, moves or leaves a topic while a send waits must not receive it, and a provider must not keep a message for
/// longer than is left until its expiry. Times are nanoseconds of the monotonic clock.
struct RecipientFreshness: Sendable {
    /// The maximum age of a read.
    let validFor: UInt64
    /// The time when the last read began.
    private var readAt: UInt64
    /// The first row that was not in the last read.
    private var end: Int
    /// True while rows are being read.
    private(set) var isReading = false
    /// True when rows have been read again since the run began.
    private var hasReread = false
    /// True when a row that is to be sent to again may not have been in the last read.
    private var hasOldRow = false

    /// Creates the state after all rows were read.
    init(validFor: UInt64, readAt: UInt64, count: Int) {
        self.validFor = validFor
        self.readAt = readAt
        self.end = count
    }

    /// Returns true when a row must be read again before it is sent to.
    func isStale(_ index: Int, now: UInt64) -> Bool {
        self.hasOldRow || index >= self.end || now >= self.readAt + self.validFor
    }

    /// The time from which the rows of the last read must be read again.
    var validUntil: UInt64 { self.readAt + self.validFor }

    mutating func beginReading() {
        self.isReading = true
        self.hasOldRow = false
    }

    /// Records the end of a read that contained the next rows, up to `end`.
    ///
    /// - Parameter readAt: the time when the read began.
    mutating func endReading(readAt: UInt64, upTo end: Int) {
        self.isReading = false
        self.hasReread = true
        self.readAt = readAt
        self.end = end
    }

    /// Records that a row in flight is to be sent to again. Its record may be older than the last read.
    mutating func recordReturn() {
        if self.hasReread || self.isReading { self.hasOldRow = true }
    }
}

/// Reads the records of recipients again that have waited.
extension RecipientRun {
    /// Returns true when the record of the next recipient is too old to send to it. Probes need no recent record,
    /// because they reach no device.
    func isStale(now: UInt64) -> Bool {
        guard let freshness else { return false }
        if let index = self.again.last.map({ Int($0) }) {
            return !self.probes.isProbe(index) && freshness.isStale(index, now: now)
        }
        return freshness.isStale(self.next, now: now)
    }

    /// The time from which recipients that wait for room must be read again rather than sent to.
    var validUntil: UInt64 { self.freshness?.validUntil ?? .max }

    /// True while recipients are being read again. Nothing is sent before the read has ended.
    var isBeingRechecked: Bool { self.freshness?.isReading ?? false }

    /// Returns the rows to read again: those that came back, and as many of the next ones as allowed.
    /// ``finishRecheck(_:of:readAt:now:)`` ends the read. If only rows with an outcome are left, the list is empty and no read begins.
    ///
    /// - Parameter countMax: the maximum number of next rows.
    mutating func beginRecheck(countMax: Int) -> [Int] {
        precondition(countMax > 0 && !self.isBeingRechecked, "one read at a time")
        var indices = self.again.map { Int($0) }.filter { !self.probes.isProbe($0) }
        let wanted = indices.count + countMax
        var index = self.next
        while index < self.table.rows.count, indices.count < wanted {
            if self.isUnsent(index) { indices.append(index) }
            index += 1
        }
        guard !indices.isEmpty else {
            self.next = self.table.rows.count
            return []
        }
        self.freshness?.beginReading()
        return indices.sorted()
    }

    /// Applies the result of a read: recipients that no longer match are skipped, and recipients with a new token are
    /// sent to with it.
    ///
    /// - Parameters:
    ///   - rows: one row for each index, in the same order; nil if there was nothing to read, because they are addresses.
    ///   - readAt: the time when the read began, in nanoseconds of the monotonic clock.
    mutating func finishRecheck(_ rows: RecipientTable?, of indices: [Int], readAt: UInt64, now: UnixMilliseconds) {
        let end = indices.last.map { $0 + 1 } ?? self.table.rows.count
        self.freshness?.endReading(readAt: readAt, upTo: max(self.next, end))
        if let rows {
            precondition(rows.rows.count == indices.count, "one row for each that was asked for")
            // A row may have been closed meanwhile, because the send was cancelled or has expired.
            for (row, index) in indices.enumerated() where !self.done[index] {
                self.table.replace(index, with: row, of: rows)
                self.closeIfDecided(index, now: now)
            }
        }
        // The control of a probe has its outcome already, and is asked all the same.
        self.again = self.again.filter { self.probes.isProbe(Int($0)) || self.isUnsent(Int($0)) }
    }
}
