import ApusBuiltInProviders
import ApusCore
import ApusMessages
import ApusStreams
import ApusTestKit
import Testing

@testable import ApusRegistration
@testable import ApusStore

private let path = "/_matrix/push/v1/notify"
private let settings = "    matrix: {app_ids: [org.matrix.matrixConsole.ios, im.example.android]}"
/// Apple's token as homeservers have it, in base64, and as the app registered it.
private let base64 = "V2h5IG9uIGVhcnRoIGRpZCB5b3UgZGVjb2RlIHRoaXM/"
private let hexadecimal = "576879206f6e206561727468206469642079" + "6f75206465636f646520746869733f"

/// Tests the push gateway by the request examples of Matrix' specification.
@Suite struct MatrixTests {
    private static func register(_ fixture: Fixture) async throws {
        let app = try AppID("shop")
        let apple = DeviceRegistration(device: "iphone", provider: .apns, token: hexadecimal)
        let google = DeviceRegistration(device: "pixel", provider: .fcm, token: "fcm-token")
        for registration in [apple, google] { _ = try await fixture.store.register(app, registration) }
    }

    private static func body(
        _ app: String,
        _ key: String,
        event: String = "$3957tyerfgewrf384",
        data: String = "{}"
    ) -> String {
        """
        {"notification": {"event_id": "\(event)", "room_id": "!slw48wfj34rtnrf:example.com", "type": "m.room.message",
          "sender": "@exampleuser:matrix.org", "sender_display_name": "Major Tom", "room_name": "Mission Control",
          "room_alias": "#exampleroom:matrix.org", "prio": "high",
          "content": {"msgtype": "m.text", "body": "I'm floating in a most peculiar way."}, "counts": {"unread": 2, "missed_calls": 1},
          "devices": [{"app_id": "\(app)", "pushkey": "\(key)", "pushkey_ts": 12345678, "data": \(data), "tweaks": {"sound": "bing"}}]}}
        """
    }

    private static func notify(_ fixture: Fixture, _ body: String) async throws -> (status: Int, json: JSONValue) {
        let answer = try await fixture.ask("POST", path, body, key: nil)
        return (Int(answer.status), (try? JSONValue(parsing: answer.body, bytesMax: 1 << 20)) ?? .null)
    }

    private static func commands(_ fixture: Fixture) async throws -> [SendCommand] {
        try await fixture.messages { $0.mailbox(.express) }.map { try SendCommand.decode($0) }
    }

    @Test func `Requests without credentials hold no more than a quarter of the memory`() async throws {
        try await Fixture.with(settings: "  memory_limit: 16MiB", shop: settings) { fixture in
            let head =
                "POST /_matrix/push/v1/notify HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
                + "content-length: \(256 * 1_024)\r\n\r\n{" + String(repeating: " ", count: 256 * 1_024 - 2)
            var slow: [HTTPConnection] = []
            for _ in 0..<8 {
                let connection = try await HTTPConnection.open(port: fixture.port, isRaw: true)
                try await connection.write(head)
                slow.append(connection)
            }
            try await eventually("all are held") {
                try await fixture.metrics.contains("apus_http_held_bytes \(4 * 1_024 * 1_024 - 16)\n")
            }
            let json = [("content-type", "application/json")]
            let refused = try await fixture.connect()
            let answer = try await refused.ask("POST", path, json, body: Array("{}       ".utf8))
            #expect(answer.status == 503)
            await refused.close()
            let body = Array(("{}" + String(repeating: " ", count: 200 * 1_024)).utf8)
            let headers = [("authorization", "Bearer \(Fixture.publishKey)")] + json
            let other = try await fixture.connect()
            #expect(try await other.ask("POST", "/v1/apps/shop/sends", headers, body: body).status == 422)
            await other.close()
            for connection in slow { await connection.close() }
        }
    }

