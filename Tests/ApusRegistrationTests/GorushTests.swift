import ApusCore
import ApusMessages
import ApusStreams
import Testing

@testable import ApusRegistration

private let path = "/v1/apps/shop/gorush/api/push"
private let iphone = String(repeating: "0a", count: 32)

/// Tests gorush's interface by the request examples of its documentation.
@Suite struct GorushTests {
    private static func commands(_ fixture: Fixture, _ lane: Lane = .bulk) async throws -> [SendCommand] {
        try await fixture.messages { $0.mailbox(lane) }.map { try SendCommand.decode($0) }
    }

    private static func push(
        _ fixture: Fixture,
        _ body: String,
        key: String = Fixture.publishKey,
        _ query: String = ""
    )
        async throws -> (status: Int, json: JSONValue)
    {
        let answer = try await fixture.ask("POST", path + query, body, key: key)
        return (Int(answer.status), (try? JSONValue(parsing: answer.body, bytesMax: 1 << 20)) ?? .null)
    }

    @Test func `A request may be larger than those of other interfaces`() async throws {
        try await Fixture.with { fixture in
            // gorush ignores what it does not know.
            let rest = String(repeating: "x", count: 100 * 1_024)
            let one = #"{"platform": 1, "message": "Hello", "tokens": ["\#(iphone)"], "unknown": "\#(rest)"}"#
            let body = #"{"notifications": ["# + Array(repeating: one, count: 6).joined(separator: ",") + "]}"
            #expect(body.utf8.count > APILimits.discardedBytesMax && body.utf8.count < APILimits.gorushBytesMax)
            let (status, json) = try await Self.push(fixture, body)
            #expect(status == 200 && json["counts"] == 6 && json["logs"] == [])
            #expect(json["sends"]?.array?.count == 6)
        }
    }

