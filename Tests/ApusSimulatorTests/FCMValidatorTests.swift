import ApusCore
import ApusSimulator
import ApusTLS
import Testing

/// Two projects with an account each, and requests that Google would take.
struct FCMFixture {
    static let key = try? PrivateKey.generate(.rsa2048)
    static let now = UnixMilliseconds(1_800_000_000_000)
    static let audience = "https://localhost:1/token"
    static let tokens = AccessTokens(secret: [UInt8](repeating: 7, count: 32))

    let key: PrivateKey
    let validator: FCMValidator
    let oauth: OAuthValidator
    var behaviors = TokenBehaviors()

    init() throws {
        let key = try #require(Self.key)
        self.key = key
        let accounts = ["one", "two"].map { project in
            ServiceAccount(
                email: "push@\(project).example",
                keyID: "k-\(project)",
                publicKey: key.publicKey,
                projectIDs: [project],
            )
        }
        self.validator = FCMValidator(accounts: accounts, tokens: Self.tokens)
        self.oauth = OAuthValidator(accounts: accounts, audiences: [Self.audience], tokens: Self.tokens)
    }

    func request(
        _ message: String,
        project: String = "one",
        authorization: String? = nil,
        contentType: String? = "application/json",
    ) -> ProviderRequest {
        let expiry = Self.now.advanced(byMilliseconds: 1)
        let bearer = "Bearer \(Self.tokens.issue(account: 0, number: 1, expiresAt: expiry))"
        var headers = [ProviderHeader("authorization", authorization ?? bearer)]
        if let contentType { headers.append(ProviderHeader("content-type", contentType)) }
        return ProviderRequest(
            path: "/v1/projects/\(project)/messages:send",
            headers: headers,
            body: Array(#"{"message":\#(message)}"#.utf8),
        )
    }

    func validate(_ request: ProviderRequest) -> FCMValidator.Outcome {
        self.validator.validate(request, behaviors: self.behaviors, now: Self.now, messageID: "m1")
    }

    /// Status, FcmError's code and the fields complained of: "400 INVALID_ARGUMENT message.token".
    func verdict(_ request: ProviderRequest) throws -> String {
        let answer = self.validate(request).answer
        let body = try JSONValue(parsing: answer.body, bytesMax: 10_000)
        var words = [String(answer.status)]
        #expect(answer.status == 200 || body["error"]?["code"]?.int64 == Int64(answer.status))
        for detail in body["error"]?["details"]?.array ?? [] {
            if let code = detail["errorCode"]?.string { words.append(code) }
            if let reason = detail["reason"]?.string { words.append(reason) }
            words += (detail["fieldViolations"]?.array ?? []).compactMap { $0["field"]?.string }
        }
        return words.joined(separator: " ")
    }
}

@Suite struct FCMValidatorTests {
    @Test func aGoodMessageIsTakenAndNamed() throws {
        let fixture = try FCMFixture()
        let outcome = fixture.validate(fixture.request(#"{"token":"t1","data":{"a":"b"}}"#))
        #expect(outcome.answer.status == 200)
        #expect(String(decoding: outcome.answer.body, as: UTF8.self) == #"{"name":"projects/one/messages/m1"}"#)
        #expect(outcome.address == "t1")
        #expect(!outcome.isValidation)
    }

    @Test func aValidationDeliversNothing() throws {
        let fixture = try FCMFixture()
        var request = fixture.request("{}")
        request.body = Array(#"{"validate_only":true,"message":{"token":"t1"}}"#.utf8)
        let outcome = fixture.validate(request)
        #expect(outcome.isValidation)
        #expect(String(decoding: outcome.answer.body, as: UTF8.self).contains("fake_message_id"))
    }

    static let messages: [(message: String, expected: String)] = [
        (#"{"fid":"f1"}"#, "200"),
        (#"{"topic":"news"}"#, "200"),
        (#"{"topic":"/topics/news"}"#, "200"),
        (#"{"topic":"news!"}"#, "400 message.topic"),
        (#"{"topic":"\#(String(repeating: "a", count: 900))"}"#, "200"),
        (#"{"topic":"\#(String(repeating: "a", count: 901))"}"#, "400 message.topic"),
        (#"{"condition":"'a' in topics && ('b' in topics || !('c' in topics))"}"#, "200"),
        (#"{"condition":"'a' in topics && ('b' in topics"}"#, "400 message.condition"),
        (
            #"{"condition":"\#((1...6).map { "'t\($0)' in topics" }.joined(separator: " || "))"}"#,
            "400 message.condition"
        ),
        (#"{}"#, "400 INVALID_ARGUMENT"),
        (#"{"token":"t","topic":"n"}"#, "400 message"),
        (#"{"token":"t","fid":"f"}"#, "400 message"),
        (#"{"token":""}"#, "400 INVALID_ARGUMENT message.token"),
        (#"{"token":"a b"}"#, "400 INVALID_ARGUMENT message.token"),
        (#"{"token":"t","colour":"red"}"#, "400 message"),
        (#"{"token":"t","android":{"notification":{"titel":"x"}}}"#, "400 message.android.notification"),
        (#"{"token":"t","android":{"collapseKey":"x","collapse_key":"y"}}"#, "400 message.android"),
        (#"{"token":"t","android":{"collapseKey":"x","directBootOk":true}}"#, "200"),
        (#"{"token":"t","data":{"a":5}}"#, "400 message.data[0].value"),
        (#"{"token":"t","data":{"a":"x","b":null}}"#, "400 message.data[1].value"),
        (#"{"token":"t","data":{"from":"x"}}"#, "400 message.data"),
        (#"{"token":"t","data":{"message_type":"x"}}"#, "400 message.data"),
        (#"{"token":"t","data":{"google.x":"x"}}"#, "400 message.data"),
        (#"{"token":"t","android":{"data":{"gcm.notification.y":"x"}}}"#, "400 message.android.data"),
        (#"{"token":"t","data":{"collapse_key":"x"}}"#, "200"),
        (#"{"token":"t","android":{"ttl":"2419200s"}}"#, "200"),
        (#"{"token":"t","android":{"ttl":"2419201s"}}"#, "400 message.android.ttl"),
        (#"{"token":"t","android":{"ttl":"2419200.1s"}}"#, "400 message.android.ttl"),
        (#"{"token":"t","android":{"ttl":"3.5s"}}"#, "200"),
        (#"{"token":"t","android":{"ttl":"-1s"}}"#, "400 message.android.ttl"),
        (#"{"token":"t","android":{"ttl":60}}"#, "400 message.android.ttl"),
        (#"{"token":"t","android":{"ttl":"60"}}"#, "400 message.android.ttl"),
        (#"{"token":"t","android":{"priority":"HIGH"}}"#, "200"),
        (#"{"token":"t","android":{"priority":"high"}}"#, "200"),
        (#"{"token":"t","android":{"priority":"10"}}"#, "400 message.android.priority"),
        (##"{"token":"t","android":{"notification":{"color":"#12abEF"}}}"##, "200"),
        (#"{"token":"t","android":{"notification":{"color":"red"}}}"#, "400 message.android.notification.color"),
        (#"{"token":"t","android":{"notification":{"event_time":"2026-11-21T03:45:00.5Z"}}}"#, "200"),
        (
            #"{"token":"t","android":{"notification":{"event_time":"now"}}}"#,
            "400 message.android.notification.event_time"
        ),
        (#"{"token":"t","android":{"notification":{"sticky":"true"}}}"#, "400 message.android.notification.sticky"),
        (
            #"{"token":"t","android":{"notification":{"vibrate_timings":["0.5s","x"]}}}"#,
            "400 message.android.notification.vibrate_timings[1]"
        ),
        (
            #"{"token":"t","android":{"notification":{"title_loc_args":["x"]}}}"#,
            "400 message.android.notification.title_loc_args"
        ),
        (
            #"{"token":"t","android":{"notification":{"visibility":"HIDDEN"}}}"#,
            "400 message.android.notification.visibility"
        ),
        (#"{"token":"t","webpush":{"fcm_options":{"link":"http://x"}}}"#, "400 message.webpush.fcm_options.link"),
        (#"{"token":"t","webpush":{"notification":{"any":[1]},"headers":{"TTL":"1"}}}"#, "200"),
        (#"{"token":"t","fcm_options":{"analytics_label":"a b"}}"#, "400 message.fcm_options.analytics_label"),
        (#"{"token":"t","apns":{"headers":{"apns-priority":10}}}"#, "400 message.apns.headers[0].value"),
        (#"{"token":"t","apns":{"payload":{"aps":{"alert":"x"}}}}"#, "200"),
        (
            #"{"token":"t","apns":{"payload":{"x":"\#(String(repeating: "x", count: 4_100))"}}}"#,
            "400 INVALID_ARGUMENT PayloadTooLarge"
        ),
        ("5", "400 message"),
    ]

    @Test(arguments: Self.messages)
    func eachMessageGetsItsAnswer(_ message: String, _ expected: String) throws {
        let fixture = try FCMFixture()
        #expect(try fixture.verdict(fixture.request(message)) == expected)
    }

    @Test(arguments: [("token", 4_096), ("topic", 2_048)])
    func theLimitOfTheMessageIsExact(_ target: String, _ bytesMax: Int) throws {
        let fixture = try FCMFixture()
        for (bytes, expected) in [(bytesMax, "200"), (bytesMax + 1, "400 INVALID_ARGUMENT")] {
            let value = String(repeating: "x", count: bytes - 3)
            let request = fixture.request(#"{"\#(target)":"t","data":{"key":"\#(value)"}}"#)
            #expect(try fixture.verdict(request) == expected)
        }
    }

    @Test func whoAsksIsChecked() throws {
        let fixture = try FCMFixture()
        let message = #"{"token":"t"}"#
        let expired = FCMFixture.tokens.issue(account: 0, number: 1, expiresAt: FCMFixture.now)
        let strangers = AccessTokens(secret: [UInt8](repeating: 8, count: 32))
        let stranger = strangers.issue(account: 0, number: 1, expiresAt: FCMFixture.now.advanced(byMilliseconds: 1))
        for authorization in ["", "Bearer x", "Bearer \(expired)", "Bearer \(stranger)", "Basic x"] {
            #expect(try fixture.verdict(fixture.request(message, authorization: authorization)) == "401")
        }
        #expect(try fixture.verdict(fixture.request(message, project: "two")) == "403")
        #expect(try fixture.verdict(fixture.request(message, project: "three")) == "403")
        #expect(try fixture.verdict(fixture.request(message, contentType: "text/plain")) == "400")
        #expect(try fixture.verdict(fixture.request(message, contentType: "application/json; charset=utf-8")) == "200")
        #expect(try fixture.verdict(fixture.request("{")) == "400")
        var request = fixture.request(message)
        request.method = "GET"
        #expect(try fixture.verdict(request) == "404")
    }

    @Test func behaviorsAreAnsweredInBothForms() throws {
        var fixture = try FCMFixture()
        var bad: Set<String> = []
        for number in 0..<20 {
            let token = "t\(number)"
            let digest = TokenDigest(token, provider: .fcm)
            let request = fixture.request(#"{"token":"\#(token)"}"#)
            fixture.behaviors.declare(.bad, of: digest)
            bad.insert(try fixture.verdict(request))
            fixture.behaviors.declare(.dead(since: FCMFixture.now), of: digest)
            #expect(try fixture.verdict(request) == "404 UNREGISTERED")
            fixture.behaviors.declare(.foreign, of: digest)
            #expect(try fixture.verdict(request) == "403 SENDER_ID_MISMATCH")
        }
        #expect(bad == ["400 INVALID_ARGUMENT", "400 INVALID_ARGUMENT message.token"])
    }
}

@Suite struct OAuthValidatorTests {
    private let now = FCMFixture.now.seconds

    private func claims(_ changes: [String: JSONValue?] = [:]) -> String {
        var claims: JSONObject = [
            "iss": "push@two.example", "scope": "https://www.googleapis.com/auth/firebase.messaging",
            "aud": .string(FCMFixture.audience), "iat": .integer(self.now), "exp": .integer(self.now + 3_600),
        ]
        for (name, value) in changes { claims[name] = value }
        return JSONValue.object(claims).text
    }

    private func request(
        _ fixture: FCMFixture,
        claims: String,
        keyID: String = "k-two",
        grantType: String = "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer",
    ) throws -> ProviderRequest {
        let header = #"{"alg":"RS256","typ":"JWT","kid":"\#(keyID)"}"#
        let assertion = try JWS.sign(header: header, payload: claims, with: .privateKey(fixture.key))
        return ProviderRequest(
            path: "/token",
            headers: [ProviderHeader("content-type", "application/x-www-form-urlencoded")],
            body: Array("grant_type=\(grantType)&assertion=\(assertion)".utf8),
        )
    }

    private func verdict(_ fixture: FCMFixture, _ request: ProviderRequest) throws -> String {
        let answer = fixture.oauth.validate(request, now: FCMFixture.now, number: 1)
        let body = try JSONValue(parsing: answer.body, bytesMax: 10_000)
        return "\(answer.status) \(body["error"]?.string ?? body["token_type"]?.string ?? "?")"
    }

    @Test func aGoodAssertionIsWorthATokenForItsProject() throws {
        let fixture = try FCMFixture()
        let answer = fixture.oauth.validate(
            try self.request(fixture, claims: self.claims()),
            now: FCMFixture.now,
            number: 1,
        )
        let body = try JSONValue(parsing: answer.body, bytesMax: 10_000)
        #expect(answer.status == 200)
        #expect(body["token_type"]?.string == "Bearer")
        #expect(body["expires_in"]?.int64 == 3_600)
        let token = try #require(body["access_token"]?.string)
        let grant = try #require(FCMFixture.tokens.grant(token))
        #expect(grant.account == 1)
        #expect(grant.expiresAt == FCMFixture.now.advanced(byMilliseconds: 3_600_000))
        let message = fixture.request(#"{"token":"t"}"#, project: "two", authorization: "Bearer \(token)")
        #expect(try fixture.verdict(message) == "200")
        #expect(FCMFixture.tokens.grant(token.dropLast(4) + "AAAA") == nil)
    }

    @Test func wrongClaimsAreRefused() throws {
        let fixture = try FCMFixture()
        let table: [(changes: [String: JSONValue?], expected: String)] = [
            ([:], "200 Bearer"),
            (["iss": "push@nobody.example"], "400 invalid_grant"),
            (["aud": "https://oauth2.googleapis.com/token"], "400 invalid_grant"),
            (["scope": "https://www.googleapis.com/auth/drive"], "400 invalid_scope"),
            (["scope": "x https://www.googleapis.com/auth/cloud-platform"], "200 Bearer"),
            (["scope": .some(nil)], "400 invalid_scope"),
            (["iat": .integer(self.now + 300), "exp": .integer(self.now + 3_900)], "200 Bearer"),
            (["iat": .integer(self.now + 301)], "400 invalid_grant"),
            (["exp": .integer(self.now + 3_901)], "400 invalid_grant"),
            (["exp": .integer(self.now)], "400 invalid_grant"),
            (["exp": .some(nil)], "400 invalid_grant"),
            (["iat": "1800000000"], "400 invalid_grant"),
        ]
        for row in table {
            let request = try self.request(fixture, claims: self.claims(row.changes))
            #expect(try self.verdict(fixture, request) == row.expected, "\(row.changes)")
        }
    }

    @Test func wrongFormsAreRefused() throws {
        let fixture = try FCMFixture()
        let good = try self.request(fixture, claims: self.claims())
        #expect(try self.verdict(fixture, good) == "200 Bearer")
        #expect(
            try self.verdict(fixture, self.request(fixture, claims: self.claims(), grantType: "password"))
                == "400 unsupported_grant_type"
        )
        #expect(
            try self.verdict(fixture, self.request(fixture, claims: self.claims(), keyID: "k-one"))
                == "400 invalid_grant"
        )
        var tampered = good
        tampered.body[tampered.body.count - 3] ^= 1
        #expect(try self.verdict(fixture, tampered) == "400 invalid_grant")
        var json = good
        json.headers = [ProviderHeader("content-type", "application/json")]
        #expect(try self.verdict(fixture, json) == "400 invalid_request")
        var get = good
        get.method = "GET"
        #expect(try self.verdict(fixture, get) == "400 invalid_request")
        var broken = good
        broken.body = Array("grant_type=%4&assertion=x".utf8)
        #expect(try self.verdict(fixture, broken) == "400 invalid_request")
    }
}

@Suite struct FormParserTests {
    @Test func escapesArePutBack() {
        #expect(FormParser.parse(Array("a=b+c%3D&d=".utf8)) == ["a": "b c=", "d": ""])
        #expect(FormParser.parse([]) == [:])
    }

    @Test(arguments: ["a", "a=%", "a=%4", "a=%zz", "a=1&a=2", "a=%ff"])
    func brokenFormsAreRefused(_ text: String) {
        #expect(FormParser.parse(Array(text.utf8)) == nil)
    }
}
