import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusRedis
import ApusSimulator
import ApusStore
import ApusStreams
import ApusTestKit
import Foundation
import Testing

@Suite(.serialized) struct SendControlCommandTests {
    /// Answers slow enough that an operator finds the send under way.
    private static func slow(apns: Int64 = 0, fcm: Int64 = 0) -> FaultPlan {
        var plan = FaultPlan(seed: 1)
        plan.apns.delayMilliseconds = apns
        plan.fcm.delayMilliseconds = fcm
        return plan
    }

    /// Devices of the topic "news", half of Apple's, half of Google's, loaded at once; their tokens.
    private static func load(_ count: Int, _ fleet: Fleet) async throws -> (apns: Set<String>, fcm: Set<String>) {
        let registrations = (0..<count).map { index in
            let digits = String(index, radix: 16)
            let hexadecimal = String(repeating: "0", count: 64 - digits.count) + digits
            var registration =
                index.isMultiple(of: 2)
                ? DeviceRegistration(device: "d\(index)", provider: .apns, token: hexadecimal)
                : DeviceRegistration(device: "d\(index)", provider: .fcm, token: "fcm-\(index):\(hexadecimal)")
            registration.topics = ["news"]
            return registration
        }
        try await fleet.installation.store.load(AppID(Fleet.app), count: count) { registrations[$0] }
        func tokens(_ provider: Provider) -> Set<String> {
            Set(registrations.filter { $0.provider == provider }.map(\.token))
        }
        return (tokens(.apns), tokens(.fcm))
    }

    /// Entries of the send that were put aside.
    private static func held(_ send: String, _ fleet: Fleet) async throws -> Int64 {
        let found = try await fleet.installation.streams.control.find(app: Fleet.app, send: send)
        let keys = try #require(found).places[0]
        let command = RedisCommand("LLEN", .text(keys.held(SendKey(app: Fleet.app, id: send))))
        return try await fleet.client.send(command, on: keys.tag).root.integer ?? 0
    }

    /// Requests that were accepted after an operator's command had returned.
    private static func late(after returned: Int64, _ fleet: Fleet) -> Int {
        fleet.simulator.ledger.snapshot.acceptedCount(since: returned, send: "s")
    }

    /// The maximum of those: for each of two routes of a dispatcher, what was on the wire, and what follows until its units have heard of
    /// the command with their next reports.
    private static func lateMax(_ dispatchers: Int) -> Int { dispatchers * 2 * 2 * Self.window }