    @Test func `The examples of gorush's documentation are published and counted as gorush counts`() async throws {
        try await Fixture.with { fixture in
            let body = """
                {"notifications": [
                  {"tokens": ["\(iphone)", "\(iphone)"], "platform": 1, "message": "Hello World iOS!"},
                  {"tokens": ["token_a", "token_b", "token_c"], "platform": 2, "title": "Gorush", "message": "Hello World Android!"},
                  {"topic": "highScores", "platform": 2, "message": "This is a Firebase Cloud Messaging Topic Message"},
                  {"tokens": ["\(iphone)"], "platform": 1, "badge": 12, "alert": {"title": "Game Request", "body": "Bob wants to play poker",
                   "action-loc-key": "PLAY"}, "data": {"acme1": "bar", "acme2": [1, 2]}, "sound": {"critical": 1, "name": "default", "volume": 2.0},
                   "thread-id": "t", "development": true, "priority": "high", "expiration": 4102444800}
                ]}
                """
            let (status, json) = try await Self.push(fixture, body)
            #expect(status == 200 && json["success"] == "ok" && json["counts"] == 7 && json["logs"] == [], "\(json)")
            let commands = try await Self.commands(fixture)
            #expect(commands.count == 4 && json["sends"]?.array?.count == 4)
            let byBody = Dictionary(uniqueKeysWithValues: commands.map { ($0.notification.body, $0) })
            guard case .addresses(let phones) = try #require(byBody["Hello World iOS!"]).target else {
                Issue.record("tokens are addresses")
                return
            }
            #expect(phones.map(\.provider) == [.apns, .apns] && phones[0].environment == .production)
            let android = try #require(byBody["Hello World Android!"])
            #expect(android.notification.title == "Gorush")
            let topic = byBody["This is a Firebase Cloud Messaging Topic Message"]
            #expect(topic?.target == .fcmTopic("highScores"))
            let game = try #require(byBody["Bob wants to play poker"])
            #expect(game.notification.title == "Game Request" && game.notification.badge == .set(12))
            #expect(game.notification.data == ["acme1": "bar"] && game.notification.apnsJSON == #"{"acme2":[1,2]}"#)
            #expect(game.notification.sound == .init(name: "default", critical: true, volume: 1))
            #expect(game.notification.threadID == "t" && game.notification.priority == .high)
            #expect(game.notification.expiry == .at(UnixMilliseconds(seconds: 4_102_444_800)))
            guard case .addresses(let sandbox) = game.target else { return }
            #expect(sandbox.map(\.environment) == [.sandbox])
        }
    }

    @Test func `Android's data are texts, and its own objects go as they are`() async throws {
        try await Fixture.with { fixture in
            let body = """
                {"notifications": [{"notif_id": "n", "to": "token_a", "platform": 2, "data": {"n": 1, "o": {"a": true}},
                 "android": {"notification": {"channel_id": "c"}}, "fcm_options": {"analytics_label": "l"}, "collapse_id": "k"},
                 {"to": "/topics/news", "platform": 2, "message": "m"}, {"condition": "'a' in topics", "platform": 2, "message": "m"}]}
                """
            let (status, json) = try await Self.push(fixture, body, "?lane=express")
            #expect(status == 200 && json["counts"] == 2 && json["logs"] == [], "\(json)")
            let commands = try await Self.commands(fixture, .express) + Self.commands(fixture)
            let first = try #require(commands.first { $0.notification.collapseKey == "k" })
            #expect(
                first.notification.data == ["n": "1", "o": #"{"a":true}"#] && first.notification.androidStyle == .data
            )
            #expect(first.notification.androidJSON == #"{"notification":{"channel_id":"c"}}"#)
            #expect(first.notification.analyticsLabel == "l")
            #expect(commands.contains { $0.target == .fcmTopic("news") })
            #expect(commands.contains { $0.target == .fcmCondition("'a' in topics") })
        }
    }

    /// The one command of a notification.
    private static func command(_ notification: String) throws -> SendCommand {
        let body = #"{"notifications": [\#(notification)]}"#
        let reading = try #require(try GorushAPI.notifications(Array(body.utf8)).first)
        #expect(reading.mistakes.isEmpty, "\(reading.mistakes)")
        return try #require(reading.notification.commands(for: try AppID("shop")).first)
    }

    @Test func `Tokens are of the kind that the notification goes to`() throws {
        let kinds: [(members: String, kind: TokenKind)] = [
            (#""event": "start", "attributes-type": "A", "attributes": {}"#, .liveActivityStart),
            (#""event": "update", "content-state": {"score": 3}"#, .liveActivityUpdate),
            (#""event": "end""#, .liveActivityUpdate), (#""push_type": "pushtotalk""#, .pushToTalk),
            (#""push_type": "voip""#, .voip), (#""push_type": "complication""#, .device),
            (#""message": "m""#, .device),
        ]
        for (members, kind) in kinds {
            let command = try Self.command(#"{"platform": 1, "tokens": ["\#(iphone)"], \#(members)}"#)
            guard case .addresses(let addresses) = command.target else {
                Issue.record("tokens are addresses")
                continue
            }
            #expect(addresses.map(\.kind) == [kind], "\(members)")
        }
    }

    @Test func `An iPhone is woken silently when there is nothing to show, and else alerted`() throws {
        let now = UnixMilliseconds(1_764_072_000_000)
        func notification(_ members: String) throws -> Notification {
            let waking = #""platform": 1, "to": "a", "content_available": true, "priority": "high""#
            let command = try Self.command("{\(waking), \(members)}")
            try SendBody.check(command, now: now)
            return command.notification
        }
        let silent = try notification(
            #""data": {"k": "v", "n": 1}, "sound": "", "mutable_content": true, "thread-id": "t", "collapse_id": "c""#
        )
        #expect(silent.kind == .background && silent.priority == nil && silent.collapseKey == "c")
        #expect(silent.data == ["k": "v"] && silent.apnsJSON == #"{"n":1}"#)
        #expect(try notification(#""push_type": "background", "data": {"k": "v"}"#).kind == .background)
        for shown in [
            #""badge": 0"#, #""sound": "bing""#, #""message": "m""#, #""alert": {"subtitle": "s"}"#,
            #""alert": {"loc-key": "k"}"#, #""alert": {"title-loc-key": "k"}"#,
        ] {
            let alert = try notification(shown)
            #expect(alert.kind == .alert && alert.contentAvailable && alert.priority == .high, "\(shown)")
        }
        let activity = try notification(#""event": "update", "content-state": {}, "relevance-score": 1"#)
        #expect(activity.kind == .liveActivity && activity.relevanceScore == 1)
    }

    @Test func `A sound's volume is one that Apple takes, and name and volume beside it make a critical one`() throws {
        func sound(_ members: String) throws -> Notification.Sound? {
            try Self.command(#"{"platform": 1, "to": "a", "message": "m", \#(members)}"#).notification.sound
        }
        #expect(try sound(#""sound": {"name": "bing", "volume": 1}"#) == .init(name: "bing"))
        #expect(try sound(#""sound": {"critical": 1, "volume": -1}"#) == .init(critical: true, volume: 0))
        #expect(try sound(#""sound": {"critical": 1, "name": ""}"#) == .init(critical: true))
        #expect(try sound(#""sound": "bing", "name": "bell""#) == .init(name: "bell", critical: true, volume: 1))
        #expect(try sound(#""volume": 0.5"#) == .init(critical: true, volume: 0.5))
        #expect(try sound(#""name": "", "volume": 0, "sound": "bing""#) == .init(name: "bing"))
    }

    @Test func `A topic counts on every platform, and a condition on none`() throws {
        func count(_ members: String) throws -> Int {
            let body = #"{"notifications": [{"message": "m", \#(members)}]}"#
            return try #require(try GorushAPI.notifications(Array(body.utf8)).first).notification.count
        }
        #expect(try count(#""platform": 1, "tokens": ["a", "b"], "topic": "com.example.shop""#) == 3)
        #expect(try count(#""platform": 2, "tokens": ["a"], "topic": "news""#) == 2)
        #expect(try count(#""platform": 2, "condition": "'a' in topics""#) == 0)
    }

    @Test func `The texts of alert replace those beside it at iPhones, and are for nobody else`() throws {
        func texts(_ platform: Int, _ members: String) throws -> [String] {
            let command = try Self.command(#"{"platform": \#(platform), "to": "a", \#(members)}"#)
            return [command.notification.title, command.notification.body, command.notification.subtitle]
        }
        let beside = #""title": "t", "message": "m""#
        let alert = #""alert": {"title": "T", "body": "B", "subtitle": "S"}"#
        #expect(try texts(1, "\(beside), \(alert)") == ["T", "B", "S"])
        #expect(try texts(2, "\(beside), \(alert)") == ["t", "m", ""])
        #expect(try texts(1, #"\#(beside), "alert": {"title": "", "body": ""}"#) == ["t", "m", ""])
        // FCM's own form, which is for Android, has the texts that stand nowhere else.
        let own = #""notification": {"title": "N", "body": "O"}"#
        #expect(try texts(2, #"\#(own), "message": "m""#) == ["N", "m", ""])
        #expect(try texts(1, #"\#(own), "message": "m""#) == ["", "m", ""])
    }

    @Test func `An expiration of 0 is none`() throws {
        for platform in [1, 2] {
            let command = try Self.command(#"{"platform": \#(platform), "to": "a", "message": "m", "expiration": 0}"#)
            #expect(command.notification.expiry == nil)
        }
    }

    @Test func `Data alone wakes an iPhone behind Google silently, unless its icon, a sound or own JSON say otherwise`()
        throws
    {
        func styles(_ members: String) throws -> [Notification.FCMStyle] {
            let command = try Self.command(#"{"platform": 2, "to": "a", "data": {"k": "v"}, \#(members)}"#)
            let notification = command.notification
            return [notification.androidStyle, notification.fcmAPNsStyle, notification.fcmWebpushStyle]
        }
        #expect(try styles(#""content_available": true"#) == [.data, .data, .data])
        #expect(try styles(#""badge": 3"#) == [.data, .notification, .data])
        #expect(try styles(#""sound": "bing""#) == [.data, .notification, .data])
        let own = #""apns": {"payload": {"aps": {"alert": "m"}}}, "webpush": {"notification": {"title": "m"}}"#
        #expect(try styles(own) == [.data, .notification, .notification])
        #expect(try styles(#""message": "m""#) == [.notification, .notification, .notification])
    }

    @Test func `What is not valid stands in the log, and the rest is sent`() async throws {
        try await Fixture.with { fixture in
            let body = """
                {"notifications": [
                  {"notif_id": "h", "tokens": ["a", "b"], "platform": 3, "message": "m"},
                  {"notif_id": "p", "tokens": ["a"], "platform": 2, "message": "m", "priority": "urgent"},
                  {"notif_id": "t", "platform": 1, "message": "m"},
                  {"notif_id": "ok", "tokens": ["a"], "platform": 2, "message": "m"}
                ]}
                """
            let (status, json) = try await Self.push(fixture, body)
            #expect(status == 200 && json["counts"] == 4 && json["sends"]?.array?.count == 1)
            let logs = json["logs"]?.array ?? []
            #expect(logs.map { $0["notif_id"]?.string } == ["h", "h", "p", "t"])
            #expect(logs.allSatisfy { $0["type"] == "failed-push" && $0["message"] == "m" })
            #expect(logs[0]["platform"] == "huawei" && logs[0]["token"] == "a" && logs[1]["token"] == "b")
            #expect(logs[2]["error"] == "/notifications/1/priority must be high or normal", "\(logs)")
            #expect(try await Self.commands(fixture).count == 1)
        }
    }

    @Test
    func `The log of an answer has a maximum of lines and of bytes, however many tokens share a mistake`()
        async throws
    {
        try await Fixture.with { fixture in
            let message = String(repeating: "\u{e9}", count: 100_000)
            let tokens = (0..<GorushAnswer.logLinesMax + 20).map { #""t\#($0)""# }.joined(separator: ",")
            let one = #"{"notif_id": "\#(message)", "tokens": [\#(tokens)], "platform": 3, "message": "\#(message)"}"#
            let answer = try await fixture.ask(
                "POST",
                path,
                #"{"notifications": [\#(one), \#(one)]}"#,
                key: Fixture.publishKey
            )
            #expect(answer.status == 200 && answer.body.count < 256 * 1_024, "\(answer.body.count) bytes")
            let json = try JSONValue(parsing: answer.body, bytesMax: 1 << 20)
            let logs = json["logs"]?.array ?? []
            #expect(logs.count == GorushAnswer.logLinesMax && json["omitted_logs"] == 140)
            #expect(json["counts"] == 240)
            let texts = logs.flatMap { [$0["message"]?.string, $0["notif_id"]?.string] }
            #expect(texts.allSatisfy { $0?.utf8.count == GorushAnswer.logTextBytesMax })
        }
    }

    @Test func `A request has a maximum of tokens`() throws {
        func body(_ count: Int) -> [UInt8] {
            let half = Array(repeating: #""a""#, count: count / 2).joined(separator: ",")
            return Array(#"{"notifications": [{"tokens": [\#(half)]}, {"tokens": [\#(half)]}]}"#.utf8)
        }
        #expect(try GorushAPI.notifications(body(GorushAPI.tokensMax)).count == 2)
        let refusal = #expect(throws: ProblemDetails.self) {
            try GorushAPI.notifications(body(GorushAPI.tokensMax + 2))
        }
        #expect(refusal?.detail == "Number of tokens(65538) over limit(65536)")
    }

    @Test func `Numbers among tokens are no mistakes without end`() throws {
        let numbers = Array(repeating: "1", count: 30_000).joined(separator: ",")
        let body = #"{"notifications": [{"platform": 2, "tokens": ["a", \#(numbers)]}]}"#
        let reading = try #require(try GorushAPI.notifications(Array(body.utf8)).first)
        #expect(reading.mistakes.count == ProblemDetails.partsMax + 1)
        #expect(try #require(RequestBodyReading.gorushAnswer(to: Array(body.utf8))).count < 2_048)
    }

    @Test func `Requests without notifications or with too many are refused in gorush's words`() async throws {
        try await Fixture.with { fixture in
            let one = #"{"tokens": ["a"], "platform": 2, "message": "m"}"#
            let many = #"{"notifications": ["# + Array(repeating: one, count: 101).joined(separator: ",") + "]}"
            for (body, message) in [
                ("{}", "Missing notifications field."), (#"{"notifications": []}"#, "Notifications field is empty."),
                (many, "Number of notifications(101) over limit(100)"),
            ] {
                let (status, json) = try await Self.push(fixture, body)
                #expect(status == 400 && json["code"] == 400 && json["message"]?.string == message, "\(json)")
            }
            #expect(try await Self.push(fixture, one, key: Fixture.shopKey).status == 403)
            #expect(try await Self.push(fixture, one, key: "nobody").status == 401)
            #expect(try await Self.commands(fixture).isEmpty)
        }
    }

    @Test func `The content is JSON whatever its type says, and not encoded`() async throws {
        try await Fixture.with { fixture in
            let body = #"{"notifications": [{"tokens": ["a"], "platform": 2, "message": "m"}]}"#
            for type in ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", nil] {
                let connection = try await fixture.connect()
                var headers = [("authorization", "Bearer \(Fixture.publishKey)")]
                if let type { headers.append(("content-type", type)) }
                let answer = try await connection.ask("POST", path, headers, body: Array(body.utf8))
                #expect(answer.status == 200, "\(type ?? "none")")
                await connection.close()
            }
            let headers = [("content-type", "application/json"), ("content-encoding", "gzip")]
            #expect(try await fixture.ask("POST", path, body, key: Fixture.publishKey, headers).status == 415)
            #expect(try await Self.commands(fixture).count == 4)
        }
    }

    @Test func `Of a notification in several parts the tokens of those that fail stand in the log`() async throws {
        try await Fixture.with { fixture in
            // The id of the second part is taken.
            let key = "order 18"
            let id = GorushAPI.id(try AppID("shop"), key, "0/1")
            let other = #"{"id": "\#(id)", "target": {"topic": "other"}, "notification": {"title": "other"}}"#
            let taken = try await fixture.ask("POST", "/v1/apps/shop/sends", other, key: Fixture.publishKey)
            try #require(taken.status == 202)

            let most = GorushNotification.tokensPerCommandMax
            let tokens = (0..<2 * most + 1).map { "\(10_000_000 + $0)" + iphone.dropFirst(8) }
            let list = tokens.map { "\"\($0)\"" }.joined(separator: ",")
            let body = #"{"notifications": [{"notif_id": "n", "platform": 1, "message": "m", "tokens": [\#(list)]}]}"#
            let headers = [("idempotency-key", key)]
            let answer = try await fixture.ask("POST", path, body, key: Fixture.publishKey, headers)
            let json = try JSONValue(parsing: answer.body, bytesMax: 1 << 20)
            #expect(answer.status == 200 && json["counts"]?.int64 == Int64(tokens.count), "\(json)")
            #expect(json["sends"]?.array?.count == 1)
            let logs = json["logs"]?.array ?? []
            #expect(logs.map { $0["token"]?.string } == tokens[most...].prefix(GorushAnswer.logLinesMax).map { $0 })
            let omitted = most + 1 - GorushAnswer.logLinesMax
            #expect(json["omitted_logs"]?.int64 == Int64(omitted))
            #expect(try await Self.commands(fixture).count == 2)
        }
    }

    @Test func `A request that is repeated with its key is sent once`() async throws {
        try await Fixture.with { fixture in
            let body = #"{"notifications": [{"tokens": ["a"], "platform": 2, "message": "m"}]}"#
            let headers = [("idempotency-key", "order 17")]
            let first = try await fixture.ask("POST", path, body, key: Fixture.publishKey, headers)
            let again = try await fixture.ask("POST", path, body, key: Fixture.publishKey, headers)
            #expect(first.status == 200 && first.body == again.body)
            #expect(try await Self.commands(fixture).count == 1)
        }
    }

    @Test func `An empty key is none, and a text that is no key is refused`() async throws {
        try await Fixture.with { fixture in
            func push(_ message: String, key: String) async throws -> (status: Int, sends: [String]) {
                let body = #"{"notifications": [{"tokens": ["a"], "platform": 2, "message": "\#(message)"}]}"#
                let headers = [("idempotency-key", key)]
                let answer = try await fixture.ask("POST", path, body, key: Fixture.publishKey, headers)
                let json = try JSONValue(parsing: answer.body, bytesMax: 1 << 20)
                return (Int(answer.status), json["sends"]?.array?.compactMap(\.string) ?? [])
            }
            let first = try await push("one", key: "")
            let second = try await push("two", key: "")
            #expect(first.status == 200 && second.status == 200)
            #expect(Set(first.sends + second.sends).count == 2)
            #expect(try await push("three", key: String(repeating: "k", count: 129)).status == 400)
            #expect(try await Self.commands(fixture).count == 2)
        }
    }
}
