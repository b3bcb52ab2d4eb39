internal import ApusCore
internal import ApusMetrics
internal import ApusRedis
internal import ApusStreams

/// Queries the length of one stream and the age of its oldest entries. No stream is scanned.
struct StreamQuery: Sendable {
    /// The kind of stream, which names the group that reads it.
    let label: StreamLabel
    /// The tag of its shard.
    let tag: HashTag
    /// The stream.
    let key: String

    /// The options for a single attempt: whoever asks must be told of an unreachable Redis at once, and gives up by itself, because a command
    /// whose time runs out ends a connection that others wait on.
    private static let options = RedisClient.Options(isIdempotent: true, patience: .zero)

    /// Returns the time of the server of a shard, by which its entries are dated and its retries are due.
    static func now(_ client: RedisClient, at tag: HashTag) async throws -> UnixMilliseconds {
        let reply = try await client.send(RedisCommand("TIME"), on: tag, options: Self.options)
        guard let seconds = reply.root.element(0)?.integer, let microseconds = reply.root.element(1)?.integer else {
            throw reply.unexpected("a time")
        }
        return UnixMilliseconds(seconds * 1_000 + microseconds / 1_000)
    }

    /// Asks Redis, with four commands at most.
    ///
    /// - Parameter now: the time of the server, which decides which retries and scheduled sends are due.
    func count(_ client: RedisClient, now: UnixMilliseconds) async throws -> StreamCount {
        self.label == .due ? try await self.due(client, now: now) : try await self.stream(client)
    }

    /// Queries a stream and the group that reads it. A missing one counts as empty.
    private func stream(_ client: RedisClient) async throws -> StreamCount {
        let group = GroupedStream(self.label).labelValues[1]
        async let length = self.send("XLEN", client)
        async let groups = self.groups(client)
        var count = StreamCount()
        count.length = try await length.root.integer ?? 0
        let state = try await groups.first { $0.name == group }
        count.pending = state?.pending ?? 0
        // Redis' own lag is unknown in a stream from which entries are deleted.
        count.backlog = max(0, count.length - count.pending)
        if count.pending > 0 {
            let pending = try await self.send("XPENDING", client, [.text(group)])
            count.oldestPending = Self.milliseconds(pending.root[1].string)
        }
        if count.backlog > 0 {
            let after = state.map { "(\($0.lastDelivered)" } ?? "-"
            let unread = try await self.send("XRANGE", client, [.text(after), "+", "COUNT", 1])
            count.oldestUnread = unread.root.count > 0 ? Self.milliseconds(unread.root[0][0].string) : nil
        }
        return count
    }

    private struct GroupState: Sendable {
        var name = ""
        var pending: Int64 = 0
        var lastDelivered = "0-0"
    }

    private func groups(_ client: RedisClient) async throws -> [GroupState] {
        let reply: RESPReply
        do throws(RedisError) {
            let command = RedisCommand("XINFO", "GROUPS", .text(self.key))
            reply = try await client.send(command, on: self.tag, options: Self.options)
        } catch {
            guard error.message == "ERR no such key" else { throw error }
            return []
        }
        return reply.root.children.map { fields in
            var state = GroupState()
            for index in stride(from: 0, to: fields.count - 1, by: 2) {
                switch fields[index].string {
                case "name": state.name = fields[index + 1].string ?? ""
                case "pending": state.pending = fields[index + 1].integer ?? 0
                case "last-delivered-id": state.lastDelivered = fields[index + 1].string ?? "0-0"
                default: break
                }
            }
            return state
        }
    }

    /// Queries retries and scheduled sends. Overdue entries count as unread; future ones count only as length.
    private func due(_ client: RedisClient, now: UnixMilliseconds) async throws -> StreamCount {
        var count = StreamCount()
        count.length = try await self.send("ZCARD", client).root.integer ?? 0
        guard count.length > 0 else { return count }
        count.backlog = try await self.send("ZCOUNT", client, ["-inf", .integer(now.value)]).root.integer ?? 0
        guard count.backlog > 0 else { return count }
        let first = try await self.send("ZRANGE", client, [0, 0, "WITHSCORES"])
        count.oldestUnread = first.root.count > 1 ? first.root[1].string.flatMap { Int64($0) } : nil
        return count
    }

    private func send(
        _ command: String,
        _ client: RedisClient,
        _ arguments: [RedisArgument] = [],
    ) async throws(RedisError) -> RESPReply {
        let command = RedisCommand(command, [.text(self.key)] + arguments)
        return try await client.send(command, on: self.tag, options: Self.options)
    }

    /// Returns the time in an entry's id, at which it was written.
    private static func milliseconds(_ id: String?) -> Int64? {
        id.flatMap { Int64($0.prefix { $0 != "-" }) }
    }
}

/// The numbers of one stream, or of several together.
struct StreamCount: Sendable, Hashable {
    var length: Int64 = 0
    var pending: Int64 = 0
    var backlog: Int64 = 0
    /// The time at which the entry was written, in milliseconds; nil when there is none.
    var oldestUnread: Int64?
    var oldestPending: Int64?

    mutating func add(_ other: StreamCount) {
        self.length += other.length
        self.pending += other.pending
        self.backlog += other.backlog
        self.oldestUnread = [self.oldestUnread, other.oldestUnread].compactMap(\.self).min()
        self.oldestPending = [self.oldestPending, other.oldestPending].compactMap(\.self).min()
    }
}
