/// Writes a ledger as NDJSON, piece by piece, so that a slow reader costs no memory.
package struct LedgerReader {
    private let snapshot: LedgerSnapshot
    private let filter: LedgerFilter
    private var shard = 0
    private var page = 0
    private var written = 0

    /// Starts at the beginning.
    package init(_ snapshot: LedgerSnapshot, filter: LedgerFilter) {
        self.snapshot = snapshot
        self.filter = filter
    }

    /// The next lines, from one page of the ledger: perhaps none; nil at the end.
    package mutating func next() -> [UInt8]? {
        guard self.shard < self.snapshot.shards.count, self.written < self.filter.limit else { return nil }
        let pages = self.snapshot.shards[self.shard]
        guard let entries = pages.page(self.page) else {
            self.shard += 1
            self.page = 0
            return []
        }
        self.page += 1
        var writer = LineWriter()
        for packed in entries where self.written < self.filter.limit {
            let entry = LedgerEntry(packed, in: pages)
            guard self.filter.accepts(entry) else { continue }
            entry.write(to: &writer)
            self.written += 1
        }
        return writer.bytes
    }
}