    @Test func `The specification's example goes to the device that registered the token, once`() async throws {
        try await Fixture.with(shop: settings) { fixture in
            try await Self.register(fixture)
            for _ in 0..<2 {
                let (status, json) = try await Self.notify(fixture, Self.body("org.matrix.matrixConsole.ios", base64))
                #expect(status == 200 && json == ["rejected": []], "\(json)")
            }
            let commands = try await Self.commands(fixture)
            #expect(commands.count == 1 && commands[0].target == .devices(["iphone"]))
            let notification = commands[0].notification
            #expect(notification.title == "Mission Control")
            #expect(notification.body == "Major Tom: I'm floating in a most peculiar way.")
            #expect(
                notification.badge == .set(3) && notification.priority == .high && notification.sound?.name == "bing"
            )
            #expect(notification.data["event_id"] == "$3957tyerfgewrf384" && notification.data["unread"] == "2")
        }
    }

    @Test func `Notifications for one push key have a rate, which no other key and no backend pays for`() async throws {
        let rates = "  push_key_rate_per_second: 1\n  app_rate_per_second: 100"
        try await Fixture.with(settings: rates, shop: settings) { fixture in
            try await Self.register(fixture)
            var statuses: [Int] = []
            for index in 0..<50 where statuses.last != 429 {
                let body = Self.body("im.example.android", "fcm-token", event: "$\(index)")
                statuses.append(try await Self.notify(fixture, body).status)
            }
            #expect(statuses.last == 429 && statuses.count < 20)
            let other = try await Self.notify(fixture, Self.body("org.matrix.matrixConsole.ios", base64))
            #expect(other.status == 200)
            #expect(try await fixture.ask("GET", Fixture.path("d1")).status == 404)
        }
    }

    /// A notification to devices whose push keys nobody has.
    private static func inventions(_ count: Int) -> String {
        let devices = (0..<count).map { #"{"app_id": "im.example.android", "pushkey": "no-\#($0)"}"# }
        return #"{"notification": {"counts": {"unread": 1}, "devices": [\#(devices.joined(separator: ","))]}}"#
    }

    @Test func `Push keys that nobody has are looked up at their app's rate, and take nothing from those of devices`()
        async throws
    {
        try await Fixture.with(settings: "  app_rate_per_second: 1", shop: settings) { fixture in
            try await Self.register(fixture)
            // One request passes with as many as it may have, or it never would; the next waits until those are paid for.
            let all = Self.inventions(MatrixBody.devicesMax)
            #expect(try await fixture.ask("POST", path, all, key: nil).status == 200)
            let answer = try await fixture.ask("POST", path, Self.inventions(1), key: nil)
            #expect(answer.status == 429 && (Int(answer.header("retry-after") ?? "") ?? 0) >= 1)
            let known = try await Self.notify(fixture, Self.body("im.example.android", "fcm-token"))
            #expect(known.status == 200 && known.json == ["rejected": []])
            #expect(try await fixture.ask("GET", Fixture.path("d1")).status == 404)
        }
    }

    @Test func `A request passes with more devices than its app's rate has at once`() async throws {
        try await Fixture.with(settings: "  app_rate_per_second: 1", shop: settings) { fixture in
            let tokens = (0..<10).map { "token-\($0)" }
            for token in tokens {
                let registration = DeviceRegistration(device: token, provider: .fcm, token: token)
                _ = try await fixture.store.register(try AppID("shop"), registration)
            }
            let devices = tokens.map { #"{"app_id": "im.example.android", "pushkey": "\#($0)"}"# }
            let list = devices.joined(separator: ",")
            let body = #"{"notification": {"counts": {"unread": 1}, "devices": [\#(list)]}}"#
            let (status, json) = try await Self.notify(fixture, body)
            #expect(status == 200 && json == ["rejected": []], "\(json)")
            #expect(try await Self.commands(fixture).count == tokens.count)
        }
    }

    @Test func `Each device of a request takes from the rate of its homeserver's address`() async throws {
        try await Fixture.with(settings: "  homeserver_rate_per_second: 1", shop: settings) { fixture in
            try await Self.register(fixture)
            let (status, json) = try await Self.notify(fixture, Self.inventions(MatrixBody.devicesMax))
            #expect(status == 200 && json["rejected"]?.array?.count == MatrixBody.devicesMax)
            #expect(try await Self.notify(fixture, Self.body("im.example.android", "fcm-token")).status == 429)
        }
    }

    @Test func `A homeserver's address has a rate`() async throws {
        try await Fixture.with(settings: "  homeserver_rate_per_second: 1", shop: settings) { fixture in
            var statuses: [Int] = []
            for _ in 0..<50 where statuses.last != 429 {
                statuses.append(try await Self.notify(fixture, Self.body("org.other", "x")).status)
            }
            #expect(statuses.last == 429 && statuses.count < 20)
            #expect(try await fixture.ask("GET", Fixture.path("d1")).status == 404)
        }
    }

    @Test func `By id only no word of the message goes out, and Android gets data with the app's own payload`()
        async throws
    {
        try await Fixture.with(shop: settings) { fixture in
            try await Self.register(fixture)
            let data = #"{"format": "event_id_only", "default_payload": {"aps": {"alert": {"loc-key": "MSG"}}}}"#
            _ = try await Self.notify(fixture, Self.body("org.matrix.matrixConsole.ios", hexadecimal, data: data))
            _ = try await Self.notify(fixture, Self.body("im.example.android", "fcm-token"))
            let commands = try await Self.commands(fixture)
            let iphone = try #require(commands.first { $0.target == .devices(["iphone"]) }).notification
            #expect(iphone.title.isEmpty && iphone.body.isEmpty && iphone.mutableContent)
            #expect(iphone.apnsJSON == #"{"aps":{"alert":{"loc-key":"MSG"}}}"#)
            #expect(Set(iphone.data.keys) == ["event_id", "room_id", "unread", "missed_calls"])
            let pixel = try #require(commands.first { $0.target == .devices(["pixel"]) }).notification
            #expect(pixel.androidStyle == .data && pixel.data["content_body"] == "I'm floating in a most peculiar way.")
            #expect(pixel.data["sender"] == "@exampleuser:matrix.org" && pixel.data["prio"] == "high")
        }
    }

    /// The notification of an event at a provider: by id only, without counts and sound, if not said otherwise.
    private static func silent(
        _ provider: Provider,
        _ payload: String = "{}",
        format: String = "event_id_only",
        counts: String = "{}",
    ) throws -> Notification {
        let data = #"{"format": "\#(format)", "default_payload": \#(payload)}"#
        let text = Self.body("im.example.android", "key", data: data)
            .replacing(#"{"unread": 2, "missed_calls": 1}"#, with: counts).replacing(#"{"sound": "bing"}"#, with: "{}")
        let body = try MatrixBody(Array(text.utf8))
        return body.notification(for: try #require(body.devices.first), at: provider)
    }

    @Test func `What has nothing to show at a provider is data that wakes the app, which every provider takes`() throws
    {
        for provider in [Provider.apns, .fcm, .webpush] {
            let notification = try Self.silent(provider)
            #expect(notification.kind == .background && notification.priority == .normal, "\(provider)")
            #expect(Set(notification.data.keys) == ["event_id", "room_id"] && !notification.mutableContent)
            #expect(notification.androidJSON == (provider == .fcm ? #"{"priority":"HIGH"}"# : ""))
        }
        // Apple takes nothing but its own member beside the data.
        let tidy = try Self.silent(.apns, #"{"aps": {"mutable-content": 1, "alert": null}, "a": 1}"#)
        #expect(tidy.kind == .background && tidy.apnsJSON == #"{"a":1}"#)
        #expect(try Self.silent(.apns, #"{"aps": {"alert": "m"}}"#).kind == .alert)
        // A number on the icon is something to show, but not in a browser, which needs a title.
        let counts = #"{"unread": 2}"#
        #expect(try Self.silent(.apns, counts: counts).kind == .alert)
        #expect(try Self.silent(.fcm, counts: counts).kind == .alert)
        let browser = try Self.silent(.webpush, #"{"a": "b"}"#, counts: counts)
        #expect(browser.kind == .background && browser.badge == nil)
        #expect(browser.data["unread"] == "2" && browser.data["a"] == "b")
        #expect(try Self.silent(.webpush, format: "").title == "Mission Control")
    }

    @Test func `Of a body is kept what a send takes, and a payload that no send takes is dropped when it is read`()
        throws
    {
        let numbers = "[" + Array(repeating: "1", count: 5_000).joined(separator: ",") + "]"
        let text = Self.body("im.example.android", "key", data: #"{"default_payload": {"a": \#(numbers)}}"#)
            .replacing("I'm floating in a most peculiar way.", with: String(repeating: "x", count: 2_000))
        let body = try MatrixBody(Array(text.utf8))
        #expect(body.text == String(repeating: "x", count: 1_024) && body.textType == "m.text")
        let device = try #require(body.devices.first)
        #expect(device.isByIDOnly && device.defaultPayload.isEmpty && device.pushKey == "key")
    }

    @Test func `Push keys without a device and unknown app ids are rejected, and counts alone are no repeat`()
        async throws
    {
        try await Fixture.with(shop: settings) { fixture in
            try await Self.register(fixture)
            #expect(
                try await Self.notify(fixture, Self.body("im.example.android", "dead")).json == ["rejected": ["dead"]]
            )
            #expect(
                try await Self.notify(fixture, Self.body("org.other", "fcm-token")).json == ["rejected": ["fcm-token"]]
            )
            let counts =
                #"{"notification": {"counts": {"unread": 0}, "devices": [{"app_id": "im.example.android", "pushkey": "fcm-token"}]}}"#
            for _ in 0..<2 { #expect(try await Self.notify(fixture, counts).json == ["rejected": []]) }
            let commands = try await Self.commands(fixture)
            #expect(
                commands.count == 2
                    && commands.allSatisfy { $0.notification.badge == .set(0) && $0.notification.title.isEmpty }
            )
        }
    }

    @Test func `A push key whose token changes hands is asked for again, and not rejected`() async throws {
        try await Fixture.with(shop: settings) { fixture in
            try await Self.register(fixture)
            let (app, tablet) = (try AppID("shop"), try DeviceID("tablet"))
            // A registration ends between the removal of the former holder and its own record.
            _ = try await fixture.store.claim(
                Array("fcm-token".utf8),
                fixture.store.home(app, tablet),
                asOf: nil,
                isRemembered: true,
            )
            #expect(try await fixture.store.get(app, try DeviceID("pixel")) == nil)
            let other = #"{"app_id": "org.matrix.matrixConsole.ios", "pushkey": "\#(base64)"}"#
            let body = Self.body("im.example.android", "fcm-token").replacing("}}]}}", with: "}}, \(other)]}}")
            let answer = try await fixture.ask("POST", path, body, key: nil)
            #expect(answer.status == 503 && answer.header("retry-after") != nil)
            // The push keys behind it do not wait for it.
            #expect(try await Self.commands(fixture).map(\.target) == [.devices(["iphone"])])
            let registration = DeviceRegistration(device: "tablet", provider: .fcm, token: "fcm-token")
            _ = try await fixture.store.register(app, registration)
            #expect(try await Self.notify(fixture, body).json == ["rejected": []])
            let targets = try await Self.commands(fixture).map(\.target)
            #expect(targets.count == 2 && Set(targets) == [.devices(["iphone"]), .devices(["tablet"])])
        }
    }

    @Test func `An event of the largest size, as deep as it likes, goes out clipped`() async throws {
        try await Fixture.with(shop: settings) { fixture in
            try await Self.register(fixture)
            let depth = 1_000
            let deep = String(repeating: #"{"a":["#, count: depth) + "1" + String(repeating: "]}", count: depth)
            let long = String(repeating: "ü", count: 31_000)
            let body = Self.body("im.example.android", "fcm-token")
                .replacing("I'm floating in a most peculiar way.", with: long)
                .replacing(#""content": {"#, with: #""content": {"deep": \#(deep), "\"]}": ["}", {}], "#)
                .replacing("Mission Control", with: String(repeating: "r", count: 60_000))
                .replacing("Major Tom", with: String(repeating: "s", count: 60_000))
                .replacing("!slw48wfj34rtnrf", with: String(repeating: "!", count: 5_000))
                .replacing("bing", with: String(repeating: "b", count: 300))
            let (status, json) = try await Self.notify(fixture, body)
            try #require(status == 200 && json == ["rejected": []], "\(json)")
            let commands = try await Self.commands(fixture)
            let notification = try #require(commands.first).notification
            #expect(commands.count == 1 && notification.title == String(repeating: "r", count: 256))
            #expect(notification.data["content_body"] == String(repeating: "ü", count: 512))
            #expect(notification.data["content_msgtype"] == "m.text" && notification.data["unread"] == "2")
            #expect(notification.data["room_name"] == notification.title)
            #expect(notification.data["sender_display_name"] == String(repeating: "s", count: 256))
            #expect(notification.data["room_id"] == String(repeating: "!", count: 256))
            #expect(notification.threadID == notification.data["room_id"])
            #expect(notification.sound?.name == String(repeating: "b", count: 256))

            let room = APILimits.operationBytesMax(.matrix, .post) - body.utf8.count
            let most = body.replacing("$3957tyerfgewrf384", with: "$2") + String(repeating: " ", count: room + 16)
            #expect(try await Self.notify(fixture, most).status == 200)
            #expect(try await Self.notify(fixture, most + " ").status == 413)
        }
    }

    /// A notification with one member of another value, which a path of names leads to.
    private static func body(_ path: [String], _ value: JSONValue) throws -> [UInt8] {
        func replaced(_ whole: JSONValue, _ path: ArraySlice<String>) throws -> JSONValue {
            guard let name = path.first else { return value }
            var object = try #require(whole.object)
            object[name] = try replaced(object[name] ?? .null, path.dropFirst())
            return .object(object)
        }
        var whole = try JSONValue(parsing: Self.body("im.example.android", "fcm-token"), bytesMax: 1 << 20)
        var notification = try #require(whole["notification"]?.object)
        if path.first == "devices", path.count > 1 {
            let device = try #require(notification["devices"]?.array?.first)
            notification["devices"] = .array([try replaced(device, path.dropFirst())])
        } else {
            notification = try #require(try replaced(.object(notification), path[...]).object)
        }
        whole = ["notification": .object(notification)]
        return Array(whole.text.utf8)
    }

    @Test func `A member of any type is taken where the sender of an event or its client chooses it`() throws {
        let values: [JSONValue] = [["x"], ["a": 1], [["event_id": "x"]], 4_294_967_295, .integer(-1), true, "x", nil]
        let free = [
            ["event_id"], ["room_id"], ["type"], ["sender"], ["sender_display_name"], ["room_name"], ["room_alias"],
            ["user_is_target"], ["prio"], ["content"], ["content", "body"], ["content", "msgtype"], ["counts"],
            ["counts", "unread"], ["counts", "missed_calls"], ["devices", "data"], ["devices", "data", "format"],
            ["devices", "data", "default_payload"], ["devices", "tweaks"], ["devices", "tweaks", "sound"],
        ]
        for path in free {
            for value in values {
                let refusal = RequestBodyReading.refusal(of: try Self.body(path, value), as: .matrix)
                #expect(refusal == nil, "\(path): \(value.text)")
            }
        }
        for path in [["devices"], ["devices", "app_id"], ["devices", "pushkey"]] {
            for value in [["a": 1], 1, true, ["x"]] as [JSONValue] {
                let refusal = RequestBodyReading.refusal(of: try Self.body(path, value), as: .matrix)
                #expect(refusal?.status == 422, "\(path): \(value.text)")
            }
        }
    }

    @Test func `An event with names of other types goes out with those that are texts`() async throws {
        try await Fixture.with(shop: settings) { fixture in
            try await Self.register(fixture)
            let body = Self.body("im.example.android", "fcm-token")
                .replacing(#""Major Tom""#, with: #"["Major Tom"]"#).replacing(#""Mission Control""#, with: "{}")
            let (status, json) = try await Self.notify(fixture, body)
            try #require(status == 200 && json == ["rejected": []], "\(json)")
            let notification = try #require(try await Self.commands(fixture).first).notification
            #expect(notification.title == "#exampleroom:matrix.org")
            #expect(notification.body == "@exampleuser:matrix.org: I'm floating in a most peculiar way.")
            #expect(notification.data["sender_display_name"] == nil && notification.badge == .set(3))
        }
    }

    @Test func `An app's payload that is too large is left out, with all but ids and counts`() async throws {
        try await Fixture.with(shop: settings) { fixture in
            try await Self.register(fixture)
            let large = #"{"default_payload": {"a": "\#(String(repeating: "x", count: 9_000))"}}"#
            for (app, key) in [("org.matrix.matrixConsole.ios", hexadecimal), ("im.example.android", "fcm-token")] {
                let (status, json) = try await Self.notify(fixture, Self.body(app, key, data: large))
                #expect(status == 200 && json == ["rejected": []], "\(json)")
            }
            let commands = try await Self.commands(fixture)
            #expect(commands.count == 2)
            for notification in commands.map(\.notification) {
                #expect(Set(notification.data.keys) == ["event_id", "room_id", "unread", "missed_calls"])
                #expect(notification.title.isEmpty && notification.apnsJSON.isEmpty && notification.badge == .set(3))
            }
        }
    }

    @Test func `What a device's provider would refuse is left out, or leaves ids and counts alone`() throws {
        BuiltInProviders.install()
        let app = try AppID("shop")
        func notification(_ provider: Provider, _ payload: String, _ text: String = "Hi") throws -> Notification {
            let json = Self.body("im.example.android", "key", data: #"{"default_payload": \#(payload)}"#)
                .replacing("bing", with: "").replacing("I'm floating in a most peculiar way.", with: text)
            let body = try MatrixBody(Array(json.utf8))
            let (device, now) = (try #require(body.devices.first), UnixMilliseconds(1_764_072_000_000))
            return try MatrixAPI.command(body, device, to: "d", at: provider, of: app, now: now).notification
        }
        for provider in [Provider.fcm, .webpush] {
            let payload = #"{"aps": {"mutable-content": 1}, "from": "a", "google.b": "c", "gcm": "d", "e": "f"}"#
            let whole = try notification(provider, payload)
            #expect(whole.title == "Mission Control" && whole.sound == nil && whole.data["e"] == "f", "\(provider)")
            #expect(["aps", "from", "google.b", "gcm"].allSatisfy { whole.data[$0] == nil }, "\(provider)")
        }
        let large = #"{"a": "\#(String(repeating: "x", count: 4_000))"}"#
        // Each of these is two bytes in a payload.
        let quotes = String(repeating: #"\""#, count: 1_000)
        for refused in [
            try notification(.apns, large), try notification(.fcm, large), try notification(.webpush, large),
            try notification(.apns, "{}", quotes), try notification(.apns, #"{"aps": []}"#),
            try notification(.fcm, #"{"apus_send": "a"}"#),
        ] {
            #expect(refused.title.isEmpty && refused.body.isEmpty && refused.apnsJSON.isEmpty)
            #expect(Set(refused.data.keys) == ["event_id", "room_id", "unread", "missed_calls"])
        }
    }

    @Test
    func `Without a configured app id there is no gateway; with one, UnifiedPush finds it and bad bodies are refused`()
        async throws
    {
        try await Fixture.with { fixture in
            let found = try await fixture.ask("GET", path, key: nil)
            let taken = try await Self.notify(fixture, Self.body("im.example.android", "fcm-token"))
            #expect(found.status == 404 && taken.status == 404)
        }
        try await Fixture.with(shop: settings) { fixture in
            let found = try await fixture.ask("GET", path, key: nil)
            #expect(found.status == 200)
            #expect(try JSONValue(parsing: found.body, bytesMax: 1_024) == ["unifiedpush": ["gateway": "matrix"]])
            let (status, json) = try await Self.notify(fixture, #"{"notification": {"devices": [{"app_id": "a"}]}}"#)
            #expect(status == 400 && json["errcode"] == "M_BAD_JSON")
            #expect(json["error"] == "/notification/devices/0/pushkey must be given", "\(json)")
            #expect(try await Self.notify(fixture, "{").json["errcode"] == "M_NOT_JSON")
        }
    }
}
