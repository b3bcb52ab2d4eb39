import ApusCore
import ApusFCM
import ApusProviders
import Testing

@Suite("FCM: answers")
struct FCMAnswerTests {
    private static let types = "type.googleapis.com/google."

    private static func fcm(_ code: String) -> String {
        "{\"@type\":\"\(self.types)firebase.fcm.v1.FcmError\",\"errorCode\":\"\(code)\"}"
    }

    private static func apns(_ status: Int, _ reason: String) -> String {
        "{\"@type\":\"\(self.types)firebase.fcm.v1.ApnsError\",\"statusCode\":\(status),\"reason\":\"\(reason)\"}"
    }

    private static func badRequest(_ fields: String...) -> String {
        let violations = fields.map { "{\"field\":\"\($0)\",\"description\":\"bad\"}" }.joined(separator: ",")
        return "{\"@type\":\"\(self.types)rpc.BadRequest\",\"fieldViolations\":[\(violations)]}"
    }

    private static func quota(_ subject: String, _ description: String) -> String {
        "{\"@type\":\"\(self.types)rpc.QuotaFailure\",\"violations\":[{\"subject\":\"\(subject)\",\"description\":\"\(description)\"}]}"
    }

    private func answer(_ status: Int, _ general: String, _ details: String..., message: String = "m") -> FCMAnswer {
        let details = details.isEmpty ? "" : ",\"details\":[\(details.joined(separator: ","))]"
        let body = "{\"error\":{\"code\":\(status),\"message\":\"\(message)\",\"status\":\"\(general)\"\(details)}}"
        return FCMAnswer(status: status, body: Array(body.utf8))
    }

