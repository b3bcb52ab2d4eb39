import ApusCore
import ApusLab
import ApusMessages
import ApusRedis
import ApusSimulator
import ApusStreams
import ApusTestKit
import Testing

@Suite(.serialized) struct ShutdownTests {
    @Test func `A dispatcher whose providers never answer ends by its deadline and leaves everything to its successor`()
        async throws
    {
        var plan = FaultPlan(seed: 1)
        plan.apns.silence = 1
        plan.fcm.silence = 1
        try await Fleet.with(faults: plan) { fleet in
            let devices = try await fleet.register(600) { _ in ["news"] }
            let feedback = try await fleet.startFeedback()
            let dispatcher = try await fleet.startDispatcher(["lease": "60s", "drain_timeout": "2s"])
            try await fleet.send(.topic("news"), id: "s")
            try await eventually("requests hang") {
                fleet.simulator.ledger.snapshot.summary.faults["silence"] ?? 0 >= 100
            }
            let start = ContinuousClock.now
            try await dispatcher.terminate()
            // The drain's two seconds, and the five in which what was cancelled may clean up.
            #expect(ContinuousClock.now - start < .seconds(12))
            fleet.simulator.setFaults(FaultPlan())
            // The lease is a minute: only what was handed back can be taken over at once.
            let successor = try await fleet.startDispatcher(lease: "60s")
            let ledger = try await fleet.completion(of: "s", timeout: .seconds(40))
            #expect(ledger.planned == 600 && ledger.total(.accepted) == 600)
            let comparison = Comparison(accepted: fleet.accepted(of: "s"), audience: Set(devices.map(\.token)))
            #expect(comparison.lost == 0 && comparison.strangers == 0)
            try await successor.terminate()
            try await feedback.terminate()
        }
    }
}
