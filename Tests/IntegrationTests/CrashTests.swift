import ApusCore
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusSimulator
import ApusStreams
import ApusTestKit
import Testing

@Suite(.serialized) struct CrashTests {
    /// Answers slow enough that a kill finds the send under way.
    private static func slow(_ milliseconds: Int64) -> FaultPlan {
        var rates = FaultRates()
        rates.delayMilliseconds = milliseconds
        var plan = FaultPlan(seed: 1)
        plan.apns = rates
        plan.fcm = rates
        return plan
    }

    @Test func `A dispatcher killed in the middle of a topic send is relieved by another, and nobody is lost`()
        async throws
    {
        try await Fleet.with(faults: Self.slow(300)) { fleet in
            let devices = try await fleet.register(12_000) { _ in ["news"] }
            let feedback = try await fleet.startFeedback(lease: "1s")
            let first = try await fleet.startDispatcher(lease: "1s")
            try await fleet.send(.topic("news"), id: "s")
            try await eventually("a third is sent") { fleet.accepted(of: "s").count >= 4_000 }
            await first.kill()
            let atTheKill = fleet.accepted(of: "s").count
            #expect(atTheKill >= 3_600 && atTheKill <= 8_400, "killed at \(atTheKill) of 12,000")
            let second = try await fleet.startDispatcher(lease: "1s")
            let ledger = try await fleet.completion(of: "s", timeout: .seconds(90))
            let comparison = Comparison(accepted: fleet.accepted(of: "s"), audience: Set(devices.map(\.token)))
            #expect(comparison.lost == 0 && comparison.strangers == 0)
            // What was on the wire at the kill, and what the last flush had not written.
            #expect(comparison.repeated <= 6_000)
            #expect(ledger.planned == 12_000 && ledger.total(.accepted) == 12_000)
            let metrics = try await second.get("metrics").body
            let claimed = metrics.split(separator: "\n")
                .filter { $0.hasPrefix("apus_stream_entries_claimed_total{") }
                .compactMap { $0.split(separator: " ").last.flatMap { Double($0) } }
                .reduce(0, +)
            #expect(claimed >= 1)
            try await eventually("nothing is left") { try await fleet.leftovers() == [:] }
            try await second.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `Two dispatchers share a send, and one that is asked to stop hands its work on without a repeat`()
        async throws
    {
        try await Fleet.with(faults: Self.slow(50)) { fleet in
            let devices = try await fleet.register(12_000) { _ in ["news"] }
            let feedback = try await fleet.startFeedback()
            let one = try await fleet.startDispatcher(lease: "2s")
            let two = try await fleet.startDispatcher(lease: "2s")
            try await fleet.send(.topic("news"), id: "s")
            try await eventually("a quarter is sent") { fleet.accepted(of: "s").count >= 3_000 }
            try await one.terminate()
            let ledger = try await fleet.completion(of: "s", timeout: .seconds(90))
            #expect(Comparison(accepted: fleet.accepted(of: "s"), audience: Set(devices.map(\.token))) == .exact)
            #expect(ledger.total(.accepted) == 12_000)
            try await two.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `Feedback killed in the middle applies every outcome once`() async throws {
        try await Fleet.with(dead: 0.1) { fleet in
            let devices = try await fleet.register(4_000) { _ in ["news"] }
            let dispatcher = try await fleet.startDispatcher()
            let first = try await fleet.startFeedback(lease: "1s")
            try await fleet.send(.topic("news"), id: "s")
            try await eventually("some outcomes are applied") {
                try await fleet.installation.streams.ledger(app: Fleet.app, send: "s").map {
                    $0.total(.unregistered) > 20
                } ?? false
            }
            await first.kill()
            let second = try await fleet.startFeedback(lease: "1s")
            let ledger = try await fleet.completion(of: "s")
            let dead = devices.count { fleet.simulator.isDead($0.token, provider: $0.provider) }
            #expect(ledger.total(.unregistered) == UInt64(dead))
            #expect(ledger.total(.accepted) == UInt64(4_000 - dead))
            #expect(ledger.total(.open) == 0)
            #expect(try await fleet.receipts(of: "s").count(where: { $0.kind == .final }) >= 1)
            try await dispatcher.terminate()
            try await second.terminate()
        }
    }

    @Test func `Redis killed in the middle of a send comes back and loses nobody`() async throws {
        try await Fleet.with(faults: Self.slow(100), isAppendOnly: true) { fleet in
            let devices = try await fleet.register(6_000) { _ in ["news"] }
            let feedback = try await fleet.startFeedback(lease: "2s")
            let dispatcher = try await fleet.startDispatcher(lease: "2s")
            try await fleet.send(.topic("news"), id: "s")
            try await eventually("a part is sent") { fleet.accepted(of: "s").count >= 1_500 }
            await fleet.redis.kill()
            try await fleet.redis.restart()
            let ledger = try await fleet.completion(of: "s", timeout: .seconds(90))
            let comparison = Comparison(accepted: fleet.accepted(of: "s"), audience: Set(devices.map(\.token)))
            #expect(comparison.lost == 0 && comparison.strangers == 0)
            #expect(ledger.total(.accepted) == 6_000)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `Refused streams, goodbyes and 503 with Retry-After end in one acceptance each`() async throws {
        var rates = FaultRates()
        rates.refusal = 0.02
        rates.goAwayAfterRequests = 300
        var plan = FaultPlan(seed: 7)
        plan.apns = rates
        plan.fcm = rates
        try await Fleet.with(faults: plan) { fleet in
            let devices = try await fleet.register(4_000) { _ in ["news"] }
            let feedback = try await fleet.startFeedback()
            let dispatcher = try await fleet.startDispatcher()
            try await fleet.send(.topic("news"), id: "s")
            let ledger = try await fleet.completion(of: "s", timeout: .seconds(90))
            let comparison = Comparison(accepted: fleet.accepted(of: "s"), audience: Set(devices.map(\.token)))
            #expect(comparison.lost == 0 && comparison.strangers == 0)
            #expect(ledger.total(.accepted) == 4_000)
            #expect(fleet.simulator.ledger.snapshot.summary.faults.values.reduce(0, +) > 0)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }
}
