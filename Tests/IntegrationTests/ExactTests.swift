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
import Synchronization
import Testing

/// Holds the fields of a request that must be the same in a repeat.
private struct Shown: Hashable {
    /// `apns-id`; Google's messages have none.
    var id: String?
    /// The collapse id at Apple, or the tag of an Android notification.
    var collapseID: String?
    var badge: Int?
}

/// Everything that the simulator accepted, by send and token, in order.
private final class AcceptedRequests: Sendable {
    private let seen = Mutex<[String: [String: [Shown]]]>([:])

    init(_ simulator: Simulator) { simulator.observe { [weak self] in self?.note($0) } }

    func shown(_ send: String) -> [String: [Shown]] { self.seen.withLock { $0[send] ?? [:] } }

    private func note(_ request: AcceptedRequest) {
        guard let json = try? JSONSerialization.jsonObject(with: Data(request.body)) as? [String: Any] else { return }
        var shown = Shown()
        let (send, token): (String?, String?)
        switch request.provider {
        case .apns:
            shown.id = request.headers.first { $0.name == "apns-id" }?.value
            shown.collapseID = request.headers.first { $0.name == "apns-collapse-id" }?.value
            shown.badge = (json["aps"] as? [String: Any])?["badge"] as? Int
            send = json["apus.send"] as? String
            token = request.path.split(separator: "/").last.map(String.init)
        default:
            let message = json["message"] as? [String: Any]
            let android = (message?["android"] as? [String: Any])?["notification"] as? [String: Any]
            let apns = (message?["apns"] as? [String: Any])?["payload"] as? [String: Any]
            shown.collapseID = android?["tag"] as? String
            shown.badge = android?["notification_count"] as? Int
            let appleBadge = (apns?["aps"] as? [String: Any])?["badge"] as? Int
            if appleBadge != shown.badge { shown.badge = -1 }
            send = (message?["data"] as? [String: Any])?["apus_send"] as? String
            token = message?["token"] as? String
        }
        guard let send, let token else { return }
        self.seen.withLock { $0[send, default: [:]][token, default: []].append(shown) }
    }
}

@Suite(.serialized) struct ExactTests {
    /// Answers slow enough that a kill finds the send under way.
    private static func slow(_ milliseconds: Int64) -> FaultPlan {
        var rates = FaultRates()
        rates.delayMilliseconds = milliseconds
        var plan = FaultPlan(seed: 1)
        plan.apns = rates
        plan.fcm = rates
        return plan
    }

