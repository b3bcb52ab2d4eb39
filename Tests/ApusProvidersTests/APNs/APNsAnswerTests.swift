import ApusAPNs
import ApusCore
import ApusProviders
import Testing

@Suite("APNs: answers")
struct APNsAnswerTests {
    private func outcome(_ status: Int, _ body: String = "", retryAfter: Int64? = nil) -> DeliveryOutcome {
        APNsAnswer(status: status, body: Array(body.utf8)).outcome(retryAfterMilliseconds: retryAfter)
    }

    private func outcome(_ status: Int, reason: String) -> DeliveryOutcome {
        self.outcome(status, "{\"reason\":\"\(reason)\"}")
    }

    @Test("D1 D2 D3 200 is accepted, whatever comes with it")
    func accepted() {
        #expect(self.outcome(200) == .accepted)
        #expect(self.outcome(200, #"{"reason":"Unregistered"}"#) == .accepted)
    }

    @Test("D4 BadDeviceToken makes the token suspect")
    func badDeviceToken() {
        #expect(self.outcome(400, reason: "BadDeviceToken") == .suspect(.badToken))
    }

    @Test("D6 DeviceTokenNotForTopic makes the token suspect")
    func wrongTopic() {
        #expect(self.outcome(400, reason: "DeviceTokenNotForTopic") == .suspect(.wrongTopic))
    }

    @Test("D7 a wrong topic concerns that topic alone", arguments: ["BadTopic", "TopicDisallowed", "MissingTopic"])
    func topic(reason: String) {
        #expect(self.outcome(400, reason: reason) == .misconfigured(.subroute))
    }

    @Test(
        "D8 a wrong message fails",
        arguments: [
            ("BadCollapseId", .payload), ("BadPriority", .payload), ("BadExpirationDate", .payload),
            ("BadMessageId", .payload),
            ("InvalidPushType", .payload), ("PayloadEmpty", .payload), ("DuplicateHeaders", .other),
            ("MissingDeviceToken", .other),
        ] as [(String, Reason)]
    )
    func message(reason: String, ours: Reason) {
        #expect(self.outcome(400, reason: reason) == .rejected(ours))
    }

    @Test("D9 IdleTimeout needs a new connection")
    func idleTimeout() {
        #expect(self.outcome(400, reason: "IdleTimeout") == .deferred(Deferral(.connection, needsNewConnection: true)))
    }

    @Test("D10 ExpiredProviderToken asks for a new JWT")
    func expired() {
        #expect(self.outcome(403, reason: "ExpiredProviderToken") == .misconfigured(.staleCredential))
    }

    @Test(
        "D12 D14 a wrong credential pauses it",
        arguments: [
            "InvalidProviderToken", "MissingProviderToken", "BadCertificate", "BadCertificateEnvironment",
            "BadEnvironmentKeyIdInToken", "BadEnvironmentKeyInToken",
        ]
    )
    func credential(reason: String) {
        #expect(self.outcome(403, reason: reason) == .misconfigured(.credential))
    }

    @Test("D15 Forbidden ends the message, and stops the route")
    func forbidden() {
        #expect(self.outcome(403, reason: "Forbidden") == .misconfigured(.forbidden))
    }

    @Test("D13 UnrelatedKeyIdInToken needs a connection of that key")
    func unrelatedKey() {
        #expect(self.outcome(403, reason: "UnrelatedKeyIdInToken") == .misconfigured(.wrongConnection))
    }

    @Test("D16 D19 410 with a timestamp in milliseconds", arguments: ["Unregistered", "ExpiredToken"])
    func unregistered(reason: String) {
        let asOf = UnixMilliseconds(1_700_000_000_000)
        let body = "{\"reason\":\"\(reason)\",\"timestamp\":1700000000000}"
        #expect(self.outcome(410, body) == .unregistered(.unregistered, asOf: asOf))
    }

