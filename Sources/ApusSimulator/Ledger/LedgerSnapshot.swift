public import ApusCore

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

    /// Goes through what was accepted of one send, shard by shard: much cheaper than `visit`.
    ///
    /// - Parameter body: gets the token's digest, the time, and whether the answer was sent.
    package func visitAccepted(of send: String, _ body: (TokenDigest, Int64, Bool) -> Void) {
        let unanswered = [Fault.silence.code, Fault.drop.code, Fault.halfBody.code]
        for shard in self.shards {
            let number = shard.sends.number(named: send)
            for page in shard.pages {
                for entry in page where entry.send == number && entry.status == 200 {
                    body(shard.digest(of: entry), entry.time, !unanswered.contains(entry.fault))
                }
            }
        }
    }

    /// Goes through what was accepted of many sends, shard by shard, in one pass.
    ///
    /// - Parameters:
    ///   - position: the caller's number of a send, asked once per send and shard; nil: it is not looked at.
    ///   - body: gets that number, the token's digest and the time.
    package func visitAccepted(_ position: (String) -> Int?, _ body: (Int, TokenDigest, Int64) -> Void) {
        for shard in self.shards {
            let positions = (0...shard.sends.count).map { number in
                shard.sends.bytes(UInt32(number)).flatMap { position(String(decoding: $0, as: UTF8.self)) }
            }
            for page in shard.pages {
                for entry in page where entry.status == 200 {
                    guard let number = positions[Int(entry.send)] else { continue }
                    body(number, shard.digest(of: entry), entry.time)
                }
            }
        }
    }

    /// When each send was first accepted, in nanoseconds since 1970; without an entry that names no send. One pass.
    package var firstAcceptances: [String: Int64] {
        var firsts: [String: Int64] = [:]
        for shard in self.shards {
            var times = [Int64](repeating: .max, count: shard.sends.count + 1)
            for page in shard.pages {
                for entry in page where entry.status == 200 && entry.time < times[Int(entry.send)] {
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

    /// How many were accepted when.
    public var timeline: AcceptanceTimeline {
        var timeline = AcceptanceTimeline()
        for shard in self.shards { timeline.add(shard.timeline) }
        return timeline
    }

    /// How many requests were accepted since a time, to the nanosecond. Reads only what came since.
    ///
    /// - Parameters:
    ///   - since: nanoseconds since 1970.
    ///   - provider: nil: any.
    ///   - send: nil: any.
    public func acceptedCount(since: Int64, provider: Provider? = nil, send: String? = nil) -> Int {
        self.shards.reduce(0) { sum, shard in
            let number = send.map { shard.sends.number(named: $0) }
            var count = 0
            for page in shard.pages.reversed() {
                for entry in page.reversed() {
                    guard entry.time >= since else { return sum + count }
                    guard entry.status == 200, number ?? entry.send == entry.send else { continue }
                    switch provider {
                    case nil: count += 1
                    case .apns: if entry.route == FaultRoute.apns.rawValue { count += 1 }
                    case .fcm: if entry.route == FaultRoute.fcm.rawValue { count += 1 }
                    case .webpush: break
                    }
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
            summary.faults.merge(shard.faultTable) { $0 + $1 }
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
