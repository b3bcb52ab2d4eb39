import ApusCore
import ApusSimulator
import ApusTLS
import Testing

/// A team with its key, and requests that Apple would take.
struct APNsFixture {
    static let key = try? PrivateKey.generate(.p256)
    static let otherKey = try? PrivateKey.generate(.p256)
    static let now = UnixMilliseconds(1_800_000_000_000)
    static let token = String(repeating: "ab", count: 32)

    let key: PrivateKey
    let otherKey: PrivateKey
    var validator: APNsValidator
    var behaviors = TokenBehaviors()
    var now = APNsFixture.now
    var connection = APNsConnection()

    init() throws {
        self.key = try #require(Self.key)
        self.otherKey = try #require(Self.otherKey)
        self.validator = APNsValidator(
            keys: [
                APNsKey(keyID: "KEY0000001", teamID: "TEAM000001", publicKey: self.key.publicKey),
                APNsKey(keyID: "KEY0000002", teamID: "TEAM000002", publicKey: self.otherKey.publicKey),
                APNsKey(
                    keyID: "KEY0000003",
                    teamID: "TEAM000001",
                    publicKey: self.otherKey.publicKey,
                    topics: ["example.app"],
                ),
                APNsKey(
                    keyID: "KEY0000004",
                    teamID: "TEAM000001",
                    publicKey: self.otherKey.publicKey,
                    environment: .sandbox,
                ),
                APNsKey(keyID: "KEY0000005", teamID: "TEAM000001", publicKey: self.otherKey.publicKey),
            ],
            bundleIDs: ["example.app", "example.second"],
        )
    }

    func jwt(
        issuedAt: Int64? = nil,
        keyID: String = "KEY0000001",
        team: String = "TEAM000001",
        key: PrivateKey? = nil,
        header: String? = nil,
        claims: String? = nil,
    ) throws -> String {
        try JWS.sign(
            header: header ?? #"{"alg":"ES256","kid":"\#(keyID)"}"#,
            payload: claims ?? #"{"iss":"\#(team)","iat":\#(issuedAt ?? self.now.seconds)}"#,
            with: .privateKey(key ?? self.key),
        )
    }

    func request(
        _ changes: [String: String?] = [:],
        method: String = "POST",
        path: String? = nil,
        body: String = #"{"aps":{"alert":"hello"},"apus.send":"s1"}"#,
    ) throws -> ProviderRequest {
        var headers: [String: String] = [
            "authorization": "bearer \(try self.jwt())", "apns-topic": "example.app", "apns-push-type": "alert",
            "apns-id": "01234567-89ab-cdef-0123-456789abcdef",
        ]
        for (name, value) in changes { headers[name] = value }
        return ProviderRequest(
            method: method,
            path: path ?? "/3/device/\(Self.token)",
            headers: headers.map { ProviderHeader($0.key, $0.value) },
            body: Array(body.utf8),
        )
    }

    mutating func validate(_ request: ProviderRequest) -> ProviderAnswer {
        self.validator.validate(
            request,
            connection: &self.connection,
            behaviors: self.behaviors,
            now: self.now,
            generatedID: "00000000-0000-8000-8000-000000000001",
        )
    }

    /// "200", or status and reason.
    mutating func verdict(_ request: ProviderRequest) throws -> String {
        let answer = self.validate(request)
        guard answer.status != 200 else { return answer.body.isEmpty ? "200" : "200 with a body" }
        let body = try JSONValue(parsing: answer.body, bytesMax: 1_000)
        return "\(answer.status) \(body["reason"]?.string ?? "?")"
    }
}

@Suite struct APNsValidatorTests {
    @Test func aGoodRequestIsTakenAndItsIDEchoed() throws {
        var fixture = try APNsFixture()
        let answer = fixture.validate(try fixture.request())
        #expect(answer.status == 200)
        #expect(answer.body.isEmpty)
        #expect(answer.headers == [ProviderHeader("apns-id", "01234567-89ab-cdef-0123-456789abcdef")])
    }

