import ApusCore
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusSimulator
import ApusStreams
import ApusTestKit
import Testing

@Suite(.serialized) struct RetryTests {
    @Test func `What Google puts off waits in Redis as long as it asks and is sent once more`() async throws {
        var plan = FaultPlan(seed: 1)
        plan.retryAfter = .seconds(11)
        try await Fleet.with(faults: plan) { fleet in
            let devices = try await fleet.register(100) { _ in ["news"] }
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            #expect(fleet.simulator.addScript(FaultScript(route: .fcm, count: 5, fault: .unavailable)))
            let started = ContinuousClock.now
            try await fleet.send(.topic("news"), id: "planned")
            try await eventually("all but five are accepted") { fleet.accepted(of: "planned").count == 95 }
            try await eventually("five wait in Redis") {
                try await fleet.installation.streams.ledger(app: Fleet.app, send: "planned")?.total(.open) == 5
            }
            // One to one person, put off as well: kept from then on, though direct sends usually are not.
            #expect(fleet.simulator.addScript(FaultScript(route: .fcm, count: 1, fault: .unavailable)))
            try await fleet.send(.devices([devices[1].id]), id: "direct", lane: .express)
            for send in ["planned", "direct"] {
                let ledger = try await fleet.completion(of: send, timeout: .seconds(60))
                #expect(ledger.total(.accepted) == ledger.planned && ledger.total(.open) == 0)
            }
            #expect(ContinuousClock.now - started >= .seconds(11))
            let all = Set(devices.map(\.token))
            #expect(Comparison(accepted: fleet.accepted(of: "planned"), audience: all) == .exact)
            #expect(Comparison(accepted: fleet.accepted(of: "direct"), audience: [devices[1].token]) == .exact)
            #expect(try await fleet.receipts(of: "direct").map(\.kind) == [.final])
            try await eventually("nothing is left") { try await fleet.leftovers() == [:] }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `A message past its expiry is told as expired and not sent`() async throws {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(10) { _ in ["news"] }
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            let past = SystemClock().now().advanced(byMilliseconds: -1_000)
            try await fleet.send(.devices([devices[0].id]), id: "late") { $0.notification.expiry = .at(past) }
            try await eventually("its receipt is there") {
                try await fleet.receipts(of: "late").contains { $0.kind == .final }
            }
            let receipt = try await fleet.receipts(of: "late").first
            #expect(receipt?.counts.map(\.outcome) == [.expired])
            #expect(fleet.accepted(of: "late").isEmpty)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }
}
