public import ApusCore

/// A pair of a send and a token.
public struct SendAndToken: Hashable, Sendable {
    /// The send that the payload names; empty if it names none.
    public let send: String
    /// The token in the form of ``LedgerEntry/token``.
    public let token: String

    /// Creates a pair.
    public init(send: String, token: String) {
        self.send = send
        self.token = token
    }
}

/// The counters of one send.
public struct SendTally: Hashable, Sendable {
    /// The send's id; empty for requests without one.
    public let send: String
    /// The number of requests.
    public var requests = 0
    /// The number of accepted requests.
    public var accepted = 0
    /// The number of accepted requests whose token had been accepted before.
    public var repeated = 0
    /// The time of the first request in nanoseconds since 1970.
    public var first = Int64.max
    /// The time of the last request in nanoseconds since 1970.
    public var last = Int64.min

    init(send: String) { self.send = send }
}

/// A snapshot of the ledger.
public struct LedgerSnapshot: Sendable {
    let shards: [LedgerPages]

    /// The number of entries.
    public var count: Int { self.shards.reduce(0) { $0 + $1.count } }

    /// Visits all entries, shard by shard.
    public func visit<Failure: Error>(_ body: (LedgerEntry) throws(Failure) -> Void) throws(Failure) {
        for shard in self.shards {
            for page in shard.pages {
                for entry in page { try body(LedgerEntry(entry, in: shard)) }
            }
        }
    }

    /// Visits the accepted requests of one send, shard by shard, which is much cheaper than `visit`.
    ///
    /// - Parameter body: called with the token's digest, the time, and true when the answer was sent.
    package func visitAccepted(of send: String, _ body: (TokenDigest, Int64, Bool) -> Void) {
        let unanswered = [Fault.silence.code, Fault.drop.code, Fault.halfBody.code]
        for shard in self.shards {
            let number = shard.sends.number(named: send)
            for page in shard.pages {
                for entry in page where entry.send == number && entry.isAccepted {
                    body(shard.digest(of: entry), entry.time, !unanswered.contains(entry.fault))
                }
            }
        }
    }

    /// Visits the accepted requests of many sends, shard by shard, in one pass.
    ///
    /// - Parameters:
    ///   - position: returns the caller's number of a send, called once per send and shard; nil to skip the send.
    ///   - body: called with that number, the token's digest and the time.
    package func visitAccepted(_ position: (String) -> Int?, _ body: (Int, TokenDigest, Int64) -> Void) {
        for shard in self.shards {
            let positions = (0...shard.sends.count).map { number in
                shard.sends.bytes(UInt32(number)).flatMap { position(String(decoding: $0, as: UTF8.self)) }
            }
            for page in shard.pages {
                for entry in page where entry.isAccepted {
                    guard let number = positions[Int(entry.send)] else { continue }
                    body(number, shard.digest(of: entry), entry.time)
                }
            }
        }
    }

    /// Returns the time at which a request of each send was first accepted, in nanoseconds since 1970. Entries without a send are omitted.
    package var firstAcceptances: [String: Int64] {
        var firsts: [String: Int64] = [:]
        for shard in self.shards {
            var times = [Int64](repeating: .max, count: shard.sends.count + 1)
            for page in shard.pages {
                for entry in page where entry.isAccepted && entry.time < times[Int(entry.send)] {
                    times[Int(entry.send)] = entry.time
                }
            }
            for (number, time) in times.enumerated() where time < .max {
                guard let send = shard.sends.bytes(UInt32(number)) else { continue }
                firsts[String(decoding: send, as: UTF8.self), default: .max].lower(to: time)
            }
        }
        return firsts
    }

    /// All entries, for tests and small numbers.
    public var entries: [LedgerEntry] {
        var entries: [LedgerEntry] = []
        entries.reserveCapacity(self.count)
        self.visit { entries.append($0) }
        return entries
    }

    /// The number of acceptances of each token for each send. More than one means that a user saw the notification
    /// twice, or that it was replaced.
    public var accepted: [SendAndToken: Int] {
        var counts: [SendAndToken: Int] = [:]
        self.visit { entry in
            guard entry.isAccepted else { return }
            counts[SendAndToken(send: entry.send ?? "", token: entry.token), default: 0] += 1
        }
        return counts
    }

    /// The counters of each send, sorted by id.
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

    /// The numbers of accepted requests over time.
    public var timeline: AcceptanceTimeline {
        var timeline = AcceptanceTimeline()
        for shard in self.shards { timeline.add(shard.timeline) }
        return timeline
    }

    /// Returns the number of requests that were accepted since a time, to the nanosecond. It reads only later entries.
    ///
    /// - Parameters:
    ///   - since: the time in nanoseconds since 1970.
    ///   - provider: the provider; nil for any.
    ///   - send: the send; nil for any.
    public func acceptedCount(since: Int64, provider: Provider? = nil, send: String? = nil) -> Int {
        let routes = provider.map { SimulatedProviders.type(of: $0)?.traits.routes.map(\.number) ?? [] }
        return self.shards.reduce(0) { sum, shard in
            let number = send.map { shard.sends.number(named: $0) }
            var count = 0
            for page in shard.pages.reversed() {
                for entry in page.reversed() {
                    guard entry.time >= since else { return sum + count }
                    guard entry.isAccepted, number ?? entry.send == entry.send else { continue }
                    if routes?.contains(entry.route) ?? true { count += 1 }
                }
            }
            return sum + count
        }
    }

    /// The counters.
    public var summary: LedgerSummary {
        var summary = LedgerSummary()
        for shard in self.shards {
            for row in shard.statusTable {
                summary.statuses[row.route, default: [:]][row.status, default: 0] += row.count
            }
            summary.faults.merge(shard.faultCounts) { $0 + $1 }
            summary.connections += shard.connections
            summary.goAways += shard.goAways
        }
        summary.entries = self.count
        return summary
    }
}

extension Int64 {
    fileprivate mutating func lower(to other: Int64) { self = Swift.min(self, other) }
}