    @Test func `Notifications sent while Redis was away for longer than a call's timeout are not sent again`()
        async throws
    {
        try await Fleet.with(faults: Self.slow(1_000)) { fleet in
            let devices = try await fleet.register(2)
            let dispatcher = try await fleet.startDispatcher(lease: "30s")
            let feedback = try await fleet.startFeedback()
            try await fleet.send(.devices(devices.map(\.id)), id: "s", lane: .express)
            try await eventually("both are on the wire") { fleet.simulator.ledger.snapshot.count == 2 }
            fleet.redis.suspend()
            // Longer than any call waits for its answer.
            try await Task.sleep(for: .seconds(8))
            fleet.redis.resume()
            try await eventually("its receipt is there") {
                try await fleet.receipts(of: "s").contains { $0.kind == .final && $0.planned == 2 }
            }
            let audience = Set(devices.map(\.token))
            #expect(Comparison(accepted: fleet.accepted(of: "s"), audience: audience) == .exact)
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            #expect(fleet.simulator.ledger.snapshot.count == 2)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `A repeat after a kill has the same id, replaces the first on the screen and shows the same badge`()
        async throws
    {
        try await Fleet.with(faults: Self.slow(200)) { fleet in
            let accepted = AcceptedRequests(fleet.simulator)
            let devices = try await fleet.register(4_000) { _ in ["news"] }
            let feedback = try await fleet.startFeedback(lease: "1s")
            let first = try await fleet.startDispatcher(lease: "1s")
            try await fleet.send(.topic("news"), id: "s") { $0.notification.badge = .increment(3) }
            try await eventually("a quarter is sent") { fleet.accepted(of: "s").count >= 1_000 }
            await first.kill()
            let second = try await fleet.startDispatcher(lease: "1s")
            let ledger = try await fleet.completion(of: "s", timeout: .seconds(180))
            #expect(ledger.total(.accepted) == 4_000 && ledger.total(.open) == 0)

            let shown = accepted.shown("s")
            #expect(Set(shown.keys) == Set(devices.map(\.token)))
            let repeats = shown.values.filter { $0.count > 1 }
            #expect(repeats.count > 0, "the kill came too late to be of use")
            #expect(repeats.count { Set($0).count > 1 } == 0)
            let all = shown.values.joined()
            #expect(all.count { $0.badge != 3 || $0.collapseID != "s" } == 0)
            let ids = Set(all.compactMap(\.id))
            #expect(ids.count == 2_000)
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            try await second.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `An at-most-once send is sent to nobody twice, whichever process is killed, and the ledger adds up`()
        async throws
    {
        try await Fleet.with(faults: Self.slow(200)) { fleet in
            let devices = try await fleet.register(4_000) { _ in ["news"] }
            let feedback = try await fleet.startFeedback(lease: "1s")
            var dispatcher = try await fleet.startDispatcher(lease: "1s")
            try await fleet.send(.topic("news"), id: "s") { $0.delivery = .atMostOnce }
            for part in [800, 1_600] {
                try await eventually("\(part) are sent") { fleet.accepted(of: "s").count >= part }
                await dispatcher.kill()
                dispatcher = try await fleet.startDispatcher(lease: "1s")
            }
            let ledger = try await fleet.completion(of: "s", timeout: .seconds(180))
            let accepted = fleet.accepted(of: "s")
            let comparison = Comparison(accepted: accepted, audience: Set(devices.map(\.token)))
            #expect(comparison.repeated == 0 && comparison.strangers == 0)
            let failed = ledger.total(.failed)
            #expect(ledger.total(.open) == 0 && ledger.total(.accepted) + failed == 4_000)
            // Recipients whose answers were not written down are reported as failed: at most a window for each unit in hand.
            #expect(failed > 0 && comparison.lost <= Int(failed), "\(comparison), failed \(failed)")
            #expect(failed <= 2 * 12 * 256, "failed \(failed)")
            let unknown = ledger.counts.filter { $0.reason == .unknown }.reduce(0) { $0 + $1.count }
            #expect(unknown == failed)
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            // Handed over in good order it costs nobody.
            try await fleet.send(.topic("news"), id: "t") { $0.delivery = .atMostOnce }
            try await eventually("a part is sent") { fleet.accepted(of: "t").count >= 1_000 }
            let next = try await fleet.startDispatcher(lease: "1s")
            try await dispatcher.terminate()
            let whole = try await fleet.completion(of: "t", timeout: .seconds(180))
            #expect(whole.total(.accepted) == 4_000)
            #expect(Comparison(accepted: fleet.accepted(of: "t"), audience: Set(devices.map(\.token))) == .exact)
            try await next.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `Badges count up from send to send until the app reports that it was opened`() async throws {
        try await Fleet.with { fleet in
            let accepted = AcceptedRequests(fleet.simulator)
            let devices = try await fleet.register(40) { _ in ["news"] }
            let feedback = try await fleet.startFeedback()
            let dispatcher = try await fleet.startDispatcher()
            func badges(_ send: String) -> [Int?: Int] {
                accepted.shown(send).values.joined().reduce(into: [:]) { $0[$1.badge, default: 0] += 1 }
            }
            try await fleet.send(.topic("news"), id: "one") { $0.notification.badge = .increment(1) }
            _ = try await fleet.completion(of: "one")
            #expect(badges("one") == [1: 40])
            try await fleet.send(.devices(devices.prefix(20).map(\.id)), id: "two", lane: .express) {
                $0.notification.badge = .increment(9)
            }
            // The ledger has a request before the observer is told of it.
            try await eventually("they are sent") { badges("two") == [10: 20] }
            let app = try AppID(Fleet.app)
            for device in devices.prefix(5) {
                _ = try await fleet.installation.store.setBadge(app, try DeviceID(device.id), to: 0)
            }
            try await fleet.send(.topic("news"), id: "three") { $0.notification.badge = .increment(1) }
            _ = try await fleet.completion(of: "three")
            #expect(badges("three") == [1: 5, 11: 15, 2: 20])
            try await fleet.send(.topic("news"), id: "plain")
            _ = try await fleet.completion(of: "plain")
            #expect(badges("plain") == [nil: 40])
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    /// A device remembers the last eight sends that were counted. Only the journal of the unit tells of an earlier one.
    @Test(arguments: [false, true])
    func `A unit that leaves its dispatcher before its first outcome counts once in a badge`(
        isPaused: Bool
    ) async throws {
        try await Fleet.with { fleet in
            let (store, app, streams) = (fleet.installation.store, try AppID(Fleet.app), fleet.installation.streams)
            let devices = try await fleet.register(
                1,
                providers: [.apns],
                topics: { _ in ["news"] },
                user: { _ in "ann" },
            )
            let stored = try #require(try await store.devices(app, ofUser: try UserID("ann")).first)
            let route = try #require(try await fleet.pauseRoutes(providers: [.apns]).first)
            let feedback = try await fleet.startFeedback()
            var dispatcher = try await fleet.startDispatcher()
            try await fleet.send(.topic("news"), id: "first") { $0.notification.badge = .increment(1) }
            try await eventually("its unit is in hand") { try await store.badge(of: stored) == 1 }
            let later = (0..<9).map { "later-\($0)" }
            for send in later {
                try await fleet.send(.devices([devices[0].id]), id: send, lane: .express) {
                    $0.notification.badge = .increment(1)
                }
            }
            try await eventually("all are counted") { try await store.badge(of: stored) == 10 }
            if isPaused {
                let (send, home) = (SendKey(app: Fleet.app, id: "first"), streams.home(app: Fleet.app, "first"))
                _ = try await streams.control.apply(.pause, to: send, at: home)
                let held = RedisCommand("LLEN", .text(home.held(send)))
                try await eventually("the unit is put aside") {
                    try await fleet.client.send(held, on: home.tag).root.integer ?? 0 > 0
                }
                _ = try await streams.control.apply(.resume, to: send, at: home)
            } else {
                try await dispatcher.terminate()
                dispatcher = try await fleet.startDispatcher()
            }
            try await streams.routes.control(route, .resume)
            try await eventually("all are sent") {
                (["first"] + later).allSatisfy { fleet.accepted(of: $0) == [devices[0].ledgerToken: 1] }
            }
            #expect(try await store.badge(of: stored) == 10)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }
}