    @Test("D18 the timestamp is never taken for seconds")
    func milliseconds() throws {
        let answer = APNsAnswer(status: 410, body: Array(#"{"reason":"Unregistered","timestamp":1700000000000}"#.utf8))
        #expect(answer.timestamp == UnixMilliseconds(seconds: 1_700_000_000))
    }

    @Test(
        "D20 410 without a timestamp leaves the time to the request's start",
        arguments: ["", ",\"timestamp\":null", ",\"timestamp\":\"x\"", ",\"timestamp\":-1", ",\"timestamp\":0"]
    )
    func withoutTimestamp(member: String) {
        #expect(self.outcome(410, "{\"reason\":\"Unregistered\"\(member)}") == .unregistered(.unregistered, asOf: nil))
    }

    @Test("D22 PayloadTooLarge fails the message")
    func payloadTooLarge() {
        #expect(self.outcome(413, reason: "PayloadTooLarge") == .rejected(.payload))
    }

    @Test("D25 TooManyRequests is about that device only")
    func tooManyRequests() {
        #expect(self.outcome(429, reason: "TooManyRequests") == .deferred(Deferral(.rateLimited, scope: .device)))
        #expect(
            self.outcome(429, #"{"reason":"TooManyRequests"}"#, retryAfter: 5_000)
                == .deferred(Deferral(.rateLimited, scope: .device, retryAfterMilliseconds: 5_000))
        )
    }

    @Test("D26 TooManyProviderTokenUpdates goes on with the old JWT")
    func tooManyUpdates() {
        #expect(self.outcome(429, reason: "TooManyProviderTokenUpdates") == .misconfigured(.renewedTooOften))
    }

    @Test("D27 Apple's trouble is waited out")
    func unavailable() {
        #expect(self.outcome(500, reason: "InternalServerError") == .deferred(Deferral(.providerUnavailable)))
        for reason in ["ServiceUnavailable", "Service Unavailable"] {
            #expect(self.outcome(503, reason: reason) == .deferred(Deferral(.providerUnavailable, scope: .route)))
        }
    }

    @Test("D28 Shutdown needs a new connection")
    func shutdown() {
        #expect(
            self.outcome(503, reason: "Shutdown") == .deferred(Deferral(.providerUnavailable, needsNewConnection: true))
        )
    }

    @Test("D30 a GOAWAY that speaks of our set-up stops the reconnecting; any other does not")
    func goAway() {
        func goAway(_ debug: String) -> GoAwayMeaning { APNsAnswer.goAway(debug: Array(debug.utf8)) }
        #expect(
            goAway(#"{"reason":"BadCertificateEnvironment"}"#)
                == .misconfigured(.credential, word: "BadCertificateEnvironment")
        )
        #expect(
            goAway(#"{"reason":"ExpiredProviderToken"}"#)
                == .misconfigured(.staleCredential, word: "ExpiredProviderToken")
        )
        #expect(goAway(#"{"reason":"Shutdown"}"#) == .reconnect(word: "Shutdown"))
        #expect(goAway(#"{"reason":"FooBar"}"#) == .reconnect(word: "FooBar"))
        for debug in ["", "x", "{}", "[]", "{\"reason\":1}", String(repeating: "[", count: 10_000)] {
            #expect(goAway(debug) == .reconnect(word: nil))
        }
    }

    @Test("D43 an unknown reason is read by its status and kept verbatim")
    func unknown() {
        let answer = APNsAnswer(status: 400, body: Array(#"{"reason":"FooBar"}"#.utf8))
        #expect(answer.outcome() == .rejected(.other))
        #expect(answer.word == "FooBar")
        #expect(self.outcome(410, reason: "FooBar") == .rejected(.other))
        #expect(self.outcome(403, reason: "FooBar") == .rejected(.other))
        #expect(self.outcome(429, reason: "FooBar") == .deferred(Deferral(.rateLimited)))
        #expect(self.outcome(599, reason: "FooBar") == .deferred(Deferral(.providerUnavailable)))
    }

    @Test("D44 an empty 403 may be a fault of the route, and drops nothing")
    func emptyForbidden() {
        #expect(self.outcome(403) == .misconfigured(.unclear))
        #expect(self.outcome(403, "<html>") == .misconfigured(.unclear))
    }

    @Test("a reason under another class of status is not believed")
    func implausible() {
        #expect(self.outcome(400, reason: "Unregistered") == .rejected(.other))
        #expect(self.outcome(500, reason: "Unregistered") == .deferred(Deferral(.providerUnavailable)))
        #expect(self.outcome(500, reason: "BadDeviceToken") == .deferred(Deferral(.providerUnavailable)))
        #expect(self.outcome(400, reason: "ServiceUnavailable") == .rejected(.other))
        #expect(self.outcome(403, reason: "TooManyProviderTokenUpdates") == .misconfigured(.renewedTooOften))
    }

    @Test("every word of the table is read back, and none but the two of 410 gives a token up")
    func table() {
        for reason in APNsReason.allCases {
            let outcome = self.outcome(reason.status, reason: reason.rawValue)
            if case .unregistered = outcome {
                #expect(reason == .unregistered || reason == .expiredToken)
            }
            #expect(outcome != .accepted)
            #expect(
                APNsAnswer(status: reason.status, body: Array("{\"reason\":\"\(reason.rawValue)\"}".utf8)).word
                    == reason.rawValue
            )
        }
    }

    @Test(
        "no body gives a token up unless it says so",
        arguments: [100, 199, 204, 302, 400, 404, 410, 418, 499, 500, 999, 0, -1]
    )
    func hostileBodies(status: Int) {
        var generator = SeededGenerator(seed: UInt64(bitPattern: Int64(status)))
        let bodies: [[UInt8]] =
            [
                "", "{", "null", "[]", "\"Unregistered\"", "{\"reason\":null}", "{\"reason\":[\"Unregistered\"]}",
                "{\"Reason\":\"Unregistered\"}",
            ]
            .map { Array($0.utf8) }
            + (0..<200).map { _ in (0..<40).map { _ in UInt8.random(in: 0...255, using: &generator) } }
            + [Array(repeating: 0x5b, count: 100_000)]
        for body in bodies {
            let outcome = APNsAnswer(status: status, body: body).outcome()
            if case .unregistered = outcome { Issue.record("dropped by \(body)") }
            if case .suspect = outcome { Issue.record("suspected by \(body)") }
            #expect(outcome != .accepted)
        }
    }

    @Test("a provider's word is bounded and cannot steer a terminal")
    func words() {
        let word = String(repeating: "é", count: 4_000)
        let long = APNsAnswer(status: 400, body: Array("{\"reason\":\"\(word.prefix(1_000))\"}".utf8))
        #expect(long.word?.utf8.count == Limits.providerTextBytesMax)
        let escaped = APNsAnswer(status: 400, body: Array(#"{"reason":"a\u001b[2Jb\nc\u202ed"}"#.utf8))
        #expect(escaped.word == "a [2Jb c d")
    }
}
