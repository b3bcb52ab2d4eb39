import ApusCore
import ApusLab
import ApusMessages
import ApusSimulator
import ApusTestKit
import Testing

@Suite struct MemoryTests {
    /// Above its idle size, in bytes: what is promised for a million devices.
    private static let growthMax: Int64 = 64 << 20

    @Test func `A dispatcher stays small while its providers stall in the middle of a large send`() async throws {
        try await Fleet.with { fleet in
            let count = 60_000
            _ = try await fleet.register(count)
            let feedback = try await fleet.startFeedback()
            let dispatcher = try await fleet.startDispatcher()
            let idle = try #require(ProcessStatistics.residentBytes(of: dispatcher.processID))
            var plan = FaultPlan(seed: 1)
            plan.apns.silence = 1
            plan.fcm.silence = 1
            fleet.simulator.setFaults(plan)
            try await fleet.send(.everyone([]), id: "s")
            try await eventually("requests are taken") { fleet.simulator.ledger.snapshot.count > 0 }
            var most = idle
            for _ in 0..<50 {
                most = max(most, ProcessStatistics.residentBytes(of: dispatcher.processID) ?? 0)
                try await Task.sleep(for: .milliseconds(100))
            }
            #expect(most - idle <= Self.growthMax, "\((most - idle) >> 20) MiB")
            #expect(fleet.simulator.ledger.snapshot.count < count, "the stall held nothing up")
            await dispatcher.kill()
            await feedback.kill()
        }
    }
}
