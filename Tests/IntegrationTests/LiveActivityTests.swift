import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusSimulator
import ApusStore
import ApusTestKit
import Testing

/// Changes of Live Activities go to the tokens that devices registered for them.
@Suite(.serialized) struct LiveActivityTests {
    private static func token(_ byte: UInt8) -> [UInt8] { Array(repeating: byte, count: 80) }

    private static func text(_ byte: UInt8) -> String { Hexadecimal.encode(Self.token(byte)) }

    private static func put(
        _ fleet: Fleet,
        _ device: SampleDevice,
        _ kind: TokenKind,
        _ activity: String,
        _ byte: UInt8,
        seconds: Int64 = 3_600,
    ) async throws {
        var address = DeviceRecord.SecondaryAddress(kind: kind, token: Self.token(byte))
        address.activityID = activity
        address.expiresAtSeconds = fleet.clock.now().seconds + seconds
        _ = try await fleet.installation.store.putAddress(try AppID(Fleet.app), try DeviceID(device.id), address)
    }

    private static func change(
        _ event: Notification.LiveActivity.Event,
        of activity: String = "final",
    ) -> (inout SendCommand) -> Void {
        { command in
            var change = Notification.LiveActivity(event: event)
            change.contentStateJSON = "{\"score\": 1}"
            if event == .start {
                change.attributesType = "Game"
                change.attributesJSON = "{}"
            } else {
                change.activityID = activity
            }
            command.notification.kind = .liveActivity
            command.notification.liveActivity = change
        }
    }

    private static func receipt(_ kind: SendReceipt.Kind, of send: String, _ fleet: Fleet) async throws -> SendReceipt {
        try await eventually("the receipt of \(send) is there") {
            try await fleet.receipts(of: send).contains { $0.kind == kind }
        }
        let receipts = try await fleet.receipts(of: send)
        return try #require(receipts.first { $0.kind == kind })
    }

    private static func counts(of send: String, _ fleet: Fleet) async throws -> [Outcome: UInt64] {
        let receipt = try await Self.receipt(.final, of: send, fleet)
        return Dictionary(receipt.counts.map { ($0.outcome, $0.count) }, uniquingKeysWith: +)
    }

    @Test(arguments: [false, true])
    func `Activities start by one token and go on by another, devices without one are skipped, and only dead tokens go`(
        isTopic: Bool
    ) async throws {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(4, providers: [.apns], topics: { _ in ["game"] })
            let target: Target = isTopic ? .topic("game") : .devices(devices.map(\.id))
            try await Self.put(fleet, devices[0], .liveActivityStart, "Game", 0xa0)
            try await Self.put(fleet, devices[0], .liveActivityUpdate, "final", 0xa1)
            try await Self.put(fleet, devices[1], .liveActivityUpdate, "final", 0xb1)
            try await Self.put(fleet, devices[1], .liveActivityUpdate, "other", 0xb2)
            try await Self.put(fleet, devices[2], .liveActivityUpdate, "final", 0xc1, seconds: -10)
            try await Self.put(fleet, devices[3], .liveActivityStart, "Game", 0xd0)
            let dispatcher = try await fleet.startDispatcher()
            // Of so few answers one bad token is a large share.
            let feedback = try await fleet.startFeedback(["delete_suspects_after": "1s", "suspect_percent": "100"])

            try await fleet.send(target, id: "start", Self.change(.start))
            #expect(try await Self.counts(of: "start", fleet) == [.accepted: 2, .skipped: 2])
            #expect(fleet.accepted(of: "start") == [Self.text(0xa0): 1, Self.text(0xd0): 1])

            try await fleet.send(target, id: "update", Self.change(.update))
            #expect(try await Self.counts(of: "update", fleet) == [.accepted: 2, .skipped: 2])
            #expect(fleet.accepted(of: "update") == [Self.text(0xa1): 1, Self.text(0xb1): 1])

            // One token dies, another is called bad: their devices are none the worse.
            fleet.simulator.declare(.dead(since: fleet.clock.now()), of: Self.text(0xb1), provider: .apns)
            fleet.simulator.declare(.bad, of: Self.text(0xa1), provider: .apns)
            try await fleet.send(target, id: "end", Self.change(.end))
            #expect(try await Self.counts(of: "end", fleet) == [.unregistered: 1, .rejected: 1, .skipped: 2])
            let (store, app) = (fleet.installation.store, try AppID(Fleet.app))
            func activities(_ index: Int) async throws -> [String]? {
                try await store.get(app, try DeviceID(devices[index].id))?.record.secondary.map(\.activityID)
            }
            try await eventually("the dead token is gone") { try await activities(1) == ["other"] }
            try await eventually("the bad token is gone") { try await activities(0) == ["Game"] }
            try await fleet.send(target, id: "other", Self.change(.update, of: "other"))
            #expect(try await Self.counts(of: "other", fleet) == [.accepted: 1, .skipped: 3])
            try await fleet.send(target, id: "alert")
            #expect(try await Self.counts(of: "alert", fleet) == [.accepted: 4])

            try await fleet.send(target, id: "nameless", Self.change(.update, of: ""))
            let refusal = try await Self.receipt(.refused, of: "nameless", fleet)
            #expect(refusal.problem?.field == "notification.live_activity.activity_id")
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }
}
