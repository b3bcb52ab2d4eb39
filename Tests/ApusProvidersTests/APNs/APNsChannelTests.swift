import ApusAPNs
import ApusCore
import ApusHTTP2
import ApusMessages
import ApusProviders
import Testing

@Suite("APNs: broadcast channels")
struct APNsChannelTests {
    private static let bundleID = "com.example.app"

    private func activity(
        _ event: Notification.LiveActivity.Event = .update,
        _ change: (inout Notification) -> Void = { _ in },
    ) -> Notification {
        notification(.liveActivity) {
            var activity = Notification.LiveActivity(event: event)
            activity.contentStateJSON = #"{"score":1}"#
            $0.liveActivity = activity
            change(&$0)
        }
    }

    private func render(
        _ notification: Notification,
        _ storage: APNsChannelStorage = .none,
        notBefore: UnixMilliseconds? = nil,
    ) throws -> RenderedAPNsBroadcast {
        try APNsRenderer(bundleID: Self.bundleID).render(
            notification,
            channel: APNsChannelID("dHN0LXNyY2gtY2hubA=="),
            storage: storage,
            context: context(notBefore: notBefore),
        )
    }

    @Test("D41 creating a channel: the answer's header names it")
    func create() throws {
        let question = APNsChannelRequest.create(.latest)
        let request = try question.request(
            bundleID: Self.bundleID,
            authority: "localhost:2196",
            authorization: HeaderValue("bearer x"),
        )
        #expect(request.method == "POST" && request.path == "/1/apps/com.example.app/channels")
        #expect(
            String(decoding: request.body, as: UTF8.self)
                == #"{"message-storage-policy":1,"push-type":"LiveActivity"}"#
        )
        let created = PlainAnswer(status: 201, body: [], headers: [.apnsChannelID: "dHN0LXNyY2gtY2hubA=="])
        #expect(try question.reply(created) == .created(APNsChannelID("dHN0LXNyY2gtY2hubA==")))
        #expect(throws: APNsChannelRefusal(status: 201, word: "the answer holds no channel id")) {
            try question.reply(PlainAnswer(status: 201, body: [], headers: [:]))
        }
    }

    @Test("D41 a channel that keeps nothing takes only what expires at once")
    func storage() throws {
        let minute = self.activity { $0.expiry = .ttl(milliseconds: 60_000) }
        #expect(refusal { _ = try self.render(minute) } == "contradiction notification.ttl_ms")
        let moment = self.activity { $0.expiry = .at(UnixMilliseconds(seconds: 1_700_000_060)) }
        #expect(refusal { _ = try self.render(moment) } == "contradiction notification.expires_at_ms")
        #expect(try self.render(self.activity()).expiration == 0)
        #expect(try self.render(self.activity { $0.expiry = .ttl(milliseconds: 0) }).expiration == 0)
        #expect(try self.render(minute, .latest).expiration == 1_700_000_060)
        #expect(try self.render(self.activity(), .latest).expiration == 1_700_000_000 + 8 * 3_600)
        let later = UnixMilliseconds(seconds: 1_700_000_000 + 12 * 3_600)
        let scheduled = try self.render(self.activity(), .latest, notBefore: later)
        #expect(scheduled.expiration == 1_700_000_000 + 20 * 3_600, "it is kept from its time on")
    }

    @Test("a broadcast, header by header")
    func broadcast() throws {
        let broadcast = try self.render(self.activity(.end) { $0.priority = .normal })
        #expect(broadcast.path == "/4/broadcasts/apps/com.example.app")
        #expect(
            broadcast.headers.map { "\($0.name): \($0.value)" } == [
                "apns-channel-id: dHN0LXNyY2gtY2hubA==", "apns-push-type: liveactivity", "apns-priority: 5",
                "apns-expiration: 0",
            ]
        )
        #expect(
            broadcast.body.text
                == #"{"aps":{"timestamp":1700000000,"event":"end","content-state":{"score":1}},"apus.send":"send-1"}"#
        )
    }

    @Test("a broadcast takes each of Apple's priorities, a device only 10 and 5")
    func priorities() throws {
        let headers: [(Notification.Priority, String)] = [(.high, "10"), (.normal, "5"), (.low, "1")]
        for (priority, header) in headers {
            let broadcast = try self.render(self.activity { $0.priority = priority })
            #expect(broadcast.headers.first { $0.name == "apns-priority" }?.value == header)
        }
        let open = try self.render(self.activity())
        #expect(open.headers.first { $0.name == "apns-priority" }?.value == "10")
        let low = self.activity { $0.priority = .low }
        #expect(refusal { _ = try renderAPNs(low) } == "contradiction notification.priority")
    }

    @Test("what a channel cannot do is refused")
    func rules() {
        #expect(refusal { _ = try self.render(notification()) } == "contradiction notification.kind")
        let start = self.activity(.start) {
            $0.liveActivity?.attributesType = "Game"
            $0.liveActivity?.attributesJSON = "{}"
            $0.title = "Game"
        }
        #expect(refusal { _ = try self.render(start) } == "contradiction notification.live_activity.event")
        func state(_ bytes: Int) -> Notification {
            self.activity {
                $0.liveActivity?.contentStateJSON = "{\"s\":\"" + String(repeating: "x", count: bytes) + "\"}"
            }
        }
        let around = 5_120 - ((try? self.render(state(0)))?.body.bytesMax ?? 0)
        #expect(refusal { _ = try self.render(state(around)) } == "sent")
        #expect(refusal { _ = try self.render(state(around + 1)) } == "payload_too_large notification")
        for id in ["", "two words", "===", "a\r\nb", String(repeating: "a", count: 2_000)] {
            #expect(refusal { _ = try APNsChannelID(id) } == "invalid_value target.apns_channel.channel_id")
        }
    }

    @Test("reading, listing and deleting")
    func management() throws {
        let id = try APNsChannelID("YQ==")
        let authorization = try HeaderValue("bearer x")
        func request(_ question: APNsChannelRequest) throws -> String {
            let request = try question.request(
                bundleID: Self.bundleID,
                authority: "localhost",
                authorization: authorization
            )
            let channel = request.headers.first { $0.name == "apns-channel-id" }?.value.text ?? "-"
            return "\(request.method) \(request.path) \(channel)"
        }
        #expect(try request(.read(id)) == "GET /1/apps/com.example.app/channels YQ==")
        #expect(try request(.delete(id)) == "DELETE /1/apps/com.example.app/channels YQ==")
        #expect(try request(.list) == "GET /1/apps/com.example.app/all-channels -")
        let certified = try APNsChannelRequest.list
            .request(bundleID: Self.bundleID, authority: "localhost", authorization: nil)
        #expect(!certified.headers.contains { $0.name == "authorization" }, "the connection shows a certificate")
        func answer(_ status: Int, _ body: String = "") -> PlainAnswer {
            PlainAnswer(status: status, body: Array(body.utf8), headers: [:])
        }
        let stored = answer(200, #"{"message-storage-policy":0,"push-type":"LiveActivity"}"#)
        #expect(try APNsChannelRequest.read(id).reply(stored) == .storage(.none))
        #expect(try APNsChannelRequest.list.reply(answer(200, #"{"channels":["YQ=="]}"#)) == .channels([id]))
        #expect(try APNsChannelRequest.delete(id).reply(answer(204)) == .deleted)
        #expect(throws: APNsChannelRefusal(status: 400, word: "ChannelNotRegistered")) {
            try APNsChannelRequest.read(id).reply(answer(400, #"{"reason":"ChannelNotRegistered"}"#))
        }
        #expect(throws: APNsChannelRefusal(status: 503, word: "no reason")) {
            try APNsChannelRequest.list.reply(answer(503, "<html>"))
        }
    }

    @Test("D42 a channel that is gone ends the send, and no device is touched")
    func gone() {
        func outcome(_ status: Int, _ reason: String) -> DeliveryOutcome {
            APNsAnswer(status: status, body: Array("{\"reason\":\"\(reason)\"}".utf8)).outcome()
        }
        #expect(outcome(400, "ChannelNotRegistered") == .rejected(.unregistered))
        #expect(outcome(400, "BadChannelId") == .rejected(.badToken))
        #expect(outcome(400, "MissingPushType") == .rejected(.payload))
        #expect(outcome(400, "FeatureNotEnabled") == .rejected(.credentials))
        #expect(outcome(403, "TopicMismatch") == .misconfigured(.subroute))
        #expect(
            outcome(503, "Service Unavailable")
                == .deferred(Deferral(.providerUnavailable, scope: .route))
        )
    }
}
