import ApusRedis
import ApusTestKit
import NIOPosix
import Synchronization
import Testing

/// The client against a real cluster of several masters.
@Suite(.serialized) struct RedisClusterTests {
    private static let tags = (0..<64).map { HashTag("q\($0)") }

    /// Time enough for a failover on a loaded machine.
    private static let patient = RedisClient.Options(isIdempotent: true, patience: .seconds(60))

    private func value(
        _ client: RedisClient,
        _ tag: HashTag,
        within patience: Duration? = Self.patient.patience,
    ) async throws -> Int64 {
        let get = RedisCommand("GET", .text("\(tag)k"))
        let options = RedisClient.Options(isIdempotent: true, patience: patience)
        return try await client.send(get, on: tag, options: options).root.number()
    }

    @Test func `One node of a cluster is enough to reach every slot, and one that is away does not matter`()
        async throws
    {
        try await RedisCluster.with(replicas: 0) { cluster in
            let last = cluster.masters[2]
            let gone = try ReservedPort()
            let url = "redis+cluster://127.0.0.1:\(gone.number),127.0.0.1:\(last.port)"
            try await withClient(of: url) { client in
                for (number, tag) in Self.tags.enumerated() {
                    let set = RedisCommand("SET", .text("\(tag)k"), .integer(number))
                    _ = try await client.send(set, on: tag, options: Self.patient)
                }
                for (number, tag) in Self.tags.enumerated() {
                    #expect(try await self.value(client, tag) == Int64(number))
                }
                #expect(
                    try await client.masters()
                        == cluster.masters.map(RedisCluster.endpoint).sorted { "\($0)" < "\($1)" }
                )
            }
            var counts: [Int64] = []
            for master in cluster.masters { counts.append(try await master.command("DBSIZE").root.number()) }
            #expect(counts.reduce(0, +) == 64 && counts.allSatisfy { $0 > 0 })
        }
    }

    @Test func `A slot moves away and back under commands that are sent at most once, and none is lost or repeated`()
        async throws
    {
        try await RedisCluster.with(replicas: 0) { cluster in
            try await withClient(of: cluster.url) { client in
                let tag = HashTag("q1")
                let isOver = Atomic(false)
                let counting = Task {
                    var sent: Int64 = 0
                    while !isOver.load(ordering: .relaxed) {
                        let increment = RedisCommand("INCR", .text("\(tag)k"))
                        let options = RedisClient.Options(isIdempotent: false, patience: .seconds(60))
                        _ = try await client.send(increment, on: tag, options: options)
                        sent += 1
                    }
                    return sent
                }
                let source = try await cluster.owner(ofSlot: tag.slot)
                let target = try #require(cluster.masters.first { $0 !== source })
                for _ in 0..<5 {
                    try await cluster.move(tag.slot, to: target)
                    try await cluster.move(tag.slot, to: source)
                }
                isOver.store(true, ordering: .relaxed)
                let sent = try await counting.value
                #expect(sent > 0)
                #expect(try await self.value(client, tag) == sent)
                #expect(client.topology.holder(ofSlot: tag.slot)?.failovers == 0)
            }
        }
    }

    @Test func `A blocked read follows its slot to another server`() async throws {
        try await RedisCluster.with(replicas: 0) { cluster in
            try await withClient(of: cluster.url) { client in
                let tag = HashTag("q2")
                let (source, stream) = (try await cluster.owner(ofSlot: tag.slot), "\(tag)s")
                let target = try #require(cluster.masters.first { $0 !== source })
                let group = RedisCommand("XGROUP", "CREATE", .text(stream), "g", "0", "MKSTREAM")
                _ = try await client.send(group, on: tag, options: Self.patient)
                let connection = client.blockingConnection(for: tag)
                let reading = Task {
                    let read = RedisCommand(
                        "XREADGROUP",
                        "GROUP",
                        "g",
                        "c",
                        "BLOCK",
                        500,
                        "STREAMS",
                        .text(stream),
                        ">"
                    )
                    while true {
                        do {
                            let reply = try await connection.send(read, blocking: .milliseconds(500))
                            if !reply.root.isNull { return reply.root.count }
                        } catch {
                            try await Task.sleep(for: .milliseconds(20))
                        }
                    }
                }
                try await source.untilClientBlocks()
                try await cluster.move(tag.slot, to: target)
                let add = RedisCommand("XADD", .text(stream), "*", "m", "hello")
                _ = try await client.send(add, on: tag, options: Self.patient)
                #expect(try await reading.value == 1)
                await connection.close()
            }
        }
    }

    @Test func `A master is killed, its replica takes over, and every slot answers again`() async throws {
        try await RedisCluster.with { cluster in
            try await withClient(of: cluster.url) { client in
                for (number, tag) in Self.tags.enumerated() {
                    let set = RedisCommand("SET", .text("\(tag)k"), .integer(number))
                    _ = try await client.send(set, on: tag, options: Self.patient)
                }
                let victim = cluster.masters[0]
                let replica = try await cluster.replica(of: victim)
                let moved = try #require(
                    Self.tags.first { client.topology.endpoint(forSlot: $0.slot) == RedisCluster.endpoint(victim) }
                )
                let still = try #require(
                    Self.tags.first { client.topology.endpoint(forSlot: $0.slot) != RedisCluster.endpoint(victim) }
                )
                await victim.kill()
                for (number, tag) in Self.tags.enumerated() {
                    #expect(try await self.value(client, tag) == Int64(number))
                }
                #expect(client.topology.endpoint(forSlot: moved.slot) == RedisCluster.endpoint(replica))
                #expect(client.topology.holder(ofSlot: moved.slot)?.failovers == 1)
                #expect(client.topology.holder(ofSlot: still.slot)?.failovers == 0)
            }
        }
    }

    @Test func `A slot that no server has keeps nobody from the others`() async throws {
        let options = RedisServer.Options(settings: ["cluster-require-full-coverage": "no"])
        try await RedisCluster.with(masters: 2, replicas: 0, options) { cluster in
            let (tag, other) = (HashTag("q1"), HashTag("q2"))
            #expect(tag.slot != other.slot)
            try await eventually("no server has the slot") {
                for node in cluster.masters {
                    _ = try? await node.command("CLUSTER", "DELSLOTS", .integer(tag.slot))
                }
                return try await !cluster.table().isWhole
            }
            try await withClient(of: cluster.url, configure: { $0.patience = .seconds(2) }) { client in
                let known = try await client.topology.knownMasters(within: .zero)
                #expect(Set(known) == Set(cluster.masters.map(RedisCluster.endpoint)))
                await expectError(.clusterDown) { _ = try await client.masters() }
                await expectError(.clusterDown) { _ = try await self.value(client, tag, within: .milliseconds(100)) }
                let set = RedisCommand("SET", .text("\(other)k"), "1")
                _ = try await client.send(set, on: other, options: Self.patient)
            }
        }
    }

    @Test func `Servers that are no cluster, refuse the password or are away are told as such`() async throws {
        let options = RedisServer.Options(isCluster: false)
        try await RedisServer.with(options) { server in
            let gone = try ReservedPort()
            let get = RedisCommand("GET", "{q1}k")
            for (address, code, text) in [
                ("127.0.0.1:\(server.port)", RedisError.Code.configuration, "redis:// or rediss://"),
                ("user:wrong@127.0.0.1:\(server.port)", .wrongPassword, "WRONGPASS"),
                ("127.0.0.1:\(gone.number)", .notConnected, "refused"),
            ] {
                try await withClient(of: "redis+cluster://\(address)", configure: { $0.patience = .seconds(1) }) {
                    client in
                    for ask in [
                        { _ = try await client.masters() }, { _ = try await client.send(get, on: HashTag("q1")) },
                    ] {
                        let error = await expectError(code, ask)
                        #expect(error?.message.contains(text) == true, "\(String(describing: error))")
                    }
                }
            }
        }
    }

    @Test func `A cluster of several that is addressed as one server names the cure`() async throws {
        try await RedisCluster.with(masters: 2, replicas: 0) { cluster in
            let tag = try #require(Self.tags.first { $0.slot > HashTag.slotCount / 2 })
            let url = "redis://127.0.0.1:\(cluster.masters[0].port)"
            try await withClient(of: url, configure: { $0.patience = .seconds(1) }) { client in
                let error = await expectError(.moved) { _ = try await self.value(client, tag, within: .seconds(1)) }
                #expect(error?.message.contains("redis+cluster://") == true)
            }
        }
    }
}
