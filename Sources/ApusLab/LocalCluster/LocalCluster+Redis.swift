internal import ApusCore
internal import ApusInstallation
internal import ApusRedis
internal import ApusStreams
internal import ApusTestKit

extension LocalCluster {
    /// The keys of a queue shard that need not be empty: they are for publishers and operators, have no reader yet, or are kept for a time.
    private static let keptNames: Set<String> = ["receipts", "dead", "claims", "events", "idem", "lost_ends"]
    private static let workNames: Set<String> = ["outcomes", "journal", "due", "due:messages"]
    private static let workPrefixes = ["in:", "plan:", "work:", "held:"]
    private static let keptPrefixes = [
        "send:", "sends:", "sent:", "idem:", "send_rate:", "paced:", "route:", "answers:", "bad_owners:",
        "dead_owners:", "new_bad_owners:", "new_dead_owners:", "event_counts:", "event_sends:",
        "swept", "channels", "installation",
    ]
    private static let lastingPrefixes = ["route:", "channels", "installation"]

    /// The time within which every node must know of a move.
    private static let gossipMax = Duration.seconds(30)

    /// Spreads the slots with data evenly over the masters of the Redis Cluster, as `apus cluster plan --apply` does.
    ///
    /// - Returns: the number of slots that were moved, and the duration of the slowest move.
    package func spreadSlots() async throws -> (moves: Int, longestMilliseconds: Int) {
        guard let redisCluster else { throw LocalClusterError("Redis is one server") }
        let data = DataSlots(self.installation.keyspace)
        let plan = try SlotPlan(try await redisCluster.table(), data)
        let mover = SlotMover(self.client)
        var longest = 0
        for move in plan.moves {
            let masters = try await redisCluster.table().nodes.filter { $0.isMaster && !$0.isFailed }
            guard let source = masters.first(where: { $0.id == move.source }),
                let target = masters.first(where: { $0.id == move.target })
            else { throw LocalClusterError("a master is gone in the middle of the plan") }
            let others = masters.filter { $0.id != source.id && $0.id != target.id }
            let start = ContinuousClock.now
            _ = try await mover.move(move.slot, from: source, to: target, others: others)
            longest = max(longest, Int((ContinuousClock.now - start) / .milliseconds(1)))
        }
        // The node that is asked for the table hears of the last moves from the others.
        let deadline = ContinuousClock.now + Self.gossipMax
        while true {
            let left = try SlotPlan(try await redisCluster.table(), data).moves.count
            if left == 0 { return (plan.moves.count, longest) }
            guard ContinuousClock.now < deadline else { throw LocalClusterError("\(left) slots are left to move") }
            try await Task.sleep(for: .milliseconds(100))
        }
    }

    /// Returns what each server that answers has refused to the services' users for want of rights, as `<user>: <command or key>`.
    package func refusedCommands() async -> Set<String> {
        guard self.configuration.hasRedisUsers else { return [] }
        var refused: Set<String> = []
        let options = RedisClient.Options(patience: .zero)
        for server in (try? await self.client.topology.servers(within: .zero)) ?? [] {
            let log = try? await self.client.send(RedisCommand("ACL", "LOG"), to: server, options: options)
            for entry in log?.root.children.map(\.self) ?? [] {
                var fields: [String: String] = [:]
                for index in stride(from: 0, to: entry.count - 1, by: 2) {
                    fields[entry[index].string ?? ""] = entry[index + 1].string
                }
                let user = fields["username"] ?? ""
                guard Self.users.contains(where: { $0.service == user }), fields["reason"] != "auth" else { continue }
                refused.insert("\(user): \(fields["object"] ?? "")")
            }
        }
        return refused
    }

    /// Returns the keys of a shard whose names without the tag are wanted, with their types.
    private func keys(
        of tag: HashTag,
        where isWanted: (String) -> Bool,
    ) async throws -> [(key: String, name: String, type: String)] {
        var (names, cursor) = (Set<String>(), "0")
        repeat {
            let scan = RedisCommand("SCAN", .text(cursor), "MATCH", .text("\(tag)*"), "COUNT", 10_000)
            let page = try await self.client.send(scan, on: tag).root
            names.formUnion(page[1].children.compactMap(\.string))
            cursor = try page[0].text()
        } while cursor != "0"
        var keys: [(String, String, String)] = []
        for key in names.sorted() {
            let name = String(key.dropFirst(tag.description.utf8.count))
            guard isWanted(name) else { continue }
            let type = try await self.client.send(RedisCommand("TYPE", .text(key)), on: tag).root.string ?? ""
            keys.append((key, name, type))
        }
        return keys
    }

