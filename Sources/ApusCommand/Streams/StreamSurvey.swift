package import ApusCore
internal import ApusInstallation
internal import ApusRedis
package import ApusStreams

/// How much waits in each stream: `apus lag`.
package struct StreamSurvey: Sendable {
    /// One stream, or all of one kind.
    package struct Row: Hashable, Sendable {
        /// The name without its tag.
        package var name: String
        /// The shard's tag; empty: all shards.
        package var shard: String
        /// Entries that nobody has read: `XLEN − pending`.
        package var backlog: Int64
        /// Entries that somebody has read and not finished; nil: the stream has no group.
        package var pending: Int64?
        /// Milliseconds since the oldest entry that is not finished was written.
        package var oldestMilliseconds: Int64?

        /// A row.
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

        /// As JSON.
        package var json: JSONObject {
            var object: JSONObject = ["stream": .string(self.name)]
            if !self.shard.isEmpty { object["shard"] = .string(self.shard) }
            object["backlog"] = .integer(self.backlog)
            if let pending { object["pending"] = .integer(pending) }
            if let oldestMilliseconds { object["oldest_ms"] = .integer(oldestMilliseconds) }
            return object
        }
    }

    private let client: RedisClient
    private let keyspace: Keyspace

    /// A survey of an installation's streams.
    package init(_ streams: SendStreams) {
        self.client = streams.client
        self.keyspace = streams.keyspace
    }

    /// Rows of all streams of all shards, shard by shard.
    package func rows() async throws -> [Row] {
        let routes = try await self.routes()
        var rows: [Row] = []
        for shard in 0..<self.keyspace.queueShards {
            let keys = StreamKeys(tag: self.keyspace.tag(shard: shard))
            let now = try await self.now(keys.tag)
            for lane in Lane.allCases {
                rows.append(try await self.row(keys.mailbox(lane), StreamGroup.dispatcher, keys, now))
            }
            rows.append(try await self.row(keys.plan, StreamGroup.dispatcher, keys, now))
            for (number, route) in routes {
                for lane in Lane.allCases {
                    var row = try await self.row(keys.work(number, lane), StreamGroup.dispatcher, keys, now)
                    row.name = "work \(route) \(lane.name)"
                    rows.append(row)
                }
            }
            rows.append(try await self.due(keys, now))
            rows.append(try await self.row(keys.outcomes, StreamGroup.feedback, keys, now))
            rows.append(try await self.row(keys.events, StreamGroup.feedback, keys, now))
            rows.append(try await self.row(keys.register, StreamGroup.registration, keys, now))
            rows.append(try await self.row(keys.dead, nil, keys, now))
        }
        return rows
    }

    /// One row for each kind of stream, over all shards, in the order of their first rows.
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
            total.backlog += row.backlog
            if let pending = row.pending { total.pending = (total.pending ?? 0) + pending }
            if let oldest = row.oldestMilliseconds {
                total.oldestMilliseconds = max(total.oldestMilliseconds ?? 0, oldest)
            }
            totals[row.name] = total
        }
        return order.compactMap { totals[$0] }
    }

    /// The rows as a table.
    package static func table(_ rows: [Row]) -> TextTable {
        let hasShards = rows.contains { !$0.shard.isEmpty }
        var table = TextTable(["STREAM"] + (hasShards ? ["SHARD"] : []) + [">BACKLOG", ">PENDING", ">OLDEST"])
        for row in rows {
            table.add(
                [row.name] + (hasShards ? [row.shard] : [])
                    + [
                        NumberText.grouped(row.backlog), row.pending.map { NumberText.grouped($0) } ?? "",
                        row.oldestMilliseconds.map { NumberText.age(milliseconds: $0) } ?? "",
                    ]
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
        // What is finished is deleted, so the first entry is the oldest that is not.
        let first = try await self.send(RedisCommand("XRANGE", .text(key), "-", "+", "COUNT", 1), keys.tag)
        if let id = first.root.element(0)?.element(0)?.string, let written = Int64(id.prefix { $0 != "-" }) {
            row.oldestMilliseconds = max(0, now - written)
        }
        guard let group else { return row }
        do {
            let pending = try await self.send(RedisCommand("XPENDING", .text(key), .text(group)), keys.tag)
            row.pending = pending.root.element(0)?.integer ?? 0
        } catch let error as RedisError where error.isGroupGone {
            // Nobody has read this stream yet.
            row.pending = 0
        }
        row.backlog = max(0, length - (row.pending ?? 0))
        return row
    }

    private func due(_ keys: StreamKeys, _ now: Int64) async throws -> Row {
        let count = try await self.send(RedisCommand("ZCARD", .text(keys.due)), keys.tag).root.integer ?? 0
        var row = Row(name: "due", shard: keys.tag.description, backlog: count)
        let command = RedisCommand("ZRANGE", .text(keys.due), 0, 0, "WITHSCORES")
        if let due = try await self.send(command, keys.tag).root.element(1)?.integer, due < now {
            row.oldestMilliseconds = now - due
        }
        return row
    }

    /// The numbers of routes and their names.
    private func routes() async throws -> [(RouteNumber, String)] {
        let tag = HashTag(ofKey: StreamKeys.routes)
        let reply = try await self.send(RedisCommand("HGETALL", .text(StreamKeys.routes)), tag)
        let texts = reply.root.children.map { $0.string ?? "" }
        var routes: [(RouteNumber, String)] = []
        for index in stride(from: 0, to: texts.count - 1, by: 2) where texts[index] != "#" {
            if let number = UInt32(texts[index + 1]) { routes.append((RouteNumber(number), texts[index])) }
        }
        return routes.sorted { $0.0 < $1.0 }
    }

    private func now(_ tag: HashTag) async throws -> Int64 {
        let time = try await self.send(RedisCommand("TIME"), tag).root
        return (time.element(0)?.integer ?? 0) * 1_000 + (time.element(1)?.integer ?? 0) / 1_000
    }

    private func send(_ command: RedisCommand, _ tag: HashTag) async throws -> RESPReply {
        try await self.client.send(command, on: tag, options: .idempotent)
    }
}
