import ApusCore
import ApusHTTP2
import ApusProviders
import ApusWebPush
import Testing

@Suite("Web Push: answers")
struct WebPushAnswerTests {
    private func outcome(_ status: Int, _ body: String = "", retryAfter: Int64? = nil) -> DeliveryOutcome {
        WebPushAnswer(status: status, body: Array(body.utf8)).outcome(retryAfterMilliseconds: retryAfter)
    }

    private func limited(_ retryAfter: Int64? = nil) -> DeliveryOutcome {
        .deferred(Deferral(.rateLimited, scope: .device, retryAfterMilliseconds: retryAfter))
    }

    private func unavailable(_ retryAfter: Int64? = nil) -> DeliveryOutcome {
        .deferred(Deferral(.providerUnavailable, scope: .device, retryAfterMilliseconds: retryAfter))
    }

    @Test("D97 every 2xx is accepted", arguments: [200, 201, 202, 204])
    func accepted(status: Int) { #expect(self.outcome(status) == .accepted) }

    @Test("D98 404 and 410 end a subscription, whoever answers", arguments: [404, 410])
    func gone(status: Int) {
        for body in ["", #"{"errno":103,"message":"expired"}"#, #"{"reason":"BadPath"}"#, "<html></html>"] {
            #expect(self.outcome(status, body) == .unregistered(.unregistered, asOf: nil))
        }
    }

    @Test(
        "D99 401 and words about our token have it signed anew, and cost no subscription",
        arguments: [
            (401, ""), (401, #"{"code":401,"errno":109,"error":"Unauthorized","message":"Invalid"}"#), (403, ""),
            (403, #"{"reason":"BadJwtToken"}"#), (400, #"{"reason":"BadAuthorizationHeader"}"#),
            (403, #"{"reason":"BadVapidPublicKey"}"#),
        ]
    )
    func refused(status: Int, body: String) { #expect(self.outcome(status, body) == .misconfigured(.staleCredential)) }

    @Test("D100 a subscription of another key is quarantined, under whatever status", arguments: [400, 401, 403])
    func otherKey(status: Int) {
        for body in [
            #"{"reason":"VapidPkHashMismatch"}"#, "UnauthorizedRegistration",
            "the VAPID credentials in the authorization header do not correspond to the credentials used to create the subscriptions",
            "the key in the authorization header does not correspond to the sender ID used to subscribe this user",
            #"{"errno":109,"message":"VAPID public key mismatch"}"#,
        ] { #expect(self.outcome(status, body) == .suspect(.wrongSender)) }
    }

    @Test(
        "D102 413 and complaints about the message refuse it alone",
        arguments: [
            (413, ""), (413, #"{"errno":104}"#), (400, ""), (400, #"{"reason":"BadWebPushTopic"}"#),
            (400, #"{"errno":110}"#), (413, #"{"reason":"PayloadTooLarge"}"#),
        ]
    )
    func message(status: Int, body: String) { #expect(self.outcome(status, body) == .rejected(.payload)) }

    @Test("D103 406 and 429 wait, the one device", arguments: [406, 429])
    func slow(status: Int) { #expect(self.outcome(status) == self.limited()) }

    @Test("D103 Microsoft's words for a throttle wait, under whatever status", arguments: [400, 403, 406, 429])
    func throttled(status: Int) {
        let reader = WebPushAnswerReader()
        for word in ["appthrottled", "channelthrottled"] {
            let answer = PlainAnswer(status: status, body: [], headers: [.wnsNotificationStatus: word])
            let meaning = reader.meaning(of: answer, retryAfterMilliseconds: 900_000)
            #expect(meaning.outcome == self.limited(900_000) && meaning.word == word)
        }
    }

    @Test("D109 Microsoft's service may say of a success that it dropped the notification", arguments: [200, 201, 202])
    func droppedSuccess(status: Int) {
        let reader = WebPushAnswerReader()
        func meaning(_ headers: [HTTP2AnswerField: String]) -> AnswerMeaning {
            reader.meaning(of: PlainAnswer(status: status, body: [], headers: headers), retryAfterMilliseconds: 900_000)
        }
        for field in [HTTP2AnswerField.wnsNotificationStatus, .wnsStatus] {
            #expect(reader.qualifyingFields.contains(field) && reader.acceptedStatuses.contains(status))
            #expect(meaning([field: "received"]).outcome == .accepted)
            let dropped = meaning([field: "Dropped"])
            #expect(dropped.outcome == .rejected(.other) && dropped.word == "dropped" && !dropped.wantsTokenProbe)
            let throttled = meaning([field: "channelThrottled"])
            #expect(throttled.outcome == self.limited(900_000) && throttled.word == "channelthrottled")
        }
        // The newer header counts where both are there.
        #expect(meaning([.wnsNotificationStatus: "dropped", .wnsStatus: "received"]).outcome == .rejected(.other))
    }

    @Test(
        "D110 a 400 may mean the subscription; what is about the message, our key, the pace or the size does not",
        arguments: [
            (400, "", true), (400, #"{"errno":101}"#, true), (400, #"{"errno":110}"#, true),
            (400, #"{"errno":999}"#, true), (400, #"{"reason":"BadWebPushRequest"}"#, true),
            (400, #"{"reason":"SomethingNew"}"#, true), (400, #"{"reason":"BadTtl"}"#, false),
            (400, #"{"reason":"BadUrgency"}"#, false), (400, #"{"reason":"BadWebPushTopic"}"#, false),
            (400, #"{"reason":"PayloadTooLarge"}"#, false), (400, #"{"errno":104}"#, false),
            (400, #"{"errno":111,"message":"missing header"}"#, false), (400, #"{"errno":112}"#, false),
            (400, #"{"errno":113}"#, false),
            (400, "UnauthorizedRegistration", false), (400, #"{"reason":"BadJwtToken"}"#, false), (413, "", false),
            (410, "", false), (429, "", false), (307, "", false), (201, "", false),
        ]
    )
    func mayMeanSubscription(status: Int, body: String, mayMean: Bool) {
        let answer = PlainAnswer(status: status, body: Array(body.utf8), headers: [:])
        #expect(
            WebPushAnswerReader().meaning(of: answer, retryAfterMilliseconds: nil).wantsTokenProbe == mayMean
        )
    }

    @Test("D104 429 waits for as long as it says")
    func retryAfter() {
        #expect(self.outcome(429, retryAfter: 3_600_000) == self.limited(3_600_000))
        #expect(self.outcome(503, retryAfter: 120_000) == self.unavailable(120_000))
    }

    @Test("D105 no redirect is followed", arguments: [301, 302, 307, 308])
    func redirect(status: Int) { #expect(self.outcome(status) == .rejected(.other)) }

    @Test(
        "Failures of the service are tried again",
        arguments: [
            (500, ""), (502, #"{"errno":902}"#), (503, ""), (503, #"{"errno":201}"#), (500, #"{"reason":"Shutdown"}"#),
        ]
    )
    func failures(status: Int, body: String) { #expect(self.outcome(status, body) == self.unavailable()) }

    @Test("D108 a body is read up to a limit, and its words are cleaned")
    func words() {
        let long = [UInt8](repeating: 0x61, count: 1_000_000)
        #expect(WebPushAnswer(status: 500, body: long).word?.utf8.count ?? 0 <= Limits.providerTextBytesMax)
        #expect(WebPushAnswer(status: 400, body: Array("bad\u{1b}[0m\nmore".utf8)).word == "bad [0m")
        #expect(WebPushAnswer(status: 400, body: Array("<html>".utf8)).word == nil)
        #expect(WebPushAnswer(status: 400, body: [], description: "Ttl value conflicts").word == "Ttl value conflicts")
    }

    @Test("An answer says where the message is stored, and what the service calls its reason")
    func reader() {
        let reader = WebPushAnswerReader()
        let stored = PlainAnswer(status: 201, body: [], headers: [.location: "https://push.example/m/1"])
        #expect(reader.id(in: stored) == "https://push.example/m/1")
        let refused = PlainAnswer(
            status: 400,
            body: [],
            headers: [.wnsErrorDescription: "Ttl value conflicts", .wnsNotificationStatus: "dropped"],
        )
        #expect(reader.meaning(of: refused, retryAfterMilliseconds: nil).word == "Ttl value conflicts")
        #expect(reader.meaning(of: stored, retryAfterMilliseconds: nil).outcome == .accepted)
    }
}
