import ApusRedis
import ApusTestKit
import NIOCore
import Testing

/// Tests which takeovers of a master's slots are proven to have lost nothing.
@Suite(.serialized) struct ReplicationStateTests {
    private static let none = String(repeating: "0", count: 40)

    /// Returns the state of a master, or of a replica that is in touch with one.
    private static func state(
        _ run: String,
        isMaster: Bool = true,
        link: String = "up",
        _ history: String,
        after former: String = none,
    ) throws -> ReplicationState {
        var text = "# Server\r\nrun_id:\(run)\r\n\r\n# Replication\r\nrole:\(isMaster ? "master" : "slave")\r\n"
        if !isMaster { text += "master_host:127.0.0.1\r\nmaster_link_status:\(link)\r\n" }
        text += "master_replid:\(history)\r\nmaster_replid2:\(former)\r\nmaster_repl_offset:7\r\n"
        return try #require(ReplicationState(info: text))
    }

    @Test func `A takeover loses nothing when the former master follows its successor without a new copy`() throws {
        let before = try Self.state("old", "r1")
        let successor = try Self.state("new", "r2", after: "r1")
        let later = try Self.state("old", isMaster: false, "r2", after: "r1")
        #expect(before.isContinued(as: later, by: successor))

        // It had more than its successor, and has taken a copy.
        #expect(try !before.isContinued(as: Self.state("old", isMaster: false, "r2"), by: successor))
        // It is not in touch yet, or a master still.
        let late = try Self.state("old", isMaster: false, link: "down", "r2", after: "r1")
        #expect(!before.isContinued(as: late, by: successor))
        #expect(!before.isContinued(as: before, by: successor))
        // It was restarted, from a file that may lack the last writes.
        #expect(try !before.isContinued(as: Self.state("again", isMaster: false, "r2", after: "r1"), by: successor))
        // A third one had taken over before, which the former master may have copied anew.
        let third = try Self.state("third", "r3", after: "r2")
        #expect(try !before.isContinued(as: Self.state("old", isMaster: false, "r3", after: "r2"), by: third))
        // The successor has been restarted or replaced since, or is no master any more.
        #expect(try !before.isContinued(as: later, by: Self.state("new", "r3", after: "r2")))
        #expect(try !before.isContinued(as: later, by: Self.state("new", isMaster: false, "r2", after: "r1")))
        // A replica's history is no proof of what a master answered.
        #expect(try !Self.state("old", isMaster: false, "r1").isContinued(as: later, by: successor))
    }

    @Test func `A text without a run id or a replication id tells no state`() {
        #expect(ReplicationState(info: "# Replication\r\nrole:master\r\nmaster_replid:r1\r\n") == nil)
        #expect(ReplicationState(info: "# Server\r\nrun_id:r\r\n") == nil)
        #expect(ReplicationState(info: "") == nil)
    }

    @Test func `Real servers prove a planned failover, and not one after which a frozen master has answered writes`()
        async throws
    {
        try await RedisCluster.with { cluster in
            try await withClient(of: cluster.url) { client in
                func state(_ server: RedisServer) async throws -> ReplicationState {
                    try #require(await client.replicationState(of: RedisCluster.endpoint(server)))
                }
                /// Waits until a former master has followed its successor.
                func follows(_ server: RedisServer, _ successor: RedisServer) async throws -> ReplicationState {
                    var found: ReplicationState?
                    try await eventually("it follows") {
                        let (its, other) = (try await state(server), try await state(successor))
                        found = its
                        return its.isFollowing && its.history == other.history
                    }
                    return try #require(found)
                }
                let (planned, frozen) = (cluster.masters[0], cluster.masters[1])
                let replica = try await cluster.replica(of: planned)
                let before = try await state(planned)
                try await cluster.failOver(from: planned)
                let later = try await follows(planned, replica)
                #expect(before.isContinued(as: later, by: try await state(replica)))

                let other = try await cluster.replica(of: frozen)
                let tag = try #require(
                    (0...).lazy.map { HashTag("q\($0)") }.first {
                        client.topology.endpoint(forSlot: $0.slot) == RedisCluster.endpoint(frozen)
                    }
                )
                let started = try await state(frozen)
                let connection = try await connect("redis://127.0.0.1:\(frozen.port)")
                frozen.suspend()
                let writes = (0..<100).map { connection.send(RedisCommand("SET", .text("\(tag)\($0)"), "lost")) }
                try await cluster.untilMaster(other, besides: frozen)
                frozen.resume()
                // It does not know yet that it was replaced.
                var answered = 0
                for write in writes where (try? await write.get()) != nil { answered += 1 }
                let woken = try await follows(frozen, other)
                let kept = try await client.send(RedisCommand("EXISTS", .text("\(tag)0")), on: tag).root.integer
                #expect(answered > 0 && kept == 0)
                #expect(!started.isContinued(as: woken, by: try await state(other)))
                _ = try? await connection.close().get()
            }
        }
    }
}