    @Test("D45 200 is accepted and names the message")
    func accepted() {
        let answer = FCMAnswer(status: 200, body: Array(#"{"name":"projects/p/messages/1"}"#.utf8))
        #expect(answer.outcome() == .accepted)
        #expect(answer.name == "projects/p/messages/1")
        #expect(FCMAnswer(status: 200, body: []).outcome() == .accepted)
    }

    @Test("D46 UNREGISTERED gives the token up")
    func unregistered() {
        let answer = self.answer(404, "NOT_FOUND", Self.fcm("UNREGISTERED"))
        #expect(answer.outcome() == .unregistered(.unregistered, asOf: nil))
        #expect(answer.word == "UNREGISTERED")
    }

    @Test("D47 a bare 404 keeps the token")
    func bareNotFound() {
        #expect(self.answer(404, "NOT_FOUND").outcome() == .misconfigured(.unclear))
        #expect(FCMAnswer(status: 404, body: []).outcome() == .misconfigured(.unclear))
    }

    @Test("D48 not a valid registration token: suspect")
    func invalidToken() {
        let message = "The registration token is not a valid FCM registration token"
        let answer = self.answer(400, "INVALID_ARGUMENT", Self.fcm("INVALID_ARGUMENT"), message: message)
        #expect(answer.outcome() == .suspect(.badToken))
        #expect(!answer.wantsTokenProbe)
        #expect(self.answer(400, "INVALID_ARGUMENT", message: message).outcome() == .rejected(.other))
    }

    @Test("D49 a violation of message.token: suspect, in either order", arguments: ["message.token", "message.fid"])
    func tokenViolation(field: String) {
        let invalid = Self.fcm("INVALID_ARGUMENT")
        #expect(self.answer(400, "INVALID_ARGUMENT", invalid, Self.badRequest(field)).outcome() == .suspect(.badToken))
        #expect(self.answer(400, "INVALID_ARGUMENT", Self.badRequest(field), invalid).outcome() == .suspect(.badToken))
        #expect(self.answer(400, "INVALID_ARGUMENT", Self.badRequest(field)).outcome() == .suspect(.badToken))
    }

    @Test(
        "D50 D51 any other violation fails the message and keeps the token",
        arguments: ["message.data[0].value", "message.android.ttl", "message.tokens", "token"]
    )
    func payloadViolation(field: String) {
        #expect(self.answer(400, "INVALID_ARGUMENT", Self.badRequest(field)).outcome() == .rejected(.payload))
        let both = self.answer(
            400,
            "INVALID_ARGUMENT",
            Self.fcm("INVALID_ARGUMENT"),
            Self.badRequest(field),
            message: "not a valid FCM registration token",
        )
        #expect(both.outcome() == .rejected(.payload))
    }

    @Test("D52 D53 Apple's 410 gives the token up", arguments: ["Unregistered", "ExpiredToken"])
    func appleUnregistered(reason: String) {
        let dead = DeliveryOutcome.unregistered(.unregistered, asOf: nil)
        #expect(
            self.answer(400, "INVALID_ARGUMENT", Self.fcm("INVALID_ARGUMENT"), Self.apns(410, reason)).outcome() == dead
        )
        #expect(self.answer(404, "NOT_FOUND", Self.fcm("UNREGISTERED"), Self.apns(410, reason)).outcome() == dead)
    }

    @Test("D51 a field of the message is blamed; a token's, or what Apple says, is not")
    func rejectedField() {
        func rejectedField(_ fields: [String], _ more: String = "") -> String? {
            let violations = fields.map { #"{"field":"\#($0)","description":"Invalid value"}"# }.joined(separator: ",")
            let body =
                #"{"error":{"code":400,"message":"m","status":"INVALID_ARGUMENT","details":["#
                + #"{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[\#(violations)]}\#(more)]}}"#
            return FCMAnswer(status: 400, body: Array(body.utf8)).rejectedField
        }
        #expect(rejectedField(["message.android.ttl"]) == "message.android.ttl")
        #expect(rejectedField(["message.android.ttl", "message.token"]) == nil)
        #expect(rejectedField(["message.fid"]) == nil && rejectedField([]) == nil)
        let apple =
            #",{"@type":"type.googleapis.com/google.firebase.fcm.v1.ApnsError","statusCode":400,"#
            + #""reason":"PayloadTooLarge"}"#
        #expect(rejectedField(["message.android.ttl"], apple) == nil)
        #expect(FCMAnswer(status: 400, body: Array("{}".utf8)).rejectedField == nil)
        #expect(FCMAnswer(status: 200, body: []).rejectedField == nil)
    }

    @Test("D54 Apple's other words are about the message, the credentials or the pace")
    func appleOthers() {
        func outcome(_ status: Int, _ reason: String) -> DeliveryOutcome {
            self.answer(400, "INVALID_ARGUMENT", Self.fcm("INVALID_ARGUMENT"), Self.apns(status, reason)).outcome()
        }
        #expect(outcome(400, "PayloadTooLarge") == .rejected(.payload))
        #expect(outcome(400, "BadDeviceToken") == .suspect(.badToken))
        #expect(outcome(400, "DeviceTokenNotForTopic") == .suspect(.wrongTopic))
        #expect(outcome(403, "InvalidProviderToken") == .misconfigured(.thirdPartyAuth))
        #expect(outcome(403, "NewWord") == .misconfigured(.thirdPartyAuth))
        #expect(outcome(400, "TopicDisallowed") == .misconfigured(.thirdPartyAuth))
        #expect(outcome(429, "TooManyRequests") == .deferred(Deferral(.rateLimited, scope: .device)))
        #expect(outcome(503, "Shutdown") == .deferred(Deferral(.providerUnavailable)))
        #expect(outcome(400, "NewWord") == .rejected(.payload))
    }

    @Test("D55 INVALID_ARGUMENT without details keeps the token and asks for a probe")
    func undetailed() {
        let answer = self.answer(400, "INVALID_ARGUMENT", message: "Request contains an invalid argument.")
        #expect(answer.outcome() == .rejected(.other))
        #expect(answer.wantsTokenProbe)
        #expect(!self.answer(404, "NOT_FOUND").wantsTokenProbe)
    }

    @Test("D56 the detail wins over the general status")
    func precedence() {
        #expect(
            self.answer(400, "INVALID_ARGUMENT", Self.fcm("UNREGISTERED")).outcome()
                == .unregistered(.unregistered, asOf: nil)
        )
    }

    @Test(
        "D57 Apple's refusal of our key at Firebase pauses that part, and renews no OAuth token",
        arguments: ["THIRD_PARTY_AUTH_ERROR", "APNS_AUTH_ERROR"]
    )
    func thirdPartyAuth(code: String) {
        let bare = self.answer(401, "UNAUTHENTICATED", Self.fcm(code))
        #expect(bare.outcome() == .misconfigured(.thirdPartyAuth))
        let detailed = self.answer(401, "UNAUTHENTICATED", Self.apns(403, "InvalidProviderToken"), Self.fcm(code))
        #expect(detailed.outcome() == .misconfigured(.thirdPartyAuth))
        let appleOnly = self.answer(401, "UNAUTHENTICATED", Self.apns(403, "BadEnvironmentKeyInToken"))
        #expect(appleOnly.outcome() == .misconfigured(.thirdPartyAuth))
    }

    @Test("D58 UNAUTHENTICATED asks for a new OAuth token")
    func unauthenticated() {
        #expect(self.answer(401, "UNAUTHENTICATED").outcome() == .misconfigured(.staleCredential))
        #expect(FCMAnswer(status: 401, body: []).outcome() == .misconfigured(.staleCredential))
    }

    @Test("D59 SENDER_ID_MISMATCH makes the token suspect")
    func senderMismatch() {
        #expect(
            self.answer(403, "PERMISSION_DENIED", Self.fcm("SENDER_ID_MISMATCH")).outcome() == .suspect(.wrongSender)
        )
    }

