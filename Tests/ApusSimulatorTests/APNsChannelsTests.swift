import ApusCore
import ApusSimulator
import Testing

/// Broadcast channels as Apple has them.
@Suite struct APNsChannelsTests {
    private let state: SimulatorState
    private let fixture: APNsFixture
    private let ledger = SimulatorLedger()
    private static let broadcast =
        #"{"aps":{"timestamp":1,"event":"update","content-state":{}},"apus.send":"s1"}"#

    init() throws {
        self.fixture = try APNsFixture()
        let google = try FCMFixture()
        self.state = SimulatorState(
            providers: [SimulatedAPNs(self.fixture.validator), SimulatedFCM(google.validator, google.oauth)],
            ledger: self.ledger,
        )
    }

    /// Requests on one connection.
    private struct Client {
        var connection: StrictConnection
        let fixture: APNsFixture
        /// One token for all: Apple takes no other within twenty minutes.
        let authorization: String

        /// The answer, and "400 BadChannelId" or just the status.
        mutating func ask(
            _ method: String,
            _ path: String,
            _ headers: [String: String?] = [:],
            _ body: String = "",
        ) throws -> (answer: ProviderAnswer, verdict: String) {
            let headers = ["authorization": self.authorization].merging(headers) { $1 }
            var request = try self.fixture.request(headers, method: method, path: path, body: body)
            request.headers.removeAll { $0.name == "apns-topic" || $0.name == "apns-id" }
            return try self.decided(request)
        }

        /// Returns the answer to a request.
        mutating func decided(_ request: ProviderRequest) throws -> (answer: ProviderAnswer, verdict: String) {
            let decision = self.connection.decide(request, nanoseconds: APNsFixture.now.value * 1_000_000)
            guard case .answer(let answer) = decision.action else { throw SimulatorError(.keys, "no answer") }
            let reason = (try? JSONValue(parsing: answer.body, bytesMax: 1 << 20))?["reason"]?.string
            return (answer, ([String(answer.status)] + (reason.map { [$0] } ?? [])).joined(separator: " "))
        }
    }

    private func client() throws -> Client {
        Client(
            connection: StrictConnection(state: self.state, shard: self.ledger.shard(0), listener: .apns),
            fixture: self.fixture,
            authorization: "bearer \(try self.fixture.jwt())",
        )
    }

    private func create(_ client: inout Client, policy: Int) throws -> String {
        let body = #"{"message-storage-policy":\#(policy),"push-type":"LiveActivity"}"#
        let (answer, verdict) = try client.ask("POST", "/1/apps/example.app/channels", [:], body)
        #expect(verdict == "201")
        #expect(answer.headers.contains { $0.name == "apns-request-id" })
        return try #require(answer.headers.first { $0.name == "apns-channel-id" }?.value)
    }

