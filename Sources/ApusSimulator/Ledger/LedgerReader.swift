internal import ApusCore

/// Reads a ledger as NDJSON, piece by piece, so that a slow client costs no memory.
package struct LedgerReader {
    private let snapshot: LedgerSnapshot
    private let filter: LedgerFilter
    private var shard = 0
    private var page = 0
    private var written = 0

    /// Creates a reader at the beginning.
    package init(_ snapshot: LedgerSnapshot, filter: LedgerFilter) {
        self.snapshot = snapshot
        self.filter = filter
    }

    /// Returns the next lines, from one page of the ledger, which may be none; nil at the end.
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

/// Selects entries of the ledger.
package struct LedgerFilter: Sendable {
    private var provider: Provider?
    private var status: Int?
    private var send: String?
    private var digest: TokenDigest?
    private var since: Int64?
    /// The maximum number of entries.
    let limit: Int

    /// Parses a query: `provider`, `status`, `send`, `token` (with `provider`), `since` (nanoseconds), `limit`. Returns
    /// nil when it is malformed.
    package init?(_ query: [String: String]) {
        let known: Set<String> = ["provider", "status", "send", "token", "since", "limit"]
        guard known.isSuperset(of: query.keys) else { return nil }
        if let name = query["provider"] {
            guard let provider = Provider(name: name) else { return nil }
            self.provider = provider
        }
        if let text = query["status"] {
            guard let status = Int(text) else { return nil }
            self.status = status
        }
        if let text = query["since"] {
            guard let since = Int64(text) else { return nil }
            self.since = since
        }
        if let token = query["token"] {
            guard let provider else { return nil }
            self.digest = TokenDigest(token, provider: provider)
        }
        self.send = query["send"]
        guard let limit = Int(query["limit"] ?? String(Int.max)), limit >= 0 else { return nil }
        self.limit = limit
    }

    func accepts(_ entry: LedgerEntry) -> Bool {
        (self.provider ?? entry.provider) == entry.provider && (self.status ?? entry.status) == entry.status
            && (self.since ?? entry.timeNanoseconds) <= entry.timeNanoseconds
            && (self.digest ?? entry.digest) == entry.digest
            && (self.send ?? entry.send) == entry.send
    }
}

/// Writes flat JSON objects, one per line, into a buffer.
struct LineWriter {
    private(set) var bytes: [UInt8] = []
    private var isFirst = true

    mutating func begin() {
        self.bytes.append(0x7b)
        self.isFirst = true
    }

    mutating func end() { self.bytes.append(contentsOf: [0x7d, 0x0a]) }

    private mutating func name(_ name: String) {
        if !self.isFirst { self.bytes.append(0x2c) }
        self.isFirst = false
        JSONWriter.append(string: name, to: &self.bytes)
        self.bytes.append(0x3a)
    }

    mutating func member(_ name: String, _ text: String) {
        self.name(name)
        JSONWriter.append(string: text, to: &self.bytes)
    }

    mutating func member(_ name: String, _ value: Int64) {
        self.name(name)
        self.bytes.append(contentsOf: String(value).utf8)
    }

    mutating func take() -> [UInt8] {
        defer { self.bytes = [] }
        return self.bytes
    }
}