    /// Counts what is left in the queue shards, by key; empty when all work is done. Streams count their entries, other
    /// keys their members; keys that are kept for a time count 1 when they have no expiry.
    package func remainingEntries() async throws -> [String: Int64] {
        try await self.contents { name in !Self.keptNames.contains(name) }
    }

    /// Counts unfinished work by key: entries that wait or are pending, journals, retries, and entries of paused sends.
    package func unfinishedEntries() async throws -> [String: Int64] {
        try await self.contents { name in
            Self.workNames.contains(name) || Self.workPrefixes.contains { name.hasPrefix($0) }
        }
    }

    private func contents(_ isWanted: (String) -> Bool) async throws -> [String: Int64] {
        var contents: [String: Int64] = [:]
        for shard in 0..<self.installation.keyspace.queueShards {
            let tag = self.installation.keyspace.tag(shard: shard)
            for (key, name, type) in try await self.keys(of: tag, where: isWanted) {
                if Self.keptPrefixes.contains(where: { name.hasPrefix($0) }) {
                    let lifetime = try await self.client.send(RedisCommand("PTTL", .text(key)), on: tag).root.integer
                    if lifetime == -1, !Self.lastingPrefixes.contains(where: { name.hasPrefix($0) }) {
                        contents[key] = 1
                    }
                    continue
                }
                let command: String
                switch type {
                case "stream": command = "XLEN"
                case "zset": command = "ZCARD"
                case "hash": command = "HLEN"
                case "list": command = "LLEN"
                case "set": command = "SCARD"
                case "string": command = "STRLEN"
                // The key has disappeared meanwhile.
                default: continue
                }
                contents[key] = try await self.client.send(RedisCommand(command, .text(key)), on: tag).root.integer
            }
        }
        return contents.filter { $0.value != 0 }
    }

    /// Counts stream entries that a process has read and not acknowledged.
    package func pendingEntries(of process: Int32) async throws -> Int {
        var count: Int64 = 0
        for shard in 0..<self.installation.keyspace.queueShards {
            let tag = self.installation.keyspace.tag(shard: shard)
            for (key, name, type) in try await self.keys(of: tag, where: { _ in true }) where type == "stream" {
                let group = name == "outcomes" || name == "events" ? StreamGroup.feedback : StreamGroup.dispatcher
                let command = RedisCommand("XINFO", "CONSUMERS", .text(key), .text(group))
                // A stream without the group has no pending entries.
                guard let reply = try? await self.client.send(command, on: tag) else { continue }
                for consumer in reply.root.children {
                    var name = ""
                    var pending: Int64 = 0
                    for index in stride(from: 0, to: consumer.count - 1, by: 2) {
                        switch consumer[index].string {
                        case "name": name = consumer[index + 1].string ?? ""
                        case "pending": pending = consumer[index + 1].integer ?? 0
                        default: break
                        }
                    }
                    if name.contains("-\(process)-") { count += pending }
                }
            }
        }
        return Int(count)
    }

    /// Counts retries and scheduled sends that are not due yet.
    package func waitingForTheirTime() async throws -> Int {
        var count: Int64 = 0
        for shard in 0..<self.installation.keyspace.queueShards {
            let keys = self.installation.streams.keys(shard: shard)
            count += try await self.client.send(RedisCommand("ZCARD", .text(keys.due)), on: keys.tag).root.integer ?? 0
        }
        return Int(count)
    }

    /// Makes all scheduled entries due now: providers require minutes between retries, a drill has seconds. Only the
    /// time is changed: the entries are moved as always.
    package func makeRetriesDue() async throws {
        for shard in 0..<self.installation.keyspace.queueShards {
            let keys = self.installation.streams.keys(shard: shard)
            let waiting = RedisCommand("ZRANGEBYSCORE", .text(keys.due), .text("(\(self.clock.now().value)"), "+inf")
            for id in try await self.client.send(waiting, on: keys.tag).root.children.compactMap(\.string) {
                let now = RedisCommand("ZADD", .text(keys.due), "XX", .integer(self.clock.now().value), .text(id))
                _ = try await self.client.send(now, on: keys.tag)
            }
        }
    }
}
