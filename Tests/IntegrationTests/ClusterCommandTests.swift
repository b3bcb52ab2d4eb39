import ApusCore
import ApusInstallation
import ApusRedis
import ApusStreams
import ApusTestKit
import Logging
import NIOPosix
import Testing

/// `apus cluster`, and `apus init` and `apus acl` in a Redis Cluster, as an operator uses them.
@Suite(.serialized) struct ClusterCommandTests {
    private static let keyspace = Keyspace(queueShards: Keyspace.queueShardsOfCluster)

    private static func apus(_ cluster: RedisCluster, _ arguments: String...) throws -> OperatorProgram.Answer {
        try OperatorProgram.run(arguments + ["--redis", cluster.url])
    }

    /// Writes an entry into each slot that holds data.
    private static func fill(_ client: RedisClient) async throws {
        for tag in self.keyspace.shardTags + self.keyspace.partitionTags {
            let write = RedisCommand("XADD", .text("\(tag)probe"), "1-1", "tag", .text(tag.text))
            _ = try await client.send(write, on: tag)
        }
    }

    /// Returns the tags whose entry is not there exactly once.
    private static func missing(_ client: RedisClient) async throws -> [String] {
        var missing: [String] = []
        for tag in self.keyspace.shardTags + self.keyspace.partitionTags {
            let read = RedisCommand("XRANGE", .text("\(tag)probe"), "-", "+")
            let reply = try await client.send(read, on: tag, options: .idempotent).root
            if reply.count != 1 || reply.element(0)?.element(1)?.element(1)?.string != tag.text {
                missing.append(tag.text)
            }
        }
        return missing
    }

    /// Returns how many slots with data each master has.
    private static func totals(_ cluster: RedisCluster) async throws -> [RedisEndpoint: Int] {
        let plan = try SlotPlan(try await cluster.table(), DataSlots(self.keyspace))
        return Dictionary(uniqueKeysWithValues: plan.masters.map { ($0.endpoint, plan.before[$0.id]?.total ?? 0) })
    }

