package import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusRedis
package import ApusStreams

/// Counts the entries that wait in each stream, for `apus lag` and the demo.
package struct StreamBacklog: Sendable {
    /// Describes one stream, or all of one kind.
    package struct Row: Hashable, Sendable {
        /// The name without its tag.
        package var name: String
        /// The shard's tag; empty for all shards.
        package var shard: String
        /// The number of entries that nobody has read: `XLEN − pending`.
        package var backlog: Int64
        /// The number of entries that were read and not finished; nil when the stream has no group.
        package var pending: Int64?
        /// The milliseconds since the oldest unfinished entry was published, or written if that is unknown; for
        /// scheduled entries, the delay of the first.
        package var oldestMilliseconds: Int64?
        /// The milliseconds until the first scheduled entry is due; negative when it is late.
        package var nextDueMilliseconds: Int64?
        /// The milliseconds until the last scheduled entry is due.
        package var latestDueMilliseconds: Int64?
        /// The number of paused sends that held entries belong to.
        package var sends: Int64?

        /// Creates a row.
        package init(
            name: String,
            shard: String,
            backlog: Int64,
            pending: Int64? = nil,
            oldestMilliseconds: Int64? = nil,
        ) {
            self.name = name
            self.shard = shard
            self.backlog = backlog
            self.pending = pending
            self.oldestMilliseconds = oldestMilliseconds
        }

        /// The row as JSON.
        package var json: JSONObject {
            var object: JSONObject = ["stream": .string(self.name)]
            if !self.shard.isEmpty { object["shard"] = .string(self.shard) }
            object["backlog"] = .integer(self.backlog)
            if let pending { object["pending"] = .integer(pending) }
            if let oldestMilliseconds { object["oldest_ms"] = .integer(oldestMilliseconds) }
            if let nextDueMilliseconds { object["next_due_ms"] = .integer(nextDueMilliseconds) }
            if let latestDueMilliseconds { object["latest_due_ms"] = .integer(latestDueMilliseconds) }
            if let sends { object["sends"] = .integer(sends) }
            return object
        }

        /// The app of the route that the stream belongs to; nil when all apps share it.
        package var app: String?

        /// True when the stream holds nothing.
        package var isEmpty: Bool { self.backlog == 0 && self.pending ?? 0 == 0 }

        /// The remarks that no column shows.
        fileprivate var note: String {
            var parts: [String] = []
            if let nextDueMilliseconds, nextDueMilliseconds >= 0 {
                parts.append("next in \(NumberText.age(milliseconds: nextDueMilliseconds))")
            }
            if let latestDueMilliseconds, latestDueMilliseconds >= 0 {
                parts.append("last in \(NumberText.age(milliseconds: latestDueMilliseconds))")
            }
            if let sends, sends > 0 { parts.append("of \(NumberText.grouped(sends)) paused sends") }
            return parts.joined(separator: ", ")
        }

        fileprivate mutating func add(_ row: Row) {
            func combined(_ one: Int64?, _ other: Int64?, _ combine: (Int64, Int64) -> Int64) -> Int64? {
                guard let one, let other else { return one ?? other }
                return combine(one, other)
            }
            self.backlog += row.backlog
            self.pending = combined(self.pending, row.pending, +)
            self.oldestMilliseconds = combined(self.oldestMilliseconds, row.oldestMilliseconds, max)
            self.nextDueMilliseconds = combined(self.nextDueMilliseconds, row.nextDueMilliseconds, min)
            self.latestDueMilliseconds = combined(self.latestDueMilliseconds, row.latestDueMilliseconds, max)
            self.sends = combined(self.sends, row.sends, +)
        }
    }

    /// The name of the row of dead letters, which wait for an operator.
    package static let deadLetters = "dead"
    /// The name of the row of retries and scheduled sends.
    package static let due = "due"
    /// The name of the row of sends that have a ledger and are not complete.
    package static let openSends = "sends"

    private let streams: SendStreams
    private let client: RedisClient
    private let keyspace: Keyspace
    private let reach: Reachability

    /// Creates a survey of an installation's streams.
    ///
    /// - Parameter reach: the parts of the installation to look at; nil for all.
    package init(_ streams: SendStreams, within reach: Reachability? = nil) {
        self.streams = streams
        self.client = streams.client
        self.keyspace = streams.keyspace
        self.reach = reach ?? Reachability(shards: streams.keyspace.queueShards)
    }

    /// Returns the rows of all streams of the shards that answer, shard by shard.
    ///
    /// - Parameter known: the routes, when they have been read already.
    package func rows(among known: [NumberedRoute]? = nil) async throws -> [Row] {
        if let known { return try await self.rows(of: known) }
        return try await self.rows(of: InstallationCopies(self.client).routes(of: self.streams))
    }

    private func rows(of routes: [NumberedRoute]) async throws -> [Row] {
        let publishers = try await self.reach.has(.publishers) ? self.streams.publishers.all() : []
        var rows: [Row] = []
        for shard in self.reach.shards {
            let keys = StreamKeys(tag: self.keyspace.tag(shard: shard))
            let now = try await self.now(keys.tag)
            for lane in Lane.allCases {
                for mailbox in keys.mailboxes(lane, publishers) {
                    rows.append(try await self.row(mailbox, StreamGroup.dispatcher, keys, now))
                }
            }
            for route in routes {
                let (number, route) = (route.number, route.name)
                var plan = try await self.row(keys.plan(number), StreamGroup.dispatcher, keys, now)
                let app = route.split(separator: "/").first.map { String($0) }
                plan.name = "plan \(route)"
                plan.app = app
                rows.append(plan)
                for lane in Lane.allCases {
                    var row = try await self.row(keys.work(number, lane), StreamGroup.dispatcher, keys, now)
                    row.name = "work \(route) \(lane.name)"
                    row.app = app
                    rows.append(row)
                }
            }
            rows.append(try await self.due(keys, now))
            rows.append(try await self.held(keys))
            rows.append(try await self.row(keys.outcomes, StreamGroup.feedback, keys, now))
            rows.append(try await self.row(keys.events, StreamGroup.feedback, keys, now))
            rows.append(try await self.row(keys.register, StreamGroup.registration, keys, now))
            var dead = try await self.row(keys.dead, nil, keys, now)
            dead.name = Self.deadLetters
            rows.append(dead)
            rows.append(try await self.openSends(keys))
        }
        return rows
    }

    /// Returns one row for each kind of stream, over all shards, in the order of their first rows.
    package static func totals(_ rows: [Row]) -> [Row] {
        var order: [String] = []
        var totals: [String: Row] = [:]
        for row in rows {
            guard var total = totals[row.name] else {
                var first = row
                first.shard = ""
                totals[row.name] = first
                order.append(row.name)
                continue
            }
            total.add(row)
            totals[row.name] = total
        }
        return order.compactMap { totals[$0] }
    }

    /// Returns the rows as a table and, unless they are asked for, the number of streams that hold nothing instead of their rows.
    ///
    /// - Parameter app: the app to whose routes the rows belong; nil for all streams.
    package static func lines(_ rows: [Row], withEmpty: Bool, of app: AppID? = nil) -> [String] {
        let shown = rows.filter { withEmpty || !$0.isEmpty }
        let hidden = rows.count - shown.count
        let rest = hidden > 0 ? ["\(hidden) others hold nothing: --all shows them"] : []
        guard shown.isEmpty else { return Self.table(shown).lines + rest }
        return [
            app.map { "no stream of the routes of \($0) holds anything; those that all apps share are in apus lag" }
                ?? "no stream holds anything"
        ]
    }

    /// Returns the rows as a table.
    package static func table(_ rows: [Row]) -> TextTable {
        let hasShards = rows.contains { !$0.shard.isEmpty }
        let hasNotes = rows.contains { !$0.note.isEmpty }
        let titles = [">BACKLOG", ">PENDING", ">OLDEST"] + (hasNotes ? ["NOTE"] : [])
        var table = TextTable(["STREAM"] + (hasShards ? ["SHARD"] : []) + titles)
        for row in rows {
            table.add(
                [row.name] + (hasShards ? [row.shard] : [])
                    + [
                        NumberText.grouped(row.backlog), row.pending.map { NumberText.grouped($0) } ?? "",
                        row.oldestMilliseconds.map { NumberText.age(milliseconds: $0) } ?? "",
                    ] + (hasNotes ? [row.note] : [])
            )
        }
        return table
    }

    // MARK: Reading

    private func row(
        _ key: String,
        _ group: String?,
        _ keys: StreamKeys,
        _ now: Int64,
    ) async throws -> Row {
        let name = String(key.dropFirst(keys.tag.description.count))
        let length = try await self.send(RedisCommand("XLEN", .text(key)), keys.tag).root.integer ?? 0
        var row = Row(name: name, shard: keys.tag.description, backlog: length)
        // Finished entries are deleted, so the first entry is the oldest unfinished one.
        let first = try await self.send(RedisCommand("XRANGE", .text(key), "-", "+", "COUNT", 1), keys.tag)
        if let entry = first.root.element(0), let id = entry.element(0)?.string {
            let published = Self.published(entry.element(1)?.element(1)?.bytes ?? [], name)
            if let began = published ?? Int64(id.prefix { $0 != "-" }) { row.oldestMilliseconds = max(0, now - began) }
        }
        guard let group else { return row }
        do {
            let pending = try await self.send(RedisCommand("XPENDING", .text(key), .text(group)), keys.tag)
            row.pending = pending.root.element(0)?.integer ?? 0
        } catch let error as RedisError where error.isGroupGone {
            // This stream has not been read yet.
            row.pending = 0
        }
        row.backlog = max(0, length - (row.pending ?? 0))
        return row
    }

    private func due(_ keys: StreamKeys, _ now: Int64) async throws -> Row {
        let count = try await self.send(RedisCommand("ZCARD", .text(keys.due)), keys.tag).root.integer ?? 0
        var row = Row(name: Self.due, shard: keys.tag.description, backlog: count)
        func time(_ index: Int64) async throws -> Int64? {
            let command = RedisCommand("ZRANGE", .text(keys.due), .integer(index), .integer(index), "WITHSCORES")
            return try await self.send(command, keys.tag).root.element(1)?.string.flatMap { Int64($0) }
        }
        if let next = try await time(0) {
            row.nextDueMilliseconds = next - now
            if next < now { row.oldestMilliseconds = now - next }
        }
        if let latest = try await time(-1) { row.latestDueMilliseconds = latest - now }
        return row
    }

    private func held(_ keys: StreamKeys) async throws -> Row {
        let counts = try await self.send(RedisCommand("HVALS", .text(keys.heldCounts)), keys.tag).root.children
            .map { Int64($0.string ?? "") ?? 0 }
        var row = Row(name: "held", shard: keys.tag.description, backlog: counts.reduce(0, +))
        row.sends = Int64(counts.count)
        return row
    }

    /// Counts sends that have a ledger and are not complete: audience sends, and small ones with retries.
    private func openSends(_ keys: StreamKeys) async throws -> Row {
        let count = try await self.send(RedisCommand("SCARD", .text(keys.openSends)), keys.tag).root.integer ?? 0
        return Row(name: Self.openSends, shard: keys.tag.description, backlog: count)
    }

    /// Returns the time at which the first message of a stream was published, in milliseconds since 1970; nil when it holds none.
    private static func published(_ message: [UInt8], _ name: String) -> Int64? {
        let nanoseconds: Int64 =
            switch name.prefix(while: { $0 != ":" }) {
            case "in": (try? SendCommand.decode(message).publishedAtNanoseconds) ?? 0
            case "work": (try? WorkUnit.decode(message).publishedAtNanoseconds) ?? 0
            default: 0
            }
        return nanoseconds > 0 ? nanoseconds / 1_000_000 : nil
    }

    private func now(_ tag: HashTag) async throws -> Int64 {
        let time = try await self.send(RedisCommand("TIME"), tag).root
        return (time.element(0)?.integer ?? 0) * 1_000 + (time.element(1)?.integer ?? 0) / 1_000
    }

    private func send(_ command: RedisCommand, _ tag: HashTag) async throws -> RESPReply {
        try await self.client.send(command, on: tag, options: .idempotent)
    }
}
