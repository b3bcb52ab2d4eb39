internal import ApusCore

/// Which units retries make.
extension RecipientRun {
    /// A retry may wait for others of its unit by one part in so many of its wait.
    static let companyParts: Int64 = 4

    /// Few units out of many retries: nobody is tried before the time, and nobody waits much longer for company. A unit that fell
    /// apart at every try would end as one unit for each recipient.
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
