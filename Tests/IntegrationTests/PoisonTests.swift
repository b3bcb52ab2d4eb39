import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusRedis
import ApusSimulator
import ApusStreams
import ApusTestKit
import Testing

@Suite(.serialized) struct PoisonTests {
    @Test func `A unit that ends every process that begins it becomes a dead letter, and nothing else does`()
        async throws
    {
        var plan = FaultPlan(seed: 1)
        // The dispatcher that has begun the poison waits for Apple, and is killed for it.
        plan.apns.silence = 1
        plan.fcm.delayMilliseconds = 400
        try await Fleet.with(faults: plan) { fleet in
            let devices = try await fleet.register(4_000) { $0.isMultiple(of: 2) ? ($0 < 20 ? ["bad"] : []) : ["good"] }
            let feedback = try await fleet.startFeedback()
            func begun() -> UInt64 { fleet.simulator.ledger.snapshot.summary.faults["silence"] ?? 0 }
            func buried() async throws -> [DeadLetter] {
                var letters: [DeadLetter] = []
                for shard in 0..<fleet.installation.keyspace.queueShards {
                    let keys = fleet.installation.streams.keys(shard: shard)
                    let range = RedisCommand("XRANGE", .text(keys.dead), "-", "+")
                    for entry in try await fleet.client.send(range, on: keys.tag).root.children {
                        letters.append(try DeadLetter.decode(entry[1][1].bytes ?? []))
                    }
                }
                return letters
            }
            try await fleet.send(.topic("bad"), id: "poison")
            try await fleet.send(.topic("good"), id: "good")
            var kills = 0
            while try await buried().isEmpty {
                let before = begun()
                let dispatcher = try await fleet.startDispatcher(lease: "800ms")
                try await eventually("the poison is begun or buried", timeout: .seconds(120)) {
                    if begun() > before { return true }
                    return try await !buried().isEmpty
                }
                guard try await buried().isEmpty else {
                    _ = try await fleet.completion(of: "good")
                    try await dispatcher.terminate()
                    break
                }
                await dispatcher.kill()
                kills += 1
            }
            // Once more than the count allows, and never again.
            #expect((3...4).contains(kills))
            let letters = try await buried()
            #expect(letters.map(\.cause) == [.poison] && letters.map(\.send) == ["poison"])
            let good = try await fleet.completion(of: "good")
            #expect(good.planned == 2_000 && good.total(.accepted) == 2_000)
            let audience = devices.filter { $0.provider == .fcm }.map(\.token)
            #expect(Comparison(accepted: fleet.accepted(of: "good"), audience: Set(audience)).lost == 0)
            let poison = try await fleet.completion(of: "poison")
            #expect(poison.planned == 10 && poison.total(.failed) == 10)
            try await feedback.terminate()
        }
    }
}