    @Test func `A master joins, gets its share of the slots with data, gives it back and leaves, and nothing is lost`()
        async throws
    {
        try await RedisCluster.with(masters: 3, replicas: 1, spares: 1) { cluster in
            let made = try Self.apus(cluster, "init", "--json")
            #expect(made.code == 0 && made.json?["queue_shards"]?.int64 == 60, "\(made.talk)")
            let client = try RedisClient(
                configuration: RedisConfiguration(url: cluster.url),
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            )
            try await Self.fill(client)
            let well = try Self.apus(cluster, "cluster", "status")
            #expect(well.code == 0, "\(well.lines) \(well.talk)")
            #expect(well.lines.count { $0.contains("replica") && $0.contains(" ok ") } == 3)
            #expect(try Self.apus(cluster, "cluster", "plan").lines.last?.hasPrefix("nothing to move") == true)

            // The new one has neither functions nor slots.
            let spare = cluster.spares[0]
            let place = "127.0.0.1:\(spare.port)"
            try await cluster.join(spare)
            let status = try Self.apus(cluster, "cluster", "status")
            #expect(
                status.code == 2
                    && status.lines.contains { $0.contains(place) && $0.contains("none of Apus' functions") }
            )
            let refused = try Self.apus(cluster, "cluster", "plan", "--apply")
            #expect(refused.code == 1 && refused.talk.contains("run apus init first"), "\(refused.talk)")
            #expect(try await Self.totals(cluster)[RedisCluster.endpoint(spare)] == 0)

            // Without sizes, those of the installation count.
            #expect(try Self.apus(cluster, "init").code == 0)
            // A move that somebody has begun by hand is ended first.
            let plan = try SlotPlan(try await cluster.table(), DataSlots(Self.keyspace))
            let begun = try #require(plan.moves.first)
            let source = try await cluster.owner(ofSlot: begun.slot)
            try await cluster.beginMove(of: begun.slot, from: source, to: spare)
            #expect(try await cluster.moveKeys(of: begun.slot, count: 1, from: source, to: spare) == 1)
            let half = try Self.apus(cluster, "cluster", "status")
            #expect(half.code == 2 && half.lines.contains { $0.contains("begun and not ended") }, "\(half.lines)")
            let applied = try Self.apus(cluster, "cluster", "plan", "--apply", "--json")
            #expect(applied.code == 0 && applied.json?["unfinished"]?.int64 == 1, "\(applied.talk)")
            #expect(applied.talk.contains("\(plan.moves.count)/\(plan.moves.count) slots"), "\(applied.talk)")
            let totals = try await Self.totals(cluster).values
            #expect((totals.max() ?? 0) - (totals.min() ?? 0) <= 1, "\(totals)")
            #expect(try await Self.missing(client).isEmpty)
            #expect(try Self.apus(cluster, "cluster", "plan").lines.last?.hasPrefix("nothing to move") == true)

            // It is taken away again.
            let stranger = try Self.apus(cluster, "cluster", "plan", "--without", "127.0.0.1:1")
            #expect(stranger.code == 1 && stranger.talk.contains("is no master of this cluster"))
            let left = try Self.apus(cluster, "cluster", "plan", "--apply", "--without", place)
            #expect(left.code == 0, "\(left.talk)")
            let table = try await cluster.table()
            #expect(table.nodes.first { $0.endpoint == RedisCluster.endpoint(spare) }?.slots.isEmpty == true)
            #expect(try await Self.missing(client).isEmpty)
            await client.close()
        }
    }

    @Test
    func `A silent node, another setting and a missing user are named, and the users of Apus are set on every node`()
        async throws
    {
        try await RedisCluster.with(masters: 3, replicas: 1) { cluster in
            #expect(try Self.apus(cluster, "init", "--queue-shards", "6", "--device-partitions", "6").code == 0)
            let other = cluster.replicas[1]
            _ = try await other.command("CONFIG", "SET", "maxclients", "5000")
            _ = try await other.command("ACL", "SETUSER", "stranger", "on", "nopass")
            await cluster.replicas[0].kill()
            let status = try Self.apus(cluster, "cluster", "status")
            #expect(status.code == 2)
            #expect(
                status.lines.contains {
                    $0.contains("maxclients is ") && $0.contains("5000 on 127.0.0.1:\(other.port)")
                }
            )
            #expect(status.lines.contains { $0.contains("user stranger") && $0.contains("\(other.port)") })
            #expect(
                status.lines.contains { $0.contains("\(cluster.replicas[0].port)") && $0.contains("does not answer") }
            )
            #expect(
                status.lines.contains { $0.contains("\(cluster.masters[0].port)") && $0.contains("no replica follows") }
            )
            // The doctor says the same, and goes on with the nodes that answer.
            let diagnosis = try Self.apus(cluster, "doctor", "--offline", "--json")
            let findings = diagnosis.json?["findings"]?.array ?? []
            #expect(findings.count { $0["check"]?.string == "connection" && $0["verdict"]?.string == "ok" } == 5)
            #expect(
                findings.contains {
                    $0["check"]?.string == "cluster" && $0["detail"]?.string?.contains("maxclients") == true
                }
            )

            let folder = try TemporaryFolder()
            let file = try folder.write("password", Array("a password\n".utf8))
            // A node that is marked as failed is not forgotten without a word.
            let silent = cluster.replicas[0].port
            try await eventually("every node has the node marked as failed") {
                for node in cluster.masters + cluster.replicas.dropFirst() {
                    let nodes = try await node.command("CLUSTER", "NODES").root.text()
                    let isMarked = nodes.split(whereSeparator: \.isNewline).map { $0.split(separator: " ") }.contains {
                        $0[1].contains(":\(silent)@") && $0[2].split(separator: ",").contains("fail")
                    }
                    guard isMarked else { return false }
                }
                return true
            }
            let part = try Self.apus(cluster, "acl", "set", "dispatcher", "--password-file", file, "--json")
            #expect(part.code == 2 && part.json?["servers"]?.array?.count == 5, "\(part.talk)")
            #expect(part.json?["skipped"]?.array?.map(\.string) == ["127.0.0.1:\(cluster.replicas[0].port)"])
            #expect(part.talk.contains("1 server is marked as failed and skipped"), "\(part.talk)")
            let initialized = try Self.apus(cluster, "init", "--json")
            #expect(initialized.code == 0 && initialized.talk.contains("1 server is marked as failed and skipped"))

            try await cluster.replicas[0].restart()
            try await eventually("the node is well again") {
                try await cluster.table().nodes.allSatisfy { !$0.isFailed }
            }
            let set = try Self.apus(cluster, "acl", "set", "dispatcher", "--password-file", file, "--json")
            #expect(set.json?["servers"]?.array?.count == 6, "\(set.talk)")
            for node in cluster.nodes {
                let line = try await node.command("ACL", "LIST").root.children.compactMap(\.string)
                #expect(line.contains { $0.hasPrefix("user apus-dispatcher on ") && $0.contains(" #") })
            }
        }
    }

    @Test
    func `The backlog of living masters is shown while another one is away, with what does not answer`() async throws {
        let options = RedisServer.Options(isAppendOnly: true, settings: ["cluster-require-full-coverage": "no"])
        try await RedisCluster.with(masters: 3, replicas: 0, options) { cluster in
            #expect(try Self.apus(cluster, "init", "--queue-shards", "6", "--device-partitions", "6").code == 0)
            let client = try RedisClient(
                configuration: RedisConfiguration(url: cluster.url),
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            )
            let installation = try await Installation(client, clock: SystemClock())
            let (streams, tags) = (installation.streams, installation.keyspace.shardTags)
            // A dispatcher numbers its routes and copies the numbers.
            let routes = try (0..<6).map { number in
                Route(app: try AppID("app\(number)"), provider: .apns, environment: .production)
            }
            let copies = InstallationCopies(client)
            var content = InstallationCopies.Content(meta: ApusMeta(installation.keyspace))
            for route in routes { content.routes[route.description] = try await streams.routes.number(of: route) }
            for tag in copies.tags { try await copies.write(content, at: tag) }

            // The first has the list of services, the second that of the routes, the third the sizes and the list of publishers.
            let lists = [["services"], [], ["publishers"]]
            for (victim, lostLists) in zip(cluster.masters, lists) {
                let place = RedisCluster.endpoint(victim)
                let lost = tags.filter { client.topology.endpoint(forSlot: $0.slot) == place }
                #expect(lost.count == 2)
                await victim.kill()
                let lag = try Self.apus(cluster, "lag", "--shards", "--all", "--json")
                #expect(lag.code == 2, "\(lag.talk)")
                let shown = Set(lag.json?["streams"]?.array?.compactMap { $0["shard"]?.string } ?? [])
                #expect(shown == Set(tags.filter { !lost.contains($0) }.map(\.description)))
                let missing = lag.json?["unreachable"]
                #expect(missing?["shards"]?.int64 == 2 && missing?["of"]?.int64 == 6)
                #expect(missing?["servers"]?.array?.compactMap(\.string) == ["\(place)"])
                #expect(missing?["lists"]?.array?.compactMap(\.string) == lostLists)
                let rows = lag.json?["routes"]?.array ?? []
                #expect(rows.compactMap { $0["route"]?.string } == routes.map(\.description))
                #expect(rows.count { $0["unreachable"]?.bool == true } == 2)
                let isListAway = victim === cluster.masters[1]
                #expect(rows.count { $0["configuration_unknown"]?.bool == true } == (isListAway ? 4 : 0))

                let text = try Self.apus(cluster, "lag")
                let sentence = "2 of 6 shards (server \(place)) do not answer: what they hold is left out"
                #expect(text.code == 2 && text.lines.contains(sentence), "\(text.lines) \(text.talk)")
                let findings = try Self.apus(cluster, "doctor", "--offline", "--json").json?["findings"]?.array ?? []
                #expect(findings.contains { $0["detail"]?.string == sentence && $0["verdict"]?.string == "fail" })

                try await victim.restart()
                try await eventually("all shards answer again") { try Self.apus(cluster, "lag").code == 0 }
            }
            await client.close()
        }
    }

    @Test func `One server is no cluster, and is told so`() async throws {
        try await RedisServer.with { server in
            for command in [["cluster", "status"], ["cluster", "plan", "--apply"]] {
                let answer = try OperatorProgram.run(command + ["--redis", server.tcpURL])
                #expect(answer.code == 1 && answer.talk.contains("redis+cluster://"), "\(answer.talk)")
            }
            let wrong = try OperatorProgram.run(["cluster", "plan", "--without", "here", "--redis", server.tcpURL])
            #expect(wrong.code == 64 && wrong.talk.contains("--without is the address of a master"))
        }
    }
}