    @Test func aRequestWithoutIDGetsOneAndTheSandboxAddsAnother() throws {
        var fixture = try APNsFixture()
        fixture.validator.environment = .sandbox
        let answer = fixture.validate(try fixture.request(["apns-id": nil]))
        #expect(answer.headers.map(\.name) == ["apns-id", "apns-unique-id"])
        #expect(answer.headers.allSatisfy { $0.value == "00000000-0000-8000-8000-000000000001" })
    }

    /// Header changes, path, body and method of a request that is wrong in one way, and what Apple says to it.
    struct Fault: Sendable, CustomTestStringConvertible {
        var headers: [String: String?] = [:]
        var method = "POST"
        var path: String?
        var body = #"{"aps":{"alert":"hello"}}"#
        let expected: String

        var testDescription: String { "\(self.expected) \(self.headers) \(self.path ?? "") \(self.body.prefix(60))" }
    }

    private static let long = String(repeating: "x", count: 65)
    private static let live = #"{"aps":{"timestamp":1,"event":"update","content-state":{}}}"#

    private static func start(alert: String) -> String {
        #"{"aps":{"timestamp":1,"event":"start","content-state":{},"attributes-type":"A","attributes":{},"alert":\#(alert)}}"#
    }

    static let faults: [Fault] = [
        Fault(method: "GET", expected: "405 MethodNotAllowed"),
        Fault(method: "PUT", expected: "405 MethodNotAllowed"),
        Fault(path: "/3/device/", expected: "400 MissingDeviceToken"),
        Fault(path: "/3/device", expected: "400 MissingDeviceToken"),
        Fault(path: "/3/devices/abcd", expected: "404 BadPath"),
        Fault(path: "/", expected: "404 BadPath"),
        Fault(path: "/3/device/abc", expected: "400 BadDeviceToken"),
        Fault(path: "/3/device/zz", expected: "400 BadDeviceToken"),
        Fault(path: "/3/device/ab/cd", expected: "400 BadDeviceToken"),
        Fault(path: "/3/device/" + String(repeating: "ab", count: 200), expected: "200"),
        Fault(path: "/3/device/" + String(repeating: "ab", count: 201), expected: "400 BadDeviceToken"),
        Fault(headers: ["apns-id": "01234567-89AB-cdef-0123-456789abcdef"], expected: "400 BadMessageId"),
        Fault(headers: ["apns-id": "0123456789abcdef0123456789abcdef"], expected: "400 BadMessageId"),
        Fault(headers: ["apns-id": ""], expected: "400 BadMessageId"),
        Fault(headers: ["apns-topic": nil], expected: "400 MissingTopic"),
        Fault(headers: ["apns-topic": "example app"], expected: "400 BadTopic"),
        Fault(headers: ["apns-topic": "example.other"], expected: "400 TopicDisallowed"),
        Fault(headers: ["apns-topic": "example.app.voip"], expected: "400 TopicDisallowed"),
        Fault(headers: ["apns-push-type": nil], expected: "400 InvalidPushType"),
        Fault(headers: ["apns-push-type": "shout"], expected: "400 InvalidPushType"),
        Fault(headers: ["apns-push-type": "voip"], expected: "400 BadTopic"),
        Fault(headers: ["apns-push-type": "voip", "apns-topic": "example.app.voip"], expected: "200"),
        Fault(headers: ["apns-push-type": "pushtotalk", "apns-topic": "example.app.voip-ptt"], expected: "200"),
        Fault(headers: ["apns-push-type": "widgets", "apns-topic": "example.app.push-type.widgets"], expected: "200"),
        Fault(headers: ["apns-push-type": "controls", "apns-topic": "example.app"], expected: "400 BadTopic"),
        Fault(headers: ["apns-priority": "10"], expected: "200"),
        Fault(headers: ["apns-priority": "5"], expected: "200"),
        Fault(headers: ["apns-priority": "1"], expected: "200"),
        Fault(headers: ["apns-priority": "7"], expected: "400 BadPriority"),
        Fault(headers: ["apns-expiration": "0"], expected: "200"),
        Fault(headers: ["apns-expiration": "1900000000"], expected: "200"),
        Fault(headers: ["apns-expiration": "-1"], expected: "400 BadExpirationDate"),
        Fault(headers: ["apns-expiration": "+1"], expected: "400 BadExpirationDate"),
        Fault(headers: ["apns-expiration": "soon"], expected: "400 BadExpirationDate"),
        Fault(headers: ["apns-collapse-id": String(Self.long.dropLast())], expected: "200"),
        Fault(headers: ["apns-collapse-id": Self.long], expected: "400 BadCollapseId"),
        Fault(headers: ["apns-collapse-id": String(repeating: "ä", count: 33)], expected: "400 BadCollapseId"),
        Fault(headers: ["content-encoding": "gzip"], expected: "400 PayloadEmpty"),
        Fault(body: "", expected: "400 PayloadEmpty"),
        Fault(body: "{", expected: "400 PayloadEmpty"),
        Fault(body: "[]", expected: "400 PayloadEmpty"),
        Fault(body: #"{"alert":"hello"}"#, expected: "400 PayloadEmpty"),
        Fault(body: #"{"aps":{}}"#, expected: "400 InvalidPushType"),
        Fault(body: #"{"aps":{"badge":0}}"#, expected: "200"),
        Fault(body: #"{"aps":{"badge":"1"}}"#, expected: "400 InvalidPushType"),
        Fault(body: #"{"aps":{"alert":{"loc-args":["x"]}}}"#, expected: "400 InvalidPushType"),
        Fault(body: #"{"aps":{"alert":{"loc-args":["x"],"loc-key":"k"}}}"#, expected: "200"),
        Fault(body: #"{"aps":{"alert":"x","interruption-level":"loud"}}"#, expected: "400 InvalidPushType"),
        Fault(
            headers: ["apns-push-type": "background", "apns-priority": "5"],
            body: #"{"aps":{"content-available":1}}"#,
            expected: "200",
        ),
        Fault(
            headers: ["apns-push-type": "background", "apns-priority": "10"],
            body: #"{"aps":{"content-available":1}}"#,
            expected: "400 BadPriority",
        ),
        Fault(
            headers: ["apns-push-type": "background"],
            body: #"{"aps":{"content-available":1}}"#,
            expected: "400 BadPriority",
        ),
        Fault(
            headers: ["apns-push-type": "background", "apns-priority": "5"],
            body: #"{"aps":{"content-available":1,"sound":"x"}}"#,
            expected: "400 InvalidPushType",
        ),
        Fault(
            headers: ["apns-push-type": "background", "apns-priority": "5"],
            body: #"{"aps":{"alert":"x"}}"#,
            expected: "400 InvalidPushType",
        ),
        Fault(
            headers: ["apns-push-type": "liveactivity", "apns-topic": "example.app.push-type.liveactivity"],
            body: Self.live,
            expected: "200",
        ),
        Fault(
            headers: ["apns-push-type": "liveactivity", "apns-topic": "example.app.push-type.liveactivity"],
            body: #"{"aps":{"timestamp":1,"event":"start","content-state":{},"attributes-type":"A"}}"#,
            expected: "400 InvalidPushType",
        ),
        Fault(
            headers: ["apns-push-type": "liveactivity", "apns-topic": "example.app.push-type.liveactivity"],
            body: Self.start(alert: #"{}"#),
            expected: "400 InvalidPushType",
        ),
        Fault(
            headers: ["apns-push-type": "liveactivity", "apns-topic": "example.app.push-type.liveactivity"],
            body: Self.start(alert: #"{"title":"","sound":"s"}"#),
            expected: "400 InvalidPushType",
        ),
        Fault(
            headers: ["apns-push-type": "liveactivity", "apns-topic": "example.app.push-type.liveactivity"],
            body: Self.start(alert: #"{"subtitle":"x"}"#),
            expected: "400 InvalidPushType",
        ),
        Fault(
            headers: ["apns-push-type": "liveactivity", "apns-topic": "example.app.push-type.liveactivity"],
            body: Self.start(alert: #"{"title":"x"}"#),
            expected: "200",
        ),
        Fault(
            headers: ["apns-push-type": "liveactivity", "apns-topic": "example.app.push-type.liveactivity"],
            body: Self.start(alert: #"{"body":{"loc-key":"x","loc-args":[]}}"#),
            expected: "200",
        ),
        Fault(headers: ["apns-push-type": "mdm", "apns-topic": "com.apple.mgmt"], expected: "400 PayloadEmpty"),
        Fault(
            headers: ["apns-push-type": "mdm", "apns-topic": "com.apple.mgmt"],
            body: #"{"mdm":"magic"}"#,
            expected: "200",
        ),
    ]

    @Test(arguments: Self.faults)
    func eachFaultGetsItsReason(_ fault: Fault) throws {
        var fixture = try APNsFixture()
        let request = try fixture.request(fault.headers, method: fault.method, path: fault.path, body: fault.body)
        #expect(try fixture.verdict(request) == fault.expected)
    }

    @Test(arguments: [("alert", "", 4_096), ("voip", ".voip", 5_120)])
    func theLimitOfTheBodyIsExact(_ type: String, _ suffix: String, _ bytesMax: Int) throws {
        var fixture = try APNsFixture()
        let frame = #"{"aps":{"alert":""}}"#
        for (bytes, expected) in [(bytesMax, "200"), (bytesMax + 1, "413 PayloadTooLarge")] {
            let text = String(repeating: "x", count: bytes - frame.utf8.count)
            let request = try fixture.request(
                ["apns-push-type": type, "apns-topic": "example.app\(suffix)"],
                body: #"{"aps":{"alert":"\#(text)"}}"#,
            )
            #expect(request.body.count == bytes)
            fixture.connection = APNsConnection()
            #expect(try fixture.verdict(request) == expected)
        }
    }

    @Test func aHeaderThatStandsTwiceIsRefused() throws {
        var fixture = try APNsFixture()
        var request = try fixture.request()
        request.headers.append(ProviderHeader("apns-topic", "example.app"))
        #expect(try fixture.verdict(request) == "400 DuplicateHeaders")
    }

    @Test func behaviorsAreAnsweredWithTheirTimeInMilliseconds() throws {
        var fixture = try APNsFixture()
        let digest = TokenDigest(APNsFixture.token, provider: .apns)
        let request = try fixture.request()
        fixture.behaviors.declare(.dead(since: UnixMilliseconds(1_700_000_000_123)), of: digest)
        let answer = fixture.validate(request)
        #expect(answer.status == 410)
        #expect(
            String(decoding: answer.body, as: UTF8.self) == #"{"reason":"Unregistered","timestamp":1700000000123}"#
        )
        fixture.behaviors.declare(.expired(since: UnixMilliseconds(5)), of: digest)
        #expect(try fixture.verdict(request) == "410 ExpiredToken")
        fixture.behaviors.declare(.bad, of: digest)
        #expect(try fixture.verdict(request) == "400 BadDeviceToken")
        fixture.behaviors.declare(.foreign, of: digest)
        #expect(try fixture.verdict(request) == "400 DeviceTokenNotForTopic")
        fixture.behaviors.declare(.alive, of: digest)
        #expect(try fixture.verdict(request) == "200")
    }

    @Test func refusalsAreExplained() throws {
        var fixture = try APNsFixture()
        let answer = fixture.validate(try fixture.request(["apns-priority": "7"]))
        #expect(answer.headers.contains { $0.name == ProviderAnswer.explanationHeader })
    }
}
