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

    /// Forgets every device, as a server does that comes back without its last writes: its ordinals are given out again.
    private static func forgetDevices(_ fleet: Fleet) async throws {
        let tag = fleet.installation.store.keys.tag(0)
        let pattern = RedisCommand("KEYS", .text("\(tag)\(Fleet.app):*"))
        for key in try await fleet.client.send(pattern, on: tag).root.children.compactMap(\.string) {
            _ = try await fleet.client.send(RedisCommand("DEL", .text(key)), on: tag)
        }
    }

    @Test func `A message for a device that Redis has forgotten does not reach the one that got its place`()
        async throws
    {
        var configuration = LocalClusterConfiguration()
        configuration.keyspace = Keyspace(queueShards: 2, devicePartitions: 1)
        try await Fleet.with(configuration) { fleet in
            let (store, app) = (fleet.installation.store, try AppID(Fleet.app))
            let feedback = try await fleet.startFeedback()
            let dispatcher = try await fleet.startDispatcher(["recheck_after": "1s"])
            let forgotten = try await fleet.register(1, providers: [.apns]) { _ in ["news"] }
            let first = try #require(try await store.get(app, try DeviceID(forgotten[0].id)))
            // One waits for its retry in Redis, the other is loaded and waits for its route.
            #expect(fleet.simulator.addScript(FaultScript(route: .apns, count: 1, fault: .unavailable)))
            try await fleet.send(.everyone([]), id: "retried")
            try await eventually("it waits for its retry") { try await fleet.waitingForTheirTime() == 1 }
            let routes = try await fleet.pauseRoutes()
            try await Task.sleep(for: .seconds(2))
            try await fleet.send(.topic("news"), id: "held")
            try await eventually("it is planned") {
                try await fleet.ledger(of: "held").map { !$0.isPlanning && $0.planned == 1 } ?? false
            }
            try await Task.sleep(for: .milliseconds(500))

            try await Self.forgetDevices(fleet)
            var stranger = DeviceRegistration(
                device: "stranger",
                provider: .apns,
                token: SampleDevice(app: "another", index: 0).token
            )
            stranger.topics = ["news"]
            let second = try await store.register(app, stranger).device
            #expect(second.reference.partition == first.reference.partition)
            #expect(second.reference.ordinal == first.reference.ordinal)
            try await Task.sleep(for: .milliseconds(1_200))
            for route in routes { try await fleet.installation.streams.routes.control(route, .resume) }
            for send in ["retried", "held"] {
                let ledger = try await fleet.completion(of: send) { try await fleet.makeRetriesDue() }
                #expect(fleet.accepted(of: send).isEmpty, "\(send)")
                #expect(ledger.total(.skipped) == 1 && ledger.planned == 1, "\(send)")
            }
            #expect(fleet.simulator.ledger.snapshot.accepted.isEmpty)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    /// Otherwise its publisher, who asks again, would be told that it is known, and find no receipt.
    @Test func `A direct send that was refused is refused again after a failover that has forgotten it`() async throws {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(1, providers: [.apns])
            let (streams, target) = (fleet.installation.streams, Target.devices([devices[0].id]))
            let dispatcher = try await fleet.startDispatcher()
            _ = try await fleet.redis.command("SAVE")
            // Two of one shard, whose writes are repeated together.
            let home = streams.home(app: Fleet.app, "good")
            let id = try #require(
                (0..<64).map { "big-\($0)" }.first { streams.home(app: Fleet.app, $0) == home }
            )
            func publish() async throws {
                try await fleet.send(target, id: id, lane: .express) {
                    $0.notification.body = String(repeating: "x", count: 4_090)
                }
            }
            try await publish()
            try await eventually("it is refused") { try await fleet.receipts(of: id).map(\.kind) == [.refused] }
            try await fleet.send(target, id: "good", lane: .express)
            try await eventually("the other is sent") { try await fleet.receipts(of: "good").map(\.kind) == [.final] }
            await fleet.redis.kill()
            try await fleet.redis.restart()
            try await eventually("the writes are repeated", timeout: .seconds(60)) {
                try await fleet.receipts(of: "good").map(\.kind) == [.final]
            }
            // It is new once more.
            try await publish()
            try await eventually("it is refused again", timeout: .seconds(60)) {
                try await fleet.receipts(of: id).map(\.kind) == [.refused]
            }
            #expect(fleet.accepted(of: "good") == [devices[0].token: 1])
            try await dispatcher.terminate()
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
            // The requests of each dispatcher that are on the wire or not yet recorded.
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
