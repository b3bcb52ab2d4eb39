internal import ApusCore

/// Groups retries into units.
extension RecipientRun {
    /// A retry may wait for others of its unit for one part in this many of its own wait, and for at least a second.
    static let companyParts: Int64 = 4

    /// Groups many retries into few units.
    ///
    /// No recipient is retried before its time, and none waits much longer to share a unit. Without grouping, a unit
    /// that splits at every attempt would end as one unit per recipient.
    static func grouped(
        _ deferred: [Deferred],
        now: UnixMilliseconds
    ) -> [(due: UnixMilliseconds, indices: [Int])] {
        var groups: [(due: UnixMilliseconds, indices: [Int])] = []
        var latest = UnixMilliseconds(0)
        for waiting in deferred.sorted(by: { $0.due < $1.due }) {
            let due = UnixMilliseconds(seconds: (waiting.due.value + 999) / 1_000)
            if !groups.isEmpty, due <= latest {
                groups[groups.count - 1].due = due
                groups[groups.count - 1].indices.append(waiting.index)
            } else {
                groups.append((due, [waiting.index]))
                let wait = max(0, due.milliseconds(since: now))
                latest = due.advanced(byMilliseconds: max(1_000, wait / Self.companyParts))
            }
        }
        return groups.map { ($0.due, $0.indices.sorted()) }
    }
}
