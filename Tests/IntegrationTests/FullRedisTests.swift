import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusRedis
import ApusSimulator
import ApusStore
import ApusStreams
import ApusTestKit
import Testing

@Suite(.serialized) struct FullRedisTests {
    @Test func `Commands published before Redis was full reach everybody once while it is, without dead letters`()
        async throws
    {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(2_000) { _ in ["news"] }
            let feedback = try await fleet.startFeedback(lease: "1s")
            let bad = try #require(devices.last { $0.provider == .apns })
            fleet.simulator.declare(.bad, of: bad.token, provider: .apns)
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
            #expect(ledger.planned == 2_000 && ledger.total(.accepted) == 1_999 && ledger.total(.open) == 0)
            #expect(ledger.problem == nil)
            let audience = Set(devices.map(\.token)).subtracting([bad.token])
            #expect(Comparison(accepted: fleet.accepted(of: "s"), audience: audience) == .exact)
            let app = try AppID(Fleet.app)
            let marked = try await fleet.installation.store.get(app, try DeviceID(bad.id))
            #expect(marked?.record.suspicion != nil)
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
            #expect(after.planned == 2_000 && after.total(.accepted) == 1_999)
            try await eventually("nothing is left but the suspect", timeout: .seconds(60)) {
                try await fleet.remainingEntries().keys.allSatisfy { $0.contains("}quarantine:") }
            }
            for shard in 0..<fleet.installation.keyspace.queueShards {
                let letters = try await fleet.installation.streams.deadLetters.page(shard: shard, before: "+").letters
                #expect(letters.isEmpty)
            }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }
}
