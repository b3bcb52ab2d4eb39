internal import ApusCore

/// Every request that the simulator judged: 64 bytes each, and the text of what is longer.
///
/// Thread-safe. Requests of one event loop are in order; between loops only their times tell.
public final class SimulatorLedger: Sendable {
    /// Bytes of an entry.
    package static let entryBytes = MemoryLayout<PackedEntry>.stride

    let shards: [LedgerShard]

    /// A ledger for so many event loops.
    ///
    /// - Parameters:
    ///   - keepsLongTokens: whether tokens of more than 32 bytes (FCM's) are kept, or only their digest.
    public init(shards: Int = 1, keepsLongTokens: Bool = true) {
        precondition(shards >= 1, "somebody writes")
        self.shards = (0..<shards).map { _ in LedgerShard(keepsLongTokens: keepsLongTokens) }
    }

    /// The part of one event loop.
    package func shard(_ index: Int) -> LedgerShard { self.shards[index % self.shards.count] }

    /// All that is in it now; later requests do not change it.
    public var snapshot: LedgerSnapshot { LedgerSnapshot(shards: self.shards.map(\.snapshot)) }

    /// Forgets everything.
    public func reset() { for shard in self.shards { shard.reset() } }
}

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

/// The numbers of one send.
public struct SendTally: Hashable, Sendable {
    /// Its id; empty: requests that name none.
    public let send: String
    /// All requests.
    public var requests = 0
    /// Those answered with 200.
    public var accepted = 0
    /// Accepted ones whose token had been accepted before.
    public var repeated = 0
    /// The first request: nanoseconds since 1970.
    public var first = Int64.max
    /// The last request: nanoseconds since 1970.
    public var last = Int64.min

    init(send: String) { self.send = send }
}

/// The ledger's counters.
public struct LedgerSummary: Hashable, Sendable {
    /// Entries.
    public var entries = 0
    /// Requests by status; 0: never answered.
    public var statuses: [FaultRoute: [Int: UInt64]] = [:]
    /// Requests that a fault struck, by its name.
    public var faults: [String: UInt64] = [:]
    /// Connections that were opened.
    public var connections: UInt64 = 0
    /// GOAWAYs that were said.
    public var goAways: UInt64 = 0

    /// Nothing counted.
    public init() {}

    /// Requests on a route that got that status.
    public func count(_ route: FaultRoute, status: Int) -> Int { Int(self.statuses[route]?[status] ?? 0) }

    /// Requests on a route.
    public func count(_ route: FaultRoute) -> Int { Int(self.statuses[route]?.values.reduce(0, +) ?? 0) }

    /// As one JSON object.
    package var json: [UInt8] {
        var object: JSONObject = ["entries": .integer(self.entries)]
        for route in FaultRoute.allCases {
            var counts = JSONObject()
            for (status, count) in (self.statuses[route] ?? [:]).sorted(by: { $0.key < $1.key }) {
                counts[status == 0 ? "unanswered" : String(status)] = .integer(count)
            }
            object[route.name] = .object(counts)
        }
        var faults = JSONObject()
        for (name, count) in self.faults.sorted(by: { $0.key < $1.key }) { faults[name] = .integer(count) }
        object["faults"] = .object(faults)
        object["connections"] = .integer(self.connections)
        object["go_aways"] = .integer(self.goAways)
        return JSONValue.object(object).bytes
    }
}