    @Test(arguments: [(2_000, 1), (10_000, 1), (15_000, 2)])
    func `A cancelled send reports exactly who was reached`(reached: Int, dispatcherCount: Int) async throws {
        try await Fleet.with(faults: Self.slow(apns: 100, fcm: 100)) { fleet in
            let tokens = try await Self.load(60_000, fleet)
            var dispatchers: [ServiceProcess] = []
            for _ in 0..<dispatcherCount {
                dispatchers.append(try await fleet.startDispatcher(["window": "\(Self.window)"]))
            }
            let feedback = try await fleet.startFeedback()
            try await fleet.send(.topic("news"), id: "s")
            let streams = fleet.installation.streams
            try await eventually("\(reached) are reached") {
                fleet.simulator.ledger.snapshot.acceptedCount(since: 0, send: "s") >= reached
            }
            let home = try #require(try await streams.control.find(app: Fleet.app, send: "s")).places[0]
            let cancelled = try fleet.apus("cancel", "s", "--app", Fleet.app)
            let returned = SystemClock().nanosecondsSince1970()
            #expect(cancelled.code == 0)
            let ledger = try await fleet.completion(of: "s")
            let late = Self.late(after: returned, fleet)
            #expect(late <= Self.lateMax(dispatcherCount), "\(late) accepted after `cancel` had returned")

            let accepted = fleet.accepted(of: "s")
            #expect(accepted.values.allSatisfy { $0 == 1 })
            #expect(Set(accepted.keys).isSubset(of: tokens.apns.union(tokens.fcm)))
            #expect(ledger.total(.accepted) == UInt64(accepted.count))
            #expect(ledger.total(.accepted) + ledger.total(.cancelled) == ledger.planned)
            #expect(ledger.planned <= 60_000 && ledger.total(.open) == 0)
            #expect(accepted.count < 60_000 && ledger.total(.cancelled) > 0)
            // Besides those that told how far it was.
            func finals() async throws -> [SendReceipt] {
                try await fleet.receipts(of: "s").filter { $0.kind == .final }
            }
            try await eventually("its receipt is there") { try await finals().count == 1 }
            let counts = try await finals().flatMap(\.counts)
            #expect(counts.filter { $0.outcome == .cancelled }.reduce(0) { $0 + $1.count } == ledger.total(.cancelled))
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            #expect(
                try await streams.control.apply(.pause, to: SendKey(app: Fleet.app, id: "s"), at: home) == .over(.done)
            )
            for dispatcher in dispatchers { try await dispatcher.terminate() }
            try await feedback.terminate()
        }
    }

    /// Recipients of a route that may be on the wire at once.
    private static let window = 200

    @Test func `What was cancelled or paused while its route was paused does not go out when the route is resumed`()
        async throws
    {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(40) { _ in ["news"] }
            let (streams, routes) = (fleet.installation.streams, fleet.installation.streams.routes)
            let feedback = try await fleet.startFeedback(lease: "1s")
            let dispatcher = try await fleet.startDispatcher(lease: "1s")
            let numbers = try await routes.all().map(\.number)
            for round in 1...4 {
                for number in numbers { try await routes.control(number, .pause) }
                // The dispatcher learns of it with its next lease.
                try await Task.sleep(for: .seconds(3))
                let ids = ["single-\(round)", "topic-\(round)", "held-\(round)"]
                try await fleet.send(.devices([devices[round].id]), id: ids[0], lane: .express)
                try await fleet.send(.topic("news"), id: ids[1])
                try await fleet.send(.topic("news"), id: ids[2])
                var found: [String: SendControl.Found] = [:]
                try await eventually("all wait for their routes") {
                    for id in ids { found[id] = try await streams.control.find(app: Fleet.app, send: id) }
                    return found.count == ids.count
                }
                // The units have begun, and some of them have just asked whether they may.
                try await Task.sleep(for: .milliseconds(400 * round))
                for (id, command) in zip(ids, [SendControlCommand.cancel, .cancel, .pause]) {
                    let place = try #require(found[id]).places[0]
                    _ = try await streams.control.apply(command, to: SendKey(app: Fleet.app, id: id), at: place)
                }
                for number in numbers { try await routes.control(number, .resume) }
                for id in ids[..<2] {
                    let ledger = try await fleet.completion(of: id)
                    #expect(ledger.total(.accepted) == 0 && ledger.total(.cancelled) == ledger.planned, "\(id)")
                }
                #expect(ids.allSatisfy { fleet.accepted(of: $0).isEmpty }, "round \(round)")
            }
            // A later send goes out, and so does a paused one, as soon as it is resumed.
            try await fleet.send(.topic("news"), id: "after")
            #expect(try await fleet.completion(of: "after").total(.accepted) == 40)
            for round in 1...4 {
                #expect(fleet.accepted(of: "held-\(round)").isEmpty)
                let key = SendKey(app: Fleet.app, id: "held-\(round)")
                let place = try #require(try await streams.control.find(app: Fleet.app, send: key.id)).places[0]
                _ = try await streams.control.apply(.resume, to: key, at: place)
                #expect(try await fleet.completion(of: key.id).total(.accepted) == 40)
            }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `A paused send stands still, survives a kill, and is completed exactly once`() async throws {
        try await Fleet.with(faults: Self.slow(apns: 100, fcm: 100)) { fleet in
            let tokens = try await Self.load(20_000, fleet)
            let feedback = try await fleet.startFeedback(lease: "1s")
            let first = try await fleet.startDispatcher(["lease": "1s", "window": "\(Self.window)"])
            try await fleet.send(.topic("news"), id: "s")
            try await eventually("a third is reached") { fleet.accepted(of: "s").count >= 6_000 }
            let paused = try fleet.apus("pause", "s", "--app", Fleet.app)
            let returned = SystemClock().nanosecondsSince1970()
            #expect(paused.code == 0 && paused.json["state"] as? String == "paused")
            try await eventually("all of it is put aside") {
                try await fleet.unfinishedEntries().keys.allSatisfy { $0.hasSuffix("}held:\(Fleet.app)/s") }
            }
            let count = fleet.accepted(of: "s").count
            #expect(count < 20_000)
            let late = Self.late(after: returned, fleet)
            #expect(late <= Self.lateMax(1), "\(late) accepted after `pause` had returned")
            let held = try await Self.held("s", fleet)
            #expect(held > 0)
            await first.kill()
            let second = try await fleet.startDispatcher(lease: "1s")
            try await Task.sleep(for: .seconds(2))
            #expect(fleet.accepted(of: "s").count == count)
            #expect(try await Self.held("s", fleet) == held)

            let rated = try fleet.apus("rate", "s", "0")
            #expect(rated.code == 0 && rated.json["rate_per_second"] as? Int == 0)
            let resumed = try fleet.apus("resume", "s")
            #expect(resumed.code == 0 && resumed.json["rate_per_second"] as? Int == 0)
            let ledger = try await fleet.completion(of: "s")
            let audience = tokens.apns.union(tokens.fcm)
            #expect(Comparison(accepted: fleet.accepted(of: "s"), audience: audience) == .exact)
            #expect(ledger.planned == 20_000 && ledger.total(.accepted) == 20_000)
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            #expect(try fleet.apus("cancel", "s").code == 1)
            #expect(try fleet.apus("cancel").code == 64)
            try await second.terminate()
            try await feedback.terminate()
        }
    }
}
