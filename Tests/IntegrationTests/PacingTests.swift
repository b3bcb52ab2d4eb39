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

@Suite(.serialized) struct PacingTests {
    /// A fleet whose dispatchers keep rates.
    private func withFleet(
        applePerSecond: Int? = nil,
        googlePerMinute: Int? = nil,
        faults: FaultPlan = FaultPlan(),
        _ body: (Fleet) async throws -> Void,
    ) async throws {
        var configuration = LocalClusterConfiguration()
        configuration.rates.applePerSecond = applePerSecond
        configuration.rates.googlePerMinute = googlePerMinute
        configuration.simulator.faults = faults
        try await LocalCluster.with(configuration) { try await body($0) }
    }

    /// Devices of one provider, all in the topic "news"; their tokens.
    private func load(_ fleet: Fleet, _ count: Int, _ provider: Provider) async throws -> Set<String> {
        Set(try await fleet.register(count, providers: [provider]) { _ in ["news"] }.map(\.token))
    }

    private var now: Int64 { SystemClock().nanosecondsSince1970() }

    private func route(_ fleet: Fleet, _ provider: Provider) async throws -> RouteNumber {
        try await fleet.installation.streams.routes.number(
            of: Route(app: try AppID(Fleet.app), provider: provider, environment: .production)
        )
    }

    @Test func `Two dispatchers share a rate and never exceed it`() async throws {
        let (rate, window) = (2_000, 32)
        try await self.withFleet(applePerSecond: rate) { fleet in
            let audience = try await self.load(fleet, rate * 6, .apns)
            let dispatchers = [
                try await fleet.startDispatcher(["window": "\(window)"]),
                try await fleet.startDispatcher(["window": "\(window)"]),
            ]
            let feedback = try await fleet.startFeedback()
            try await fleet.send(.topic("news"), id: "limited")
            let ledger = try await fleet.completion(of: "limited", timeout: .seconds(180))
            #expect(ledger.total(.accepted) == UInt64(audience.count))
            #expect(Comparison(accepted: fleet.accepted(of: "limited"), audience: audience) == .exact)
            let accepted = fleet.simulator.ledger.snapshot.timeline.buckets.map { $0.count(.apns) }
            // In any second at most the rate, a twentieth of it, and what a busy simulator had left on the wire before.
            let most = (0..<max(1, accepted.count - 99)).map { accepted[$0...].prefix(100).reduce(0, +) }.max() ?? 0
            #expect(most <= rate * 105 / 100 + 2 * window)
            for dispatcher in dispatchers { try await dispatcher.terminate() }
            try await feedback.terminate()
        }
    }

    @Test func `When Google says that the project sends too much, all dispatchers stop for that time and lose nothing`()
        async throws
    {
        var plan = FaultPlan(seed: 1)
        plan.retryAfter = .seconds(3)
        try await self.withFleet(googlePerMinute: 60_000, faults: plan) { fleet in
            let audience = try await self.load(fleet, 4_000, .fcm)
            let dispatchers = [
                try await fleet.startDispatcher(["window": "64"]),
                try await fleet.startDispatcher(["window": "64"]),
            ]
            let feedback = try await fleet.startFeedback()
            try await fleet.send(.topic("news"), id: "storm")
            try await eventually("it is under way") { fleet.accepted(of: "storm").count > 500 }
            #expect(fleet.simulator.addScript(FaultScript(route: .fcm, count: 20, fault: .tooManyRequests)))
            let route = try await self.route(fleet, .fcm)
            try await eventually("all are told to stop") {
                try await fleet.installation.streams.routes.state(of: route).rateLimit.pauseMilliseconds > 0
            }
            let told = self.now
            #expect(try await fleet.installation.streams.routes.state(of: route).rateLimit.level == 0.5)
            try await eventually("all others are accepted", timeout: .seconds(180)) {
                fleet.accepted(of: "storm").count >= audience.count - 20
            }
            // Those wait in Redis, for a minute at most; some have been tried again by now.
            try await eventually("the ledger says so") {
                guard let ledger = try await fleet.installation.streams.outcomes.ledger(app: Fleet.app, send: "storm")
                else {
                    return false
                }
                return ledger.planned == UInt64(audience.count) && ledger.total(.open) <= 20
            }
            #expect(fleet.accepted(of: "storm").values.allSatisfy { $0 == 1 })
            let timeline = fleet.simulator.ledger.snapshot.timeline
            // One beat and what was on the wire later nothing came until the stop was over.
            #expect(timeline.accepted(.fcm, from: told + 500_000_000, to: told + 2_500_000_000) == 0)
            for dispatcher in dispatchers { try await dispatcher.terminate() }
            try await feedback.terminate()
        }
    }