    @Test("D60 PERMISSION_DENIED pauses the app")
    func permissionDenied() {
        #expect(self.answer(403, "PERMISSION_DENIED").outcome() == .misconfigured(.credential))
    }

    @Test("D61 D62 429 is for whom the quota is, with the wait that was asked for")
    func quotas() {
        func outcome(_ details: String, retryAfter: Int64? = nil) -> DeliveryOutcome {
            self.answer(429, "RESOURCE_EXHAUSTED", Self.fcm("QUOTA_EXCEEDED"), details).outcome(
                retryAfterMilliseconds: retryAfter
            )
        }
        func deferred(_ scope: Deferral.Scope, _ milliseconds: Int64? = nil) -> DeliveryOutcome {
            .deferred(Deferral(.rateLimited, scope: scope, retryAfterMilliseconds: milliseconds))
        }
        #expect(outcome(Self.quota("project:1", "per minute"), retryAfter: 17_000) == deferred(.route, 17_000))
        #expect(outcome(Self.quota("project:1", "per minute")) == deferred(.route))
        #expect(outcome(Self.quota("x", "Device message rate exceeded")) == deferred(.device))
        #expect(outcome(Self.quota("x", "Topic message rate exceeded")) == deferred(.message))
        let apple = Self.apns(429, "TooManyRequests")
        #expect(outcome(apple) == deferred(.device), "Apple counts by device")
        #expect(outcome(Self.apns(400, "NewWord")) == deferred(.route), "Apple says nothing of a quota")
        #expect(outcome(Self.quota("device:abc", "Quota exceeded.")) == deferred(.device))
        #expect(outcome(Self.quota("topic:abc", "Quota exceeded.")) == deferred(.message))
        #expect(outcome(Self.quota("project:smart-device-app", "Message rate exceeded")) == deferred(.route))
        #expect(outcome(Self.quota("x", "Message rate exceeded by project:smart-device-app")) == deferred(.route))
        #expect(self.answer(429, "RESOURCE_EXHAUSTED").outcome() == deferred(.route))
        #expect(FCMAnswer(status: 429, body: []).outcome() == deferred(.route))
    }

