import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusRedis
import ApusSimulator
import ApusStreams
import ApusTestKit
import Testing

@Suite(.serialized) struct FailoverTests {
    /// Without what a dispatcher remembers, everything that the server has forgotten is sent again.
    @Test(arguments: [(StreamLimits.replayBytesMax, 0...300), (0, 1_000...8_000)])
    func `A Redis that comes back without its last seconds gets them again, so that almost nobody is reached twice`(
        replayBytes: Int,
        repeated: ClosedRange<Int>,
    ) async throws {
        var plan = FaultPlan(seed: 1)
        plan.apns.delayMilliseconds = 100
        plan.fcm.delayMilliseconds = 100
        try await Fleet.with(faults: plan) { fleet in
            let devices = try await fleet.register(8_000) { _ in ["news"] }
            let feedback = try await fleet.startFeedback(lease: "2s")
            let dispatcher = try await fleet.startDispatcher(["lease": "2s", "replay_bytes": "\(replayBytes)"])
            try await fleet.send(.topic("news"), id: "s")
            try await eventually("a part is sent") { fleet.accepted(of: "s").count >= 1_000 }
            _ = try await fleet.redis.command("SAVE")
            let atSave = fleet.accepted(of: "s").count
            try await eventually("much more is sent") { fleet.accepted(of: "s").count >= atSave + 3_000 }
            await fleet.redis.kill()
            try await fleet.redis.restart()
            let ledger = try await fleet.completion(of: "s", timeout: .seconds(180))
            let comparison = Comparison(accepted: fleet.accepted(of: "s"), audience: Set(devices.map(\.token)))
            #expect(comparison.lost == 0 && comparison.strangers == 0)
            #expect(repeated.contains(comparison.repeated), "repeated \(comparison.repeated)")
            #expect(ledger.planned == 8_000 && ledger.total(.accepted) == 8_000 && ledger.total(.open) == 0)
            let replayed = try await dispatcher.metric("apus_dispatcher_replayed_calls_total")
            #expect((replayed > 0) == (replayBytes > 0))
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `Two dispatchers each repeat their writes to a Redis that comes back without its last seconds`()
        async throws
    {
        var plan = FaultPlan(seed: 1)
        plan.apns.delayMilliseconds = 100
        plan.fcm.delayMilliseconds = 100
        try await Fleet.with(faults: plan) { fleet in
            let devices = try await fleet.register(8_000) { _ in ["news"] }
            let feedback = try await fleet.startFeedback(lease: "2s")
            // A small window, so that the other has its part of the units.
            let settings = ["lease": "2s", "window": "200", "units_in_hand": "1"]
            let dispatchers = [
                try await fleet.startDispatcher(settings), try await fleet.startDispatcher(settings),
            ]
            try await fleet.send(.topic("news"), id: "s")
            try await eventually("a part is sent", timeout: .seconds(60)) { fleet.accepted(of: "s").count >= 1_000 }
            _ = try await fleet.redis.command("SAVE")
            let atSave = fleet.accepted(of: "s").count
            try await eventually("much more is sent", timeout: .seconds(60)) {
                fleet.accepted(of: "s").count >= atSave + 3_000
            }
            await fleet.redis.kill()
            try await fleet.redis.restart()
            let ledger = try await fleet.completion(of: "s", timeout: .seconds(180))
            let comparison = Comparison(accepted: fleet.accepted(of: "s"), audience: Set(devices.map(\.token)))
            #expect(comparison.lost == 0 && comparison.strangers == 0)
            // What one has on the wire or unwritten, of each.
            #expect((0...600).contains(comparison.repeated), "repeated \(comparison.repeated)")
            #expect(ledger.planned == 8_000 && ledger.total(.accepted) == 8_000 && ledger.total(.open) == 0)
            for dispatcher in dispatchers {
                #expect(try await dispatcher.metric("apus_dispatcher_replayed_calls_total") > 0)
            }
            try await eventually("nothing is left", timeout: .seconds(60)) { try await fleet.remainingEntries() == [:] }
            for dispatcher in dispatchers { try await dispatcher.terminate() }
            try await feedback.terminate()
        }
    }
}
