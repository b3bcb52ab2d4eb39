import ApusCore
import ApusInstallation
import ApusLoadTest
import ApusMessages
import ApusRedis
import ApusSimulator
import ApusStreams
import ApusTestKit
import Testing

@Suite(.serialized) struct FullRedisTests {
    @Test func `What was published before Redis was full reaches everybody once while it is, and nothing is buried`()
        async throws
    {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(2_000) { _ in ["news"] }
            let feedback = try await fleet.startFeedback(lease: "1s")
            // Makes the streams' groups, which a full Redis would not.
            let first = try await fleet.startDispatcher(lease: "1s")
            try await fleet.send(.devices([devices[0].id]), id: "first")
            try await eventually("the streams are there") { try await fleet.receipts(of: "first").count == 1 }
            try await first.terminate()
            try await fleet.send(.topic("news"), id: "s") {
                $0.idempotencyKey = "order-17"
                $0.receiptLevel = .recipients
            }
            let replies = "\(StreamKeys.replyPrefix)shop"
            for number in 1...20 {
                try await fleet.send(.devices([devices[number].id]), id: "d\(number)", lane: .express) {
                    $0.idempotencyKey = "login-\(number)"
                    $0.replyTo = replies
                }
            }
            _ = try await fleet.redis.command("CONFIG", "SET", "maxmemory", "1")
            let dispatcher = try await fleet.startDispatcher(lease: "1s")
            let ledger = try await fleet.completion(of: "s", timeout: .seconds(120))
            #expect(ledger.planned == 2_000 && ledger.total(.accepted) == 2_000 && ledger.total(.open) == 0)
            #expect(ledger.problem == nil)
            #expect(Comparison(accepted: fleet.accepted(of: "s"), audience: Set(devices.map(\.token))) == .exact)
            let told = RedisCommand("XLEN", .text(replies))
            try await eventually("the direct ones are told", timeout: .seconds(60)) {
                try await fleet.client.send(told, on: HashTag(ofKey: replies)).root.integer == 20
            }
            for number in 1...20 { #expect(fleet.accepted(of: "d\(number)") == [devices[number].token: 1]) }
            await #expect {
                try await fleet.send(.topic("news"), id: "late")
            } throws: {
                ($0 as? RedisError)?.code == .outOfMemory
            }
            _ = try await fleet.redis.command("CONFIG", "SET", "maxmemory", "0")
            try await fleet.send(.topic("news"), id: "after")
            let after = try await fleet.completion(of: "after", timeout: .seconds(120))
            #expect(after.planned == 2_000 && after.total(.accepted) == 2_000)
            try await eventually("nothing is left", timeout: .seconds(60)) { try await fleet.leftovers() == [:] }
            for shard in 0..<fleet.installation.keyspace.queueShards {
                let letters = try await fleet.installation.streams.deadLetters(shard: shard, before: "+").letters
                #expect(letters.isEmpty)
            }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }
}