    @Test("D64 D65 Google's trouble is waited out")
    func unavailable() {
        #expect(
            self.answer(500, "INTERNAL", Self.fcm("INTERNAL")).outcome() == .deferred(Deferral(.providerUnavailable))
        )
        #expect(
            self.answer(503, "UNAVAILABLE", Self.fcm("UNAVAILABLE")).outcome(retryAfterMilliseconds: 120_000)
                == .deferred(Deferral(.providerUnavailable, scope: .route, retryAfterMilliseconds: 120_000))
        )
    }

    @Test("D65 the longer of the header and RetryInfo is waited")
    func retryInfo() {
        func info(_ delay: String) -> String {
            "{\"@type\":\"\(Self.types)rpc.RetryInfo\",\"retryDelay\":\"\(delay)\"}"
        }
        func wait(_ delay: String, header: Int64?, status: Int = 503, _ code: String = "UNAVAILABLE") -> Int64? {
            let answer = self.answer(status, code, info(delay))
            guard case .deferred(let deferral) = answer.outcome(retryAfterMilliseconds: header) else { return -1 }
            return deferral.retryAfterMilliseconds
        }
        #expect(wait("90s", header: nil) == 90_000)
        #expect(wait("90s", header: 10_000) == 90_000)
        #expect(wait("1.5s", header: 10_000) == 10_000)
        #expect(wait("1.0005s", header: nil) == 1_001)
        #expect(wait("17s", header: nil, status: 429, "RESOURCE_EXHAUSTED") == 17_000)
        #expect(wait("999999999999999999999s", header: nil) == nil)
        #expect(wait("999999999s", header: nil) == RetryAfter.millisecondsMax)
        for text in ["", "s", "-3s", "90", "1.s", "soon"] { #expect(wait(text, header: nil) == nil) }
        let front = FCMAnswer(status: 503, body: Array("{\"error\":{\"details\":[\(info("90s"))]}}".utf8))
        #expect(
            front.outcome() == .deferred(Deferral(.providerUnavailable, scope: .route, retryAfterMilliseconds: 90_000))
        )
    }

    @Test("D51 a message that is too big is rejected as such, for everybody unless it is for one platform")
    func tooBig() {
        for details in [[Self.fcm("INVALID_ARGUMENT")], []] {
            let text = details.isEmpty ? "" : ",\"details\":[\(details[0])]"
            let fields = [
                "Android message": "message.android", "Web message": "message.webpush", "Message": "message",
            ]
            for (platform, field) in fields {
                let body =
                    "{\"error\":{\"code\":400,\"message\":\"\(platform) is too big\",\"status\":\"INVALID_ARGUMENT\"\(text)}}"
                let answer = FCMAnswer(status: 400, body: Array(body.utf8))
                #expect(answer.outcome() == .rejected(.payload) && !answer.wantsTokenProbe)
                #expect(answer.rejectedField == field && answer.rejectsOnePlatform == (platform != "Message"))
            }
        }
    }

    @Test("D66 a front end's HTML is read by its status")
    func html() {
        let body = Array("<html>502</html>".utf8)
        #expect(
            FCMAnswer(status: 502, body: body).outcome() == .deferred(Deferral(.providerUnavailable, scope: .route))
        )
        #expect(FCMAnswer(status: 403, body: body).outcome() == .misconfigured(.unclear))
        #expect(FCMAnswer(status: 400, body: body).outcome() == .rejected(.other))
    }

    @Test("an unknown code is read by what stands beside it")
    func unknownCode() {
        let answer = self.answer(400, "FAILED_PRECONDITION", Self.fcm("FOO_BAR"))
        #expect(answer.outcome() == .rejected(.other))
        #expect(answer.word == "FOO_BAR")
        #expect(
            self.answer(503, "NEW", Self.fcm("FOO_BAR")).outcome()
                == .deferred(Deferral(.providerUnavailable, scope: .route))
        )
        #expect(self.answer(400, "X", Self.fcm("UNSPECIFIED_ERROR")).outcome() == .rejected(.other))
    }

    @Test("no body that does not say so touches a token", arguments: [0, 100, 204, 302, 400, 403, 404, 410, 500, 999])
    func hostileBodies(status: Int) {
        var generator = SeededGenerator(seed: UInt64(status))
        let bodies: [[UInt8]] =
            [
                "", "{", "null", "[]", "{\"error\":null}", "{\"error\":\"UNREGISTERED\"}",
                "{\"error\":{\"details\":{}}}",
                "{\"error\":{\"details\":[null,1,\"UNREGISTERED\",{\"errorCode\":\"UNREGISTERED\"}]}}",
                "{\"error\":{\"status\":[\"INVALID_ARGUMENT\"],\"details\":[{\"@type\":\"x\",\"errorCode\":\"UNREGISTERED\"}]}}",
            ].map { Array($0.utf8) }
            + (0..<200).map { _ in (0..<40).map { _ in UInt8.random(in: 0...255, using: &generator) } }
            + [Array(repeating: 0x5b, count: 1_000_000)]
        for body in bodies {
            let outcome = FCMAnswer(status: status, body: body).outcome()
            if case .unregistered = outcome { Issue.record("dropped by \(body)") }
            if case .suspect = outcome { Issue.record("suspected by \(body)") }
            #expect(outcome != .accepted)
        }
    }
}