    @Test func aChannelIsMadeReadListedAndDeleted() throws {
        var client = try self.client()
        let id = try self.create(&client, policy: 1)
        let other = try self.create(&client, policy: 0)
        #expect(id != other)
        let path = "/1/apps/example.app/channels"
        let read = try client.ask("GET", path, ["apns-channel-id": id])
        #expect(
            String(decoding: read.answer.body, as: UTF8.self)
                == #"{"message-storage-policy":1,"push-type":"LiveActivity"}"#
        )
        let list = try client.ask("GET", "/1/apps/example.app/all-channels").answer.body
        #expect(try JSONValue(parsing: list, bytesMax: 1_000)["channels"]?.array?.map(\.string) == [id, other])
        #expect(try client.ask("GET", "/1/apps/example.second/all-channels").verdict == "200")
        #expect(try client.ask("DELETE", path, ["apns-channel-id": id]).verdict == "204")
        #expect(try client.ask("GET", path, ["apns-channel-id": id]).verdict == "400 ChannelNotRegistered")
        #expect(self.ledger.snapshot.count == 0, "management is no message")
    }

    @Test func wrongQuestionsHaveTheirReasons() throws {
        var client = try self.client()
        let path = "/1/apps/example.app/channels"
        let wrong: [(String, String, [String: String?], String, String)] = [
            ("POST", path, [:], "{}", "400 MissingPushType"),
            ("POST", path, [:], #"{"push-type":"Alert","message-storage-policy":0}"#, "400 InvalidPushType"),
            ("POST", path, [:], #"{"push-type":"LiveActivity","message-storage-policy":2}"#, "400 BadRequestPayload"),
            ("POST", path, [:], "x", "400 BadRequestPayload"),
            ("GET", path, [:], "", "400 MissingChannelId"),
            ("GET", path, ["apns-channel-id": "no base64!"], "", "400 BadChannelId"),
            ("PUT", path, [:], "", "405 MethodNotAllowed"),
            ("GET", "/1/apps/example.app", [:], "", "404 BadPath"),
            ("GET", "/1/apps/stranger/all-channels", [:], "", "403 TopicMismatch"),
            ("GET", "/1/apps/example.app.push-type.liveactivity/all-channels", [:], "", "400 TopicDisallowed"),
            ("GET", path, ["authorization": nil], "", "403 MissingProviderToken"),
        ]
        for (method, path, headers, body, verdict) in wrong {
            #expect(try client.ask(method, path, headers, body).verdict == verdict)
        }
    }

    @Test func broadcastsAreHeldToTheChannelsStorage() throws {
        var client = try self.client()
        let (kept, fleeting) = (try self.create(&client, policy: 1), try self.create(&client, policy: 0))
        func send(
            _ channel: String?,
            _ changes: [String: String?] = [:],
            _ body: String = Self.broadcast
        ) throws -> String {
            var headers: [String: String?] = [
                "apns-channel-id": channel, "apns-push-type": "liveactivity", "apns-expiration": "0",
            ]
            for (name, value) in changes { headers[name] = value }
            return try client.ask("POST", "/4/broadcasts/apps/example.app", headers, body).verdict
        }
        #expect(try send(fleeting) == "200")
        #expect(try send(kept, ["apns-expiration": "1800000060"]) == "200")
        #expect(try send(fleeting, ["apns-expiration": "1800000060"]) == "400 BadExpirationDate")
        #expect(try send(kept, ["apns-expiration": nil]) == "400 BadExpirationDate")
        #expect(try send(nil) == "400 MissingChannelId")
        #expect(try send("YXB1cw==") == "400 ChannelNotRegistered")
        #expect(try send(kept, ["apns-push-type": nil]) == "400 MissingPushType")
        #expect(try send(kept, ["apns-push-type": "alert"]) == "400 InvalidPushType")
        #expect(try send("no base64!") == "400 BadChannelId")
        #expect(try send(kept, ["apns-priority": "7"]) == "400 BadPriority")
        let start =
            #"{"aps":{"timestamp":1,"event":"start","content-state":{},"attributes-type":"A","#
            + #""attributes":{},"alert":"x"}}"#
        #expect(try send(kept, [:], start) == "400 BadRequestPayload")
        let state = "{\"x\":\"\(String(repeating: "x", count: 5_100))\"}"
        #expect(try send(kept, [:], Self.broadcast.replacing("{}", with: state)) == "413 PayloadTooLarge")
        let suffixed = "/4/broadcasts/apps/example.app.push-type.liveactivity"
        let headers: [String: String?] = [
            "apns-channel-id": kept, "apns-push-type": "liveactivity", "apns-expiration": "0",
        ]
        #expect(try client.ask("POST", suffixed, headers, Self.broadcast).verdict == "400 TopicDisallowed")
        let accepted = self.ledger.snapshot.accepted
        #expect(accepted[SendAndToken(send: "s1", token: "/channels/\(fleeting)")] == 1)
        #expect(accepted[SendAndToken(send: "s1", token: "/channels/\(kept)")] == 1)
    }

    @Test func aBroadcastTakesEachPriorityAndADeviceTwoOfThem() throws {
        var client = try self.client()
        let channel = try self.create(&client, policy: 0)
        for priority in ["10", "5", "1", nil] {
            let headers: [String: String?] = [
                "apns-channel-id": channel, "apns-push-type": "liveactivity", "apns-expiration": "0",
                "apns-priority": priority,
            ]
            let path = "/4/broadcasts/apps/example.app"
            #expect(try client.ask("POST", path, headers, Self.broadcast).verdict == "200")
        }
        for (priority, verdict) in [("10", "200"), ("5", "200"), ("1", "400 BadPriority")] {
            var request = try self.fixture.request(
                [
                    "authorization": client.authorization, "apns-push-type": "liveactivity",
                    "apns-topic": "example.app.push-type.liveactivity", "apns-priority": priority,
                ],
                body: Self.broadcast,
            )
            request.headers.removeAll { $0.name == "apns-id" }
            #expect(try client.decided(request).verdict == verdict)
        }
    }

    @Test func aRequestsIDComesBackAndOneWithoutGetsOne() throws {
        var client = try self.client()
        func id(_ headers: [String: String?], _ path: String) throws -> String? {
            try client.ask("GET", path, headers).answer.headers.first { $0.name == "apns-request-id" }?.value
        }
        let own = "7c7c1d38-5a8f-4b2b-8d5c-0c4f3f8a9b10"
        let paths = [
            "/1/apps/example.app/all-channels", "/1/apps/stranger/all-channels", "/1/apps/example.app/nothing",
        ]
        for path in paths {
            #expect(try id(["apns-request-id": own], path) == own)
            let (one, other) = (try id([:], path), try id([:], path))
            #expect(one != nil && one != other && one != own)
            #expect(try id(["apns-request-id": "no UUID"], path) != "no UUID")
        }
    }

    @Test func anAppHasSoManyChannelsAndNoMore() throws {
        var client = try self.client()
        for _ in 0..<APNsChannels.perAppMax { _ = try self.create(&client, policy: 0) }
        let path = "/1/apps/example.app/channels"
        let order = #"{"message-storage-policy":0,"push-type":"LiveActivity"}"#
        #expect(try client.ask("POST", path, [:], order).verdict == "400 CannotCreateChannelConfig")
        #expect(self.state.provider(SimulatedAPNs.self).channels.ids(of: "example.app").count == 10_000)
        let first = self.state.provider(SimulatedAPNs.self).channels.ids(of: "example.app")[0]
        #expect(try client.ask("DELETE", path, ["apns-channel-id": first]).verdict == "204")
        #expect(try client.ask("POST", path, [:], order).verdict == "201")
    }
}
