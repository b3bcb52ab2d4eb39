internal import ApusCore

/// Tracks until when the recipients of a run may be sent to before their records are read again.
///
/// Whoever logs out, moves or leaves a topic while a send waits must not get it. Times are nanoseconds of the monotonic clock.
struct RecipientFreshness: Sendable {
    /// How long a read may be relied on.
    let validFor: UInt64
    /// When the read began whose rows may be sent to.
    private var readAt: UInt64
    /// The first row that was not in that read, or longer ago.
    private var end: Int
    /// Whether rows are being read.
    private(set) var isReading = false
    /// Whether rows have been read again since the run began.
    private var hasReread = false
    /// Whether a row that is to be sent to again may not have been in the last read.
    private var hasOldRow = false

    /// All rows, as they were read then.
    init(validFor: UInt64, readAt: UInt64, count: Int) {
        self.validFor = validFor
        self.readAt = readAt
        self.end = count
    }

    /// Returns true when a row must be read again before it is sent to.
    func isStale(_ index: Int, now: UInt64) -> Bool {
        self.hasOldRow || index >= self.end || now >= self.readAt + self.validFor
    }

    mutating func beginReading() {
        self.isReading = true
        self.hasOldRow = false
    }

    /// Records that the rows that are next, up to this one, were read by a read that began then.
    mutating func endReading(readAt: UInt64, upTo end: Int) {
        self.isReading = false
        self.hasReread = true
        self.readAt = readAt
        self.end = end
    }

    /// Records that a row that was on the wire is to be sent to again: others may have been read since it went out.
    mutating func recordReturn() {
        if self.hasReread || self.isReading { self.hasOldRow = true }
    }
}

/// Reading recipients again that have waited.
extension RecipientRun {
    /// Returns true when the next recipient was read too long ago to be sent to. A token that is only tried reaches nobody.
    func isStale(now: UInt64) -> Bool {
        guard let freshness else { return false }
        if let index = self.again.last.map({ Int($0) }) {
            return !self.probes.isProbe(index) && freshness.isStale(index, now: now)
        }
        return freshness.isStale(self.next, now: now)
    }

    /// Whether its recipients are being read again: until that has ended nobody is sent to.
    var isBeingRechecked: Bool { self.freshness?.isReading ?? false }

    /// Takes the rows to read again: those that came back, and as many of the next ones. ``finishRecheck(_:of:readAt:now:)`` ends it.
    ///
    /// - Parameter countMax: of those that are next.
    mutating func beginRecheck(countMax: Int) -> [Int] {
        precondition(countMax > 0 && !self.isBeingRechecked, "one read at a time")
        self.freshness?.beginReading()
        var indices = self.again.map { Int($0) }.filter { !self.probes.isProbe($0) }
        let wanted = indices.count + countMax
        var index = self.next
        while index < self.table.rows.count, indices.count < wanted {
            if self.isUnsent(index) { indices.append(index) }
            index += 1
        }
        return indices.sorted()
    }

    /// Takes over what a read found: whoever does not match any more is skipped, whoever has a new token gets the send by that.
    ///
    /// - Parameters:
    ///   - rows: one for each index, in their order.
    ///   - readAt: when the read began, in nanoseconds of the monotonic clock.
    mutating func finishRecheck(_ rows: RecipientTable, of indices: [Int], readAt: UInt64, now: UnixMilliseconds) {
        precondition(rows.rows.count == indices.count, "one row for each that was asked for")
        let end = indices.last.map { $0 + 1 } ?? self.table.rows.count
        self.freshness?.endReading(readAt: readAt, upTo: max(self.next, end))
        // They may have been closed meanwhile: the send was cancelled, or has expired.
        for (row, index) in indices.enumerated() where !self.done[index] {
            self.table.replace(index, with: row, of: rows)
            self.closeIfDecided(index, now: now)
        }
        self.again.removeAll { self.done[Int($0)] || self.table.rows[Int($0)].verdict != .open }
    }
}
