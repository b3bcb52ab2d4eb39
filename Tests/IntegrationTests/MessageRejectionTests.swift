import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusSimulator
import ApusStreams
import ApusTestKit
import Testing

/// Tests that FCM's refusal of a message ends its send, and changes no device.
@Suite(.serialized) struct MessageRejectionTests {
    private static func refusal(
        _ details: String,
        _ message: String = "Request contains an invalid argument.",
    ) -> Fault {
        .answer(
            status: 400,
            body: #"{"error":{"code":400,"message":"\#(message)","#
                + #""status":"INVALID_ARGUMENT","details":[\#(details)]}}"#
        )
    }

    private static func violation(of field: String) -> String {
        #"{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"\#(field)","description":"wrong"}]}"#
    }

    private static func refuse(_ fleet: Fleet, _ fault: Fault, count: Int) {
        fleet.simulator.addScript(FaultScript(route: .fcm, pathContains: "messages:send", count: count, fault: fault))
    }

    private static func refuse(_ fleet: Fleet, _ details: String, count: Int) {
        self.refuse(fleet, Self.refusal(details), count: count)
    }

    @Test(arguments: [
        ("message.android.ttl", Self.refusal(Self.violation(of: "message.android.ttl"))),
        ("message", Self.refusal("", "Message is too big")),
    ])
    func `D51 A message that FCM refuses for every recipient ends early, at FCM alone, and deletes no device`(
        field: String,
        fault: Fault,
    ) async throws {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(
                12_000,
                providers: [.fcm, .fcm, .fcm, .apns],
                topics: { _ in ["news"] }
            )
            let google = UInt64(devices.count { $0.provider == .fcm })
            let apple = UInt64(devices.count) - google
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            Self.refuse(fleet, fault, count: 1_000_000)
            try await fleet.send(.topic("news"), id: "wrong")
            let ledger = try await fleet.completion(of: "wrong")
            #expect(ledger.planned == 12_000 && ledger.total(.open) == 0)
            #expect(ledger.total(.rejected) == google && ledger.total(.accepted) == apple)
            #expect(ledger.counts.filter { $0.outcome == .rejected }.allSatisfy { $0.reason == .payload })
            let seen = fleet.simulator.ledger.snapshot.summary.count(.fcm)
            // As many as prove it to the dispatcher's event loop, and perhaps once more beside the ledger's answer.
            #expect((20...50).contains(seen), "\(seen) of \(google) were sent to")
            #expect(ledger.problem?.code == "message_refused" && ledger.problem?.field == field)
            let watched = try fleet.apus("watch", "wrong").json["problem"] as? [String: Any]
            #expect(watched?["code"] as? String == "message_refused")
            try await eventually("its publisher is told", timeout: .seconds(60)) {
                try await fleet.receipts(of: "wrong").contains {
                    $0.kind == .final && $0.problem?.code == "message_refused"
                        && $0.problem?.field == field
                }
            }
            // The next send is another message.
            fleet.simulator.clearFaults()
            try await fleet.send(.topic("news"), id: "fixed")
            #expect(try await fleet.completion(of: "fixed").total(.accepted) == 12_000)
            #expect(try await fleet.deleted(devices) == 0)
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `D50 A message that FCM refuses for one recipient is flagged, and goes to all others`() async throws {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(1_000, providers: [.fcm], topics: { _ in ["news"] })
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            Self.refuse(fleet, Self.violation(of: "message.data[0].value"), count: 1)
            try await fleet.send(.topic("news"), id: "odd")
            let ledger = try await fleet.completion(of: "odd")
            #expect(ledger.total(.rejected) == 1 && ledger.total(.accepted) == 999)
            #expect(ledger.problem?.code == "message_partly_refused")
            #expect(ledger.problem?.field == "message.data[0].value" && ledger.refusedField == nil)
            #expect(try await fleet.deleted(devices) == 0)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test(arguments: [
        (
            "",
            Self.refusal(
                Self.violation(of: "message.apns.payload") + ","
                    + #"{"@type":"type.googleapis.com/google.firebase.fcm.v1.ApnsError","statusCode":400,"reason":"PayloadTooLarge"}"#
            )
        ),
        ("message.android", Self.refusal("", "Android message is too big")),
    ])
    func `D51 D54 FCM's refusals of one platform end no send: every recipient is tried, and FCM's own are told`(
        field: String,
        fault: Fault,
    ) async throws {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(600, providers: [.fcm], topics: { _ in ["news"] })
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            Self.refuse(fleet, fault, count: 300)
            try await fleet.send(.topic("news"), id: "half")
            let ledger = try await fleet.completion(of: "half")
            #expect(ledger.total(.rejected) == 300 && ledger.total(.accepted) == 300)
            #expect(ledger.problem?.code == (field.isEmpty ? nil : "message_partly_refused"))
            #expect((ledger.problem?.field ?? "") == field && ledger.refusedField == nil)
            #expect(fleet.simulator.ledger.snapshot.summary.count(.fcm) == 600)
            #expect(try await fleet.deleted(devices) == 0)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }
}
