/// Who was sent what.
public struct SendAndToken: Hashable, Sendable {
    /// The send that the payload names; empty: none.
    public let send: String
    /// As in ``LedgerEntry/token``.
    public let token: String

    /// A pair.
    public init(send: String, token: String) {
        self.send = send
        self.token = token
    }
}

/// The ledger at one moment.
public struct LedgerSnapshot: Sendable {
    let shards: [LedgerPages]

    /// Entries in all.
    public var count: Int { self.shards.reduce(0) { $0 + $1.count } }

    /// Goes through all entries, shard by shard.
    public func visit<Failure: Error>(_ body: (LedgerEntry) throws(Failure) -> Void) throws(Failure) {
        for shard in self.shards {
            for page in shard.pages {
                for entry in page { try body(LedgerEntry(entry, in: shard)) }
            }
        }
    }

    /// All entries; for tests and small numbers.
    public var entries: [LedgerEntry] {
        var entries: [LedgerEntry] = []
        entries.reserveCapacity(self.count)
        self.visit { entries.append($0) }
        return entries
    }

    /// How often each token was accepted for each send. More than once: somebody saw it twice (or it replaced itself).
    public var accepted: [SendAndToken: Int] {
        var counts: [SendAndToken: Int] = [:]
        self.visit { entry in
            guard entry.isAccepted else { return }
            counts[SendAndToken(send: entry.send ?? "", token: entry.token), default: 0] += 1
        }
        return counts
    }

    /// The numbers of each send, in the order of their names.
    public var sends: [SendTally] {
        var tallies: [String: SendTally] = [:]
        var seen: Set<SendAndDigest> = []
        self.visit { entry in
            let send = entry.send ?? ""
            var tally = tallies[send] ?? SendTally(send: send)
            tally.requests += 1
            tally.first = min(tally.first, entry.timeNanoseconds)
            tally.last = max(tally.last, entry.timeNanoseconds)
            if entry.isAccepted {
                tally.accepted += 1
                let isFirst = seen.insert(SendAndDigest(send: send, digest: entry.digest)).inserted
                if !isFirst { tally.repeated += 1 }
            }
            tallies[send] = tally
        }
        return tallies.values.sorted { $0.send < $1.send }
    }

    private struct SendAndDigest: Hashable {
        let send: String
        let digest: TokenDigest
    }

    /// The counters.
    public var summary: LedgerSummary {
        var summary = LedgerSummary()
        for shard in self.shards {
            for row in shard.statusTable {
                summary.statuses[row.route, default: [:]][row.status, default: 0] += row.count
            }
            for row in shard.faultTable { summary.faults[row.name, default: 0] += row.count }
            summary.connections += shard.connections
            summary.goAways += shard.goAways
        }
        summary.entries = self.count
        return summary
    }
}
