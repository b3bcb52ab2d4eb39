import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusRedis
import ApusStreams
import ApusTestKit
import Testing

/// Tests that the backlog of feedback is bounded: dispatchers stop before Redis is full.
@Suite(.serialized) struct OutcomeBacklogTests {
    /// Makes as many batches wait in every shard.
    private static func fill(_ fleet: Fleet, _ count: Int) async throws {
        let script = """
            local left = ARGV[1] - redis.call('XLEN', KEYS[1])
            for _ = 1, left do redis.call('XADD', KEYS[1], '*', 'm', 'x') end
            """
        for shard in 0..<fleet.installation.keyspace.queueShards {
            let keys = fleet.installation.streams.keys(shard: shard)
            _ = try await fleet.client.send(
                RedisCommand("EVAL", .text(script), 1, .text(keys.outcomes), .integer(count)),
                on: keys.tag
            )
        }
    }

    private static func clear(_ fleet: Fleet) async throws {
        for shard in 0..<fleet.installation.keyspace.queueShards {
            let keys = fleet.installation.streams.keys(shard: shard)
            _ = try await fleet.client.send(RedisCommand("XTRIM", .text(keys.outcomes), "MAXLEN", 0), on: keys.tag)
        }
    }

    @Test func `Without feedback bulk stops at the limit and express at twice of it, and both go on when it is back`()
        async throws
    {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(40, providers: [.apns]) { _ in ["news"] }
            let dispatcher = try await fleet.startDispatcher()
            let shards = Double(fleet.installation.keyspace.queueShards)
            func paused(_ lane: Lane) async throws -> Double {
                try await dispatcher.metric("apus_dispatcher_paused_shards{lane=\"\(lane.name)\"}")
            }
            try await Self.fill(fleet, StreamLimits.outcomesWaitingMax)
            try await eventually("bulk is paused", timeout: .seconds(60)) { try await paused(.bulk) == shards }
            #expect(try await paused(.express) == 0)
            // A read that was under way when the pause began brings at most one more batch; it is over by now.
            try await Task.sleep(for: .seconds(3))
            try await fleet.send(.topic("news"), id: "bulk")
            try await fleet.send(.devices([devices[0].id]), id: "login", lane: .express)
            try await eventually("express goes on") { fleet.accepted(of: "login").count == 1 }

            try await Self.fill(fleet, StreamLimits.outcomesWaitingForExpressMax)
            try await eventually("express is paused", timeout: .seconds(60)) { try await paused(.express) == shards }
            try await Task.sleep(for: .seconds(3))
            try await fleet.send(.devices([devices[1].id]), id: "late", lane: .express)
            try await Task.sleep(for: .seconds(3))
            #expect(fleet.accepted(of: "late").isEmpty && fleet.accepted(of: "bulk").isEmpty)
            #expect(try await dispatcher.get("/readyz").status == 200, "it reads what it may")

            try await Self.clear(fleet)
            try await eventually("both go on", timeout: .seconds(60)) {
                fleet.accepted(of: "late").count == 1 && fleet.accepted(of: "bulk").count == 40
            }
            for lane in Lane.allCases { #expect(try await paused(lane) == 0) }
            let feedback = try await fleet.startFeedback()
            let ledger = try await fleet.completion(of: "bulk")
            #expect(ledger.total(.accepted) == 40)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }
}