    @Test func `A send keeps its own rate, and a new one counts from the next report on`() async throws {
        try await Fleet.with { fleet in
            let audience = try await self.load(fleet, 3_000, .apns)
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            try await fleet.send(.topic("news"), id: "slow") { $0.ratePerSecond = 200 }
            try await eventually("it has begun") { !fleet.accepted(of: "slow").isEmpty }
            let begin = self.now
            try await eventually("three seconds are over") { self.now - begin > 3_000_000_000 }
            let slow = fleet.simulator.ledger.snapshot.timeline.accepted(.apns, from: begin, to: begin + 3_000_000_000)
            #expect((500...660).contains(slow))
            let streams = fleet.installation.streams
            let home = streams.home(app: Fleet.app, "slow")
            _ = try await streams.control.apply(.rate(0), to: SendKey(app: Fleet.app, id: "slow"), at: home)
            let ledger = try await fleet.completion(of: "slow", timeout: .seconds(10))
            #expect(ledger.total(.accepted) == UInt64(audience.count))
            #expect(Comparison(accepted: fleet.accepted(of: "slow"), audience: audience) == .exact)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `A slow send keeps no other of its shard and route waiting`() async throws {
        try await Fleet.with { fleet in
            let audience = try await self.load(fleet, 20_000, .apns)
            let dispatcher = try await fleet.startDispatcher(["units_in_hand": "2"])
            let feedback = try await fleet.startFeedback()
            let streams = fleet.installation.streams
            let shard = streams.home(app: Fleet.app, "send-0").tag
            // More than there are places for plans or units, all of one shard.
            let ids = (0..<500).map { "send-\($0)" }.filter { streams.home(app: Fleet.app, $0).tag == shard }
            let (slow, quick) = (ids.prefix(3), try #require(ids.last))
            for send in slow { try await fleet.send(.topic("news"), id: send) { $0.ratePerSecond = 20 } }
            try await eventually("all slow ones have begun") {
                slow.allSatisfy { !fleet.accepted(of: $0).isEmpty }
            }
            try await fleet.send(.topic("news"), id: quick)
            let ledger = try await fleet.completion(of: quick, timeout: .seconds(60))
            #expect(ledger.total(.accepted) == UInt64(audience.count))
            // At their rate they would need a quarter of an hour each.
            for send in slow {
                #expect(fleet.accepted(of: send).count < audience.count / 2)
                _ = try await streams.control.apply(
                    .cancel,
                    to: SendKey(app: Fleet.app, id: send),
                    at: streams.home(app: Fleet.app, send)
                )
            }
            for send in slow { _ = try await fleet.completion(of: send, timeout: .seconds(60)) }
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `A send that is slowed while it runs keeps no other of its shard and route waiting`() async throws {
        try await Fleet.with { fleet in
            let audience = try await self.load(fleet, 32_000, .apns)
            let streams = fleet.installation.streams
            let route = try await self.route(fleet, .apns)
            let keys = streams.home(app: Fleet.app, "send-0")
            let ids = (0..<500).map { "send-\($0)" }.filter { streams.home(app: Fleet.app, $0).tag == keys.tag }
            let (slow, quick) = (SendKey(app: Fleet.app, id: ids[0]), ids[1])
            try await streams.routes.control(route, .pause)
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            try await fleet.send(.topic("news"), id: slow.id)
            let units = RedisCommand("XLEN", .text(keys.work(route, .bulk)))
            try await eventually("as much of it is planned as may wait") {
                let count = try await fleet.client.send(units, on: keys.tag).root.integer ?? 0
                return count > Int64(StreamLimits.unitsWaitingMax - StreamLimits.unitsPerStepMax)
            }
            _ = try await streams.control.apply(.rate(20), to: slow, at: keys)
            try await streams.routes.control(route, .resume)
            try await eventually("it has begun") { !fleet.accepted(of: slow.id).isEmpty }
            try await fleet.send(.topic("news"), id: quick)
            let ledger = try await fleet.completion(of: quick, timeout: .seconds(180))
            #expect(ledger.total(.accepted) == UInt64(audience.count))
            // At its rate it would need half an hour.
            #expect(fleet.accepted(of: slow.id).count < audience.count / 2)
            _ = try await streams.control.apply(.cancel, to: slow, at: keys)
            _ = try await fleet.completion(of: slow.id, timeout: .seconds(60))
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `Without Redis sending stops within a second, and resumes by itself`() async throws {
        try await self.withFleet(applePerSecond: 1_500) { fleet in
            let audience = try await self.load(fleet, 6_000, .apns)
            let dispatcher = try await fleet.startDispatcher(["window": "64"])
            let feedback = try await fleet.startFeedback()
            try await fleet.send(.topic("news"), id: "away")
            try await eventually("it is under way") { fleet.accepted(of: "away").count > 500 }
            fleet.redis.suspend()
            let away = self.now
            try await eventually("two seconds are over") { self.now - away > 2_000_000_000 }
            #expect(
                fleet.simulator.ledger.snapshot.timeline.accepted(.apns, from: away + 1_000_000_000) == 0
            )
            fleet.redis.resume()
            let ledger = try await fleet.completion(of: "away", timeout: .seconds(180))
            #expect(ledger.total(.accepted) == UInt64(audience.count))
            #expect(Comparison(accepted: fleet.accepted(of: "away"), audience: audience) == .exact)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `A paused route blocks no other and no mailbox, and continues when it is resumed`() async throws {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(1_000) { _ in ["news"] }
            let google = devices.filter { $0.provider == .fcm }
            let streams = fleet.installation.streams
            let route = try await self.route(fleet, .fcm)
            try await streams.routes.control(route, .pause)
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            try await fleet.send(.topic("news"), id: "planned")
            // More than a mailbox's credit.
            for index in 0..<300 {
                try await fleet.send(.devices([google[index].id]), id: "direct-\(index)", lane: .express)
            }
            try await fleet.send(.devices([devices[0].id]), id: "apple", lane: .express)
            try await eventually("Apple's go out") {
                fleet.accepted(of: "planned").count == 500 && fleet.accepted(of: "apple").count == 1
            }
            for index in 0..<300 {
                try await eventually("Google's are kept as units of their route") {
                    try await streams.outcomes.ledger(app: Fleet.app, send: "direct-\(index)") != nil
                }
            }
            #expect(fleet.simulator.ledger.snapshot.timeline.accepted(.fcm, from: 0) == 0)
            try await streams.routes.control(route, .resume)
            let ledger = try await fleet.completion(of: "planned", timeout: .seconds(120))
            #expect(ledger.total(.accepted) == 1_000)
            for index in 0..<300 {
                let ledger = try await fleet.completion(of: "direct-\(index)", timeout: .seconds(120))
                #expect(ledger.planned == 1 && ledger.total(.accepted) == 1)
            }
            #expect(fleet.simulator.ledger.snapshot.timeline.accepted(.fcm, from: 0) == 800)
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }
}
