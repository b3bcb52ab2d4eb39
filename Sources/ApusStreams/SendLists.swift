package import ApusCore
package import ApusMessages
package import ApusRedis

/// Names a place in the list of an app's sends, which runs from the last accepted to the first.
package struct SendListCursor: Hashable, Sendable, Comparable, CustomStringConvertible {
    /// The time at which the send at that place was accepted.
    package var acceptedAt: UnixMilliseconds
    /// The send at that place.
    package var send: String

    /// Creates the place of a send.
    package init(acceptedAt: UnixMilliseconds, send: String) {
        self.acceptedAt = acceptedAt
        self.send = send
    }

    /// Parses a cursor's text; nil when it is none.
    package init?(_ text: String) {
        let parts = text.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, let time = Int64(parts[0]), time >= 0, (try? SendID(String(parts[1]))) != nil else {
            return nil
        }
        self.init(acceptedAt: UnixMilliseconds(time), send: String(parts[1]))
    }

    /// The text that a caller comes back with.
    package var description: String { "\(self.acceptedAt.value)-\(self.send)" }

    /// Returns true when the first place is later in the list, so its send was accepted earlier.
    package static func < (one: SendListCursor, other: SendListCursor) -> Bool {
        guard one.acceptedAt == other.acceptedAt else { return one.acceptedAt < other.acceptedAt }
        // As Redis orders members of one score.
        return one.send.utf8.lexicographicallyPrecedes(other.send.utf8)
    }
}

/// Holds sends of an app, the last accepted first.
package struct SendListPage: Hashable, Sendable {
    /// A send in the list.
    package struct Row: Hashable, Sendable {
        /// Its place in the list.
        package var place: SendListCursor
        /// Its state and counts.
        package var ledger: SendLedger
        /// The tag of the shard that keeps it.
        package var tag: HashTag
        /// The send's id.
        package var send: String { self.place.send }
    }

    /// The sends. They may be fewer than asked for, although more follow.
    package var rows: [Row]
    /// The place to continue from; nil at the end.
    package var next: SendListCursor?

    /// Creates a page.
    package init(rows: [Row], next: SendListCursor?) {
        self.rows = rows
        self.next = next
    }

    /// Merges the lists of all shards into one page. It is pure.
    ///
    /// A shard that has looked no further than its `next` may have more sends behind that place, so the page ends at the first such place.
    package init(merging parts: [SendListPage], limit: Int) {
        let frontier = parts.compactMap(\.next).max()
        let known = parts.flatMap(\.rows).filter { row in frontier.map { row.place >= $0 } ?? true }
            .sorted { $0.place > $1.place }
        self.rows = Array(known.prefix(limit))
        self.next = known.count > limit ? self.rows.last?.place : frontier
    }
}

