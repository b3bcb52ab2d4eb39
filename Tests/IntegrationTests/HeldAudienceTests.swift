import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusSimulator
import ApusStore
import ApusStreams
import ApusTestKit
import Synchronization
import Testing

/// Sends to audiences that a provider holds: one request each; and to devices known by their installation id.
@Suite(.serialized) struct HeldAudienceTests {
    private func expectOne(_ outcome: Outcome, of send: String, _ fleet: Fleet) async throws {
        try await eventually("\(send) has its receipt") {
            try await fleet.receipts(of: send).contains { $0.kind == .final }
        }
        let receipts = try await fleet.receipts(of: send)
        let receipt = try #require(receipts.first { $0.kind == .final })
        #expect(receipt.planned == 1)
        #expect(receipt.counts.map(\.outcome) == [outcome], "\(send): \(receipt.counts)")
    }

    @Test func `A topic and a condition of FCM's are one message each, now, later, and after a refusal`() async throws {
        try await Fleet.with { fleet in
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            try await fleet.send(.fcmTopic("/topics/news"), id: "topic", lane: .express)
            try await self.expectOne(.accepted, of: "topic", fleet)
            try await fleet.send(.fcmCondition("'news' in topics && !('muted' in topics)"), id: "condition")
            try await self.expectOne(.accepted, of: "condition", fleet)
            try await fleet.send(.fcmGroup("APA91bgroup"), id: "group")
            try await self.expectOne(.accepted, of: "group", fleet)
            #expect(fleet.accepted(of: "group") == ["APA91bgroup": 1])
            fleet.simulator.declare(.dead(since: UnixMilliseconds(5)), of: "APA91bgone", provider: .fcm)
            try await fleet.send(.fcmGroup("APA91bgone"), id: "gone")
            try await self.expectOne(.unregistered, of: "gone", fleet)
            try await fleet.send(.fcmTopic("once"), id: "once") { $0.delivery = .atMostOnce }
            #expect(try await fleet.completion(of: "once").total(.accepted) == 1)
            #expect(fleet.simulator.addScript(FaultScript(route: .fcm, count: 1, fault: .unavailable)))
            try await fleet.send(.fcmTopic("retried"), id: "retried")
            let ledger = try await fleet.completion(of: "retried") { try await fleet.makeRetriesDue() }
            #expect(ledger.planned == 1 && ledger.total(.accepted) == 1)
            #expect(fleet.accepted(of: "topic") == ["/topics/news": 1])
            #expect(fleet.accepted(of: "condition") == ["'news' in topics && !('muted' in topics)": 1])
            #expect(fleet.accepted(of: "once") == ["/topics/once": 1])
            #expect(fleet.accepted(of: "retried") == ["/topics/retried": 1])

            try await fleet.send(.fcmTopic("news"), id: "counted") { $0.notification.badge = .increment(1) }
            try await eventually("what differs between devices is refused") {
                try await fleet.receipts(of: "counted").first?.problem?.field == "notification.badge_increment"
            }
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `D83 an installation id that is gone is dropped, and the same user's token stays`() async throws {
        try await Fleet.with { fleet in
            let app = try AppID(Fleet.app)
            let store = fleet.installation.store
            var installation = DeviceRegistration(device: "by-fid", provider: .fcm, token: "fid-0123456789abcdefghij")
            installation.tokenKind = .installation
            installation.user = "ada"
            var token = DeviceRegistration(device: "by-token", provider: .fcm, token: "device:of-ada")
            token.user = "ada"
            for registration in [installation, token] { _ = try await store.register(app, registration) }
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            let seen = SeenBodies()
            fleet.simulator.observe { seen.add($0) }
            try await fleet.send(.users(["ada"]), id: "both", lane: .express)
            try await eventually("both are reached") { fleet.accepted(of: "both").count == 2 }
            #expect(seen.targets == ["fid:fid-0123456789abcdefghij", "token:device:of-ada"])
            fleet.simulator.declare(
                .dead(since: UnixMilliseconds(SystemClock().now().value)),
                of: installation.token,
                provider: .fcm,
            )
            try await fleet.send(.users(["ada"]), id: "again", lane: .express)
            try await eventually("the installation id is dropped") {
                try await store.get(app, try DeviceID("by-fid")) == nil
            }
            #expect(try await store.get(app, try DeviceID("by-token")) != nil)
            #expect(fleet.accepted(of: "again") == ["device:of-ada": 1])
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `FCM's apns block reaches FCM, and a Live Activity's token goes to one device alone`()
        async throws
    {
        try await Fleet.with { fleet in
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            let seen = SeenBodies()
            fleet.simulator.observe { seen.add($0) }
            let block =
                #"{"live_activity_token":"ab12","headers":{"apns-priority":"5"},"#
                + #""payload":{"aps":{"event":"update","content-state":{"score":1}}},"#
                + #""fcm_options":{"analytics_label":"match"}}"#
            let address = Target.addresses([Address(provider: .fcm, token: "device:of-ada")])
            try await fleet.send(address, id: "activity", lane: .express) { $0.notification.fcmAPNsJSON = block }
            try await self.expectOne(.accepted, of: "activity", fleet)
            let apple = seen.apple["device:of-ada"]
            #expect(apple?["live_activity_token"] == "ab12")
            #expect(apple?["headers"] == ["apns-push-type": "liveactivity", "apns-priority": "5"])
            #expect(apple?["payload"]?["aps"]?["event"] == "update")
            #expect(apple?["fcm_options"] == ["analytics_label": "match"])
            try await fleet.send(.fcmTopic("news"), id: "many") { $0.notification.fcmAPNsJSON = block }
            try await eventually("an audience is refused") {
                try await fleet.receipts(of: "many").first?.problem?.field
                    == "notification.fcm_apns_json.live_activity_token"
            }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }
}

/// Returns the addressees of the messages at FCM.
private final class SeenBodies: Sendable {
    private let found = Mutex<Set<String>>([])

    private let blocks = Mutex<[String: JSONValue]>([:])

    var targets: Set<String> { self.found.withLock { $0 } }

    /// Returns the block for Apple, by token.
    var apple: [String: JSONValue] { self.blocks.withLock { $0 } }

    func add(_ request: AcceptedRequest) {
        guard let message = (try? JSONValue(parsing: request.body, bytesMax: 1 << 16))?["message"] else { return }
        for name in ["token", "fid"] {
            guard let text = message[name]?.string else { continue }
            _ = self.found.withLock { $0.insert("\(name):\(text)") }
            if let apple = message["apns"] { self.blocks.withLock { $0[text] = apple } }
        }
    }
}
