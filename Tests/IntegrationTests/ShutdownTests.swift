import ApusCore
import ApusLab
import ApusMessages
import ApusRedis
import ApusSimulator
import ApusStreams
import ApusTestKit
import Testing

@Suite(.serialized) struct ShutdownTests {
    /// The longest that a service with nothing in hand may take to end, on a loaded machine: it aims at two seconds.
    private static let idleEndMax = Duration.seconds(10)

    /// The ways in which Redis may be away.
    enum Absence: CaseIterable {
        case killed
        case frozen
    }

    @Test(arguments: Absence.allCases) func `A service with nothing in hand ends soon while Redis is away`(
        _ absence: Absence
    ) async throws {
        try await Fleet.with { fleet in
            // Longer than the bound below: nobody is cancelled by the drain's end.
            let drain: ServiceSettingsText = ["drain_timeout": "30s"]
            let services = [
                try await fleet.startDispatcher(drain), try await fleet.startFeedback(drain),
                try await fleet.startRegistration(drain).service,
            ]
            switch absence {
            case .killed: await fleet.redis.kill()
            case .frozen: fleet.redis.suspend()
            }
            // Reads and calls that began before are being tried again by now.
            try await Task.sleep(for: .seconds(2))
            for service in services {
                let start = ContinuousClock.now
                try await service.terminate()
                #expect(ContinuousClock.now - start < Self.idleEndMax, "\(service.name): \(service.logTail)")
                #expect(service.log.contains("drained"))
                #expect(!service.log.contains("the drain did not end in time"))
            }
            fleet.redis.resume()
        }
    }

    @Test(arguments: Absence.allCases)
    func `A dispatcher with outcomes that cannot be written ends by its deadline and logs what is left`(
        _ absence: Absence
    ) async throws {
        var plan = FaultPlan(seed: 1)
        plan.apns.silence = 0.75
        plan.fcm.silence = 0.75
        try await Fleet.with(faults: plan) { fleet in
            _ = try await fleet.register(600) { _ in ["news"] }
            let dispatcher = try await fleet.startDispatcher(["drain_timeout": "2s"])
            try await fleet.send(.topic("news"), id: "s")
            try await eventually("requests hang") {
                fleet.simulator.ledger.snapshot.summary.faults["silence"] ?? 0 >= 100
            }
            switch absence {
            case .killed: await fleet.redis.kill()
            case .frozen: fleet.redis.suspend()
            }
            let start = ContinuousClock.now
            try await dispatcher.terminate()
            // The drain's two seconds, and the five in which what was cancelled may clean up.
            #expect(ContinuousClock.now - start < .seconds(12))
            #expect(dispatcher.log.contains("could not hand back"), "\(dispatcher.logTail)")
            #expect(dispatcher.log.contains("\"entries\""))
            fleet.redis.resume()
        }
    }

    @Test func `A dispatcher whose providers never answer ends by its deadline and leaves everything to its successor`()
        async throws
    {
        var plan = FaultPlan(seed: 1)
        plan.apns.silence = 0.75
        plan.fcm.silence = 0.75
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
