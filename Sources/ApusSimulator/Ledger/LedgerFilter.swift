internal import ApusCore

/// Which entries are wanted.
package struct LedgerFilter: Sendable {
    private var provider: Provider?
    private var status: Int?
    private var send: String?
    private var digest: TokenDigest?
    private var since: Int64?
    /// Most entries.
    let limit: Int

    /// Reads a query: `provider`, `status`, `send`, `token` (with `provider`), `since` (nanoseconds), `limit`. nil: it is
    /// malformed.
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
