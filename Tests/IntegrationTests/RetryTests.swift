import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusRedis
import ApusSimulator
import ApusStreams
import ApusTestKit
import Testing

@Suite(.serialized) struct RetryTests {
    @Test func `A deferral by FCM waits in Redis as long as requested and is sent once more`() async throws {
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
                try await fleet.installation.streams.outcomes.ledger(app: Fleet.app, send: "planned")?.total(.open) == 5
            }
            // One to one person, put off as well: kept from then on, though direct sends usually are not.
            #expect(fleet.simulator.addScript(FaultScript(route: .fcm, count: 1, fault: .unavailable)))
            try await fleet.send(.devices([devices[1].id]), id: "direct", lane: .express)
            for send in ["planned", "direct"] {
                let ledger = try await fleet.completion(of: send, timeout: .seconds(180))
                #expect(ledger.total(.accepted) == ledger.planned && ledger.total(.open) == 0)
            }
            #expect(ContinuousClock.now - started >= .seconds(11))
            let all = Set(devices.map(\.token))
            #expect(Comparison(accepted: fleet.accepted(of: "planned"), audience: all) == .exact)
            #expect(Comparison(accepted: fleet.accepted(of: "direct"), audience: [devices[1].token]) == .exact)
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            // Written after the ledger is complete, and before the batch that completed it is gone.
            #expect(try await fleet.receipts(of: "direct").map(\.kind) == [.final])
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `A message past its expiry is reported as expired, is not sent, and is no dead letter`() async throws {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(10) { _ in ["news"] }
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            let past = SystemClock().now().advanced(byMilliseconds: -1_000)
            for (send, target) in [("direct", Target.devices([devices[0].id])), ("planned", .topic("news"))] {
                try await fleet.send(target, id: send) { $0.notification.expiry = .at(past) }
                try await eventually("its receipt is there") { try await fleet.receipts(of: send).count == 1 }
                let receipt = try await fleet.receipts(of: send).first
                #expect(receipt?.kind == .refused && receipt?.problem?.code == "expired")
                #expect(fleet.accepted(of: send).isEmpty)
                #expect(try await fleet.installation.streams.outcomes.ledger(app: Fleet.app, send: send) == nil)
            }
            // One that loses its worth while it waits for its time: its plans find nobody, and its receipt says why.
            let soon = SystemClock().now().advanced(byMilliseconds: 1_500)
            try await fleet.send(.topic("news"), id: "held") {
                $0.notification.expiry = .at(soon)
                $0.notBefore = soon.advanced(byMilliseconds: -300)
            }
            let streams = fleet.installation.streams
            try await eventually("it waits for its time") {
                try await streams.control.find(app: Fleet.app, send: "held") != nil
            }
            let home = try #require(try await streams.control.find(app: Fleet.app, send: "held")).places[0]
            guard case .ok = try await streams.control.apply(.pause, to: SendKey(app: Fleet.app, id: "held"), at: home)
            else {
                return
            }
            try await eventually("its worth is gone", timeout: .seconds(5)) { SystemClock().now() > soon }
            guard case .ok = try await streams.control.apply(.resume, to: SendKey(app: Fleet.app, id: "held"), at: home)
            else {
                return
            }
            let ledger = try await fleet.completion(of: "held")
            #expect(ledger.planned == 0 && ledger.isExpired && fleet.accepted(of: "held").isEmpty)
            try await eventually("its receipt is there") { try await fleet.receipts(of: "held").count == 1 }
            #expect(try await fleet.receipts(of: "held").map(\.problem?.code) == ["expired"])
            for shard in 0..<2 {
                let keys = streams.keys(shard: shard)
                #expect(
                    try await fleet.client.send(RedisCommand("XLEN", .text(keys.dead)), on: keys.tag).root.integer == 0
                )
            }
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }
}
