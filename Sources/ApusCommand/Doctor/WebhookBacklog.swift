package import ApusCore
internal import ApusRedis
package import ApusStreams
package import ApusTerminal

/// Shows the receipts that the webhook has not taken yet, over all shards: `apus lag`.
///
/// They stay in the receipts streams; a shard counts while somebody posts its receipts, that is while a consumer of its group asks for them.
/// The consumers of a process that was killed, or of a webhook that was taken out of the configuration, stay in the group and ask no more.
package struct WebhookBacklog: Sendable {
    /// The age from which a receipt that was not taken is worth a sentence: tries begin a second after each other.
    static let concernMilliseconds: Int64 = 15_000

    /// The age from which a receipt that was not taken is a failure.
    static let failureMilliseconds: Int64 = 300_000

    /// The maximum time since somebody who posts receipts last asked for some, or renewed the leases of those in hand: either is due within
    /// a minute.
    static let senderIdleMillisecondsMax: Int64 = 600_000

    /// The shards whose receipts are posted.
    private(set) var shards = 0
    /// The receipts that were read and not taken, and those behind them.
    private(set) var waiting: Int64 = 0
    /// The milliseconds since the oldest of them was written; nil when none waits.
    private(set) var oldestMilliseconds: Int64?

    /// Creates a backlog.
    init(shards: Int, waiting: Int64, oldestMilliseconds: Int64?) {
        (self.shards, self.waiting, self.oldestMilliseconds) = (shards, waiting, oldestMilliseconds)
    }

    /// Reads the backlog of an installation.
    ///
    /// - Parameter reach: the parts of the installation to look at; nil for all.
    package init(_ streams: SendStreams, within reach: Reachability? = nil) async throws {
        try await self.init(streams, within: reach, senderIdleMillisecondsMax: Self.senderIdleMillisecondsMax)
    }

    /// Reads the backlog of the shards in which a consumer was idle for that time at most.
    init(_ streams: SendStreams, within reach: Reachability? = nil, senderIdleMillisecondsMax: Int64) async throws {
        let reach = reach ?? Reachability(shards: streams.keyspace.queueShards)
        for shard in reach.shards {
            let keys = streams.keys(shard: shard)
            func send(_ command: RedisCommand) async throws -> RESPReply {
                try await streams.client.send(command, on: keys.tag, options: .idempotent)
            }
            let (groups, consumers): (RESPReply, RESPReply)
            do {
                groups = try await send(RedisCommand("XINFO", "GROUPS", .text(keys.receipts)))
                consumers = try await send(
                    RedisCommand("XINFO", "CONSUMERS", .text(keys.receipts), .text(StreamGroup.webhooks))
                )
            } catch let error as RedisError where error.isGroupGone || error.message == "ERR no such key" {
                // There is no stream yet, or no group.
                continue
            }
            let idle = consumers.root.children.compactMap { Self.member("idle", $0)?.integer }
            guard
                let group = groups.root.children.first(where: {
                    Self.member("name", $0)?.string == StreamGroup.webhooks
                }),
                idle.contains(where: { $0 <= senderIdleMillisecondsMax })
            else { continue }
            self.shards += 1
            let pending = Self.member("pending", group)?.integer ?? 0
            self.waiting += pending + (Self.member("lag", group)?.integer ?? 0)
            let after = Self.member("last-delivered-id", group)?.string ?? "0-0"
            let first = try await send(
                pending > 0
                    ? RedisCommand("XPENDING", .text(keys.receipts), .text(StreamGroup.webhooks))
                    : RedisCommand("XRANGE", .text(keys.receipts), .text("(\(after)"), "+", "COUNT", 1)
            )
            let id = pending > 0 ? first.root.element(1)?.string : first.root.element(0)?.element(0)?.string
            guard let written = id.flatMap({ Int64($0.prefix { $0 != "-" }) }) else { continue }
            let time = try await send(RedisCommand("TIME")).root
            let now = (time.element(0)?.integer ?? 0) * 1_000 + (time.element(1)?.integer ?? 0) / 1_000
            self.oldestMilliseconds = max(self.oldestMilliseconds ?? 0, now - written)
        }
    }

    /// Returns a field of a reply of names and values in turn.
    private static func member(_ name: String, _ reply: RESPNode) -> RESPNode? {
        let fields = Array(reply.children)
        guard let index = fields.firstIndex(where: { $0.string == name }), index + 1 < fields.count else { return nil }
        return fields[index + 1]
    }

    /// The backlog as JSON.
    package var json: JSONObject {
        var object: JSONObject = ["shards": .integer(self.shards), "waiting": .integer(self.waiting)]
        if let oldestMilliseconds { object["oldest_ms"] = .integer(oldestMilliseconds) }
        return object
    }

    /// A sentence about receipts that wait for longer than they should.
    package var concerns: [String] { self.findings.map { "\($0.subject): \($0.sentence)" } }

    /// The finding that receipts wait for longer than they should; none when they do not.
    package var findings: [Diagnosis.Finding] {
        guard let age = self.oldestMilliseconds, age >= Self.concernMilliseconds else { return [] }
        let count = NumberText.counted(self.waiting, "receipt waits", "receipts wait")
        let detail = "\(count), for \(NumberText.age(milliseconds: age)): feedback.webhook.url does not take them"
        let cure = "They are posted again; the log of apus-feedback says why they were not taken"
        return [.init(age > Self.failureMilliseconds ? .fail : .warn, .streams, "webhook", detail, cure: cure)]
    }
}