/// Lists the sends of an app that have a ledger: sends to audiences and to many names, and direct ones with retries.
package struct SendLists: Sendable {
    let access: StreamAccess

    /// Names a state that sends may be listed by.
    package enum State: String, CaseIterable, Sendable {
        /// The time of the send has not come yet.
        case scheduled
        /// Its recipients are still being found.
        case planning
        /// It is being sent.
        case running
        /// An operator holds it.
        case paused
        /// It was stopped for good.
        case cancelled
        /// Every recipient has its outcome.
        case done
    }

    /// Returns a page of an app's sends, the last accepted first.
    ///
    /// - Parameters:
    ///   - limit: the maximum of sends, up to `StreamLimits.sendsPerPageMax`.
    ///   - cursor: the place to continue from; nil to begin.
    ///   - state: the state of the sends; nil for any.
    ///   - search: a part of their ids; empty for any.
    package func page(
        of app: AppID,
        limit: Int,
        from cursor: SendListCursor? = nil,
        state: State? = nil,
        search: String = "",
    ) async throws -> SendListPage {
        precondition((1...StreamLimits.sendsPerPageMax).contains(limit))
        // Sends are spread evenly, so each shard's share and three standard deviations nearly always fill the page.
        let mean = Double(limit) / Double(self.access.keyspace.queueShards)
        let share = Int(mean + 3 * mean.squareRoot()) + 4
        if state == nil, search.isEmpty, share < limit {
            let parts = try await self.parts(of: app, limit: share, from: cursor, state: nil, search: "")
            let page = SendListPage(merging: parts, limit: limit)
            if page.rows.count == limit || page.next == nil { return page }
        }
        let parts = try await self.parts(of: app, limit: limit, from: cursor, state: state, search: search)
        return SendListPage(merging: parts, limit: limit)
    }

    /// Returns the part of each shard, of up to so many sends each.
    private func parts(
        of app: AppID,
        limit: Int,
        from cursor: SendListCursor?,
        state: State?,
        search: String,
    ) async throws -> [SendListPage] {
        let access = self.access
        return try await withThrowingTaskGroup(of: SendListPage.self) { group in
            for shard in 0..<access.keyspace.queueShards {
                let keys = access.keys(shard: shard)
                let call = ListSendsCall(
                    keys: [keys.sends(of: app.text)],
                    app: app.text,
                    limit: limit,
                    before: cursor,
                    state: state?.rawValue ?? "",
                    search: search,
                )
                group.addTask { try Self.page(try await access.call(call, on: keys.tag), keys.tag) }
            }
            var parts: [SendListPage] = []
            for try await part in group { parts.append(part) }
            return parts
        }
    }

    /// Returns a direct send whose id somebody searches for, since lists have only sends with a ledger; nil when there is none of exactly
    /// that id, or it has a ledger.
    package func direct(_ search: String, of app: AppID, now: UnixMilliseconds) async throws -> SendStatus? {
        guard let send = try? SendID(search) else { return nil }
        let outcomes = Outcomes(access: self.access)
        guard try await outcomes.ledger(app: app.text, send: send.text) == nil else { return nil }
        return try await outcomes.status(app: app, send: send, now: now)
    }

    /// Returns the direct sends of an app that ended last, and commands that were refused, the last first, as receipts in the shards' own
    /// streams have them. Those whose receipts went to another stream, or that wanted none, are not among them.
    ///
    /// - Parameter limit: the maximum of sends, up to `StreamLimits.receiptsPerShardMax`.
    package func latestDirect(of app: AppID, limit: Int) async throws -> [(at: UnixMilliseconds, status: SendStatus)] {
        precondition((1...StreamLimits.receiptsPerShardMax).contains(limit))
        let access = self.access
        let found = try await withThrowingTaskGroup(of: [(at: UnixMilliseconds, status: SendStatus)].self) { group in
            for shard in 0..<access.keyspace.queueShards {
                let keys = access.keys(shard: shard)
                group.addTask { try await Self.ended(of: app, in: keys, access) }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        let outcomes = Outcomes(access: access)
        var latest: [(at: UnixMilliseconds, status: SendStatus)] = []
        for entry in found.sorted(by: { $0.at > $1.at }) where latest.count < limit {
            // A send with retries has a ledger, and is in the list.
            if try await outcomes.ledger(app: app.text, send: entry.status.send) == nil { latest.append(entry) }
        }
        return latest
    }

    /// Returns the states in the newest receipts of a shard that may be those of direct sends.
    private static func ended(
        of app: AppID,
        in keys: StreamKeys,
        _ access: StreamAccess,
    ) async throws -> [(at: UnixMilliseconds, status: SendStatus)] {
        let command = RedisCommand(
            "XREVRANGE",
            .text(keys.receipts),
            "+",
            "-",
            "COUNT",
            .integer(StreamLimits.receiptsPerShardMax)
        )
        return try await access.send(command, on: keys.tag).elements().compactMap { entry in
            guard let time = Int64(try entry[0].text().prefix { $0 != "-" }),
                let receipt = try? SendReceipt.decode(entry[1][1].blob()), receipt.app == app.text,
                receipt.planned <= Limits.directRecipientsMax, let status = SendStatus(receipt: receipt),
                status.dryRun == nil
            else { return nil }
            return (at: UnixMilliseconds(time), status: status)
        }
    }

    /// Returns the command of a send, also of one that has ended if it was small; nil when it is not kept.
    ///
    /// - Parameter tag: the tag of the shard that keeps the send.
    package func command(of send: SendKey, tag: HashTag) async throws -> SendCommand? {
        let keys = StreamKeys(tag: tag)
        for key in [keys.command(send), keys.sent(send)] {
            let answer = try await self.access.send(RedisCommand("GET", .text(key)), on: tag)
            if !answer.isNull { return try SendCommand.decode(answer.blob()) }
        }
        return nil
    }

    /// Returns sends of some shards that have not ended, with their ledgers, as many as one read of each shard brings.
    package func open(in shards: [Int]) async throws -> [(send: SendKey, ledger: SendLedger)] {
        let access = self.access
        return try await withThrowingTaskGroup(of: [(SendKey, SendLedger)].self) { group in
            for shard in shards {
                let keys = access.keys(shard: shard)
                group.addTask {
                    let command = RedisCommand(
                        "SSCAN",
                        .text(keys.openSends),
                        "0",
                        "COUNT",
                        .integer(StreamLimits.openSendsPerRead)
                    )
                    var found: [(SendKey, SendLedger)] = []
                    for name in try await access.send(command, on: keys.tag)[1].texts() {
                        guard let send = SendKey(name),
                            let ledger = try await access.ledger(keys.send(send), tag: keys.tag)
                        else { continue }
                        found.append((send, ledger))
                    }
                    return found
                }
            }
            var found: [(send: SendKey, ledger: SendLedger)] = []
            for try await part in group { found += part.map { (send: $0.0, ledger: $0.1) } }
            return found
        }
    }

    private static func page(_ answer: RESPNode, _ tag: HashTag) throws -> SendListPage {
        let rows = try answer[0].elements().compactMap { row -> SendListPage.Row? in
            guard let time = Int64(try row[1].text()), let ledger = SendLedger(fields: try row[2].pairs()) else {
                return nil
            }
            let place = SendListCursor(acceptedAt: UnixMilliseconds(time), send: try row[0].text())
            return SendListPage.Row(place: place, ledger: ledger, tag: tag)
        }
        let next = Int64(try answer[1][0].text()).map {
            SendListCursor(acceptedAt: UnixMilliseconds($0), send: answer[1][1].string ?? "")
        }
        return SendListPage(rows: rows, next: next)
    }
}

struct ListSendsCall: FunctionCall {
    static let function = "apus2_list_sends"
    static let isReadOnly = true
    var keys: [String]
    var app: String
    var limit: Int
    var before: SendListCursor?
    var state: String
    var search: String

    func set(_ fields: inout CallFields) {
        fields.set("app", self.app)
        fields.set("limit", self.limit)
        fields.set("before_ms", optional: self.before?.acceptedAt.value)
        fields.set("before_send", self.before?.send ?? "", default: "")
        fields.set("state", self.state, default: "")
        fields.set("search", self.search, default: "")
    }
}
