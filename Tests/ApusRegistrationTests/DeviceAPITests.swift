import ApusCore
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusStore
import ApusStreams
import Testing

private let token = String(repeating: "ab", count: 32)
private let iPhone =
    #"{"provider":"apns","token":"\#(token)","user":"anna","attributes":{"locale":"de-AT","tags":["vip"]},"#
    + #""topics":["news","sport"]}"#

private func apns(_ more: String = "", token: String = token) -> String {
    #"{"provider":"apns","token":"\#(token)"\#(more.isEmpty ? "" : ",\(more)")}"#
}

@Suite struct DeviceAPITests {
    @Test func `One device more than an app may have is refused, and the answer names the setting`() async throws {
        try await Fixture.with(settings: "  devices_per_app: 1") { fixture in
            // Each of four partitions takes three at most.
            var refused: [Answer] = []
            for index in 0..<13 {
                let body = #"{"provider":"fcm","token":"t\#(index)"}"#
                let answer = try await fixture.ask("PUT", Fixture.path("d\(index)"), body)
                if answer.status != 201 { refused.append(answer) }
            }
            #expect(!refused.isEmpty && refused.allSatisfy { $0.status == 422 })
            #expect(refused.allSatisfy { $0.text.contains("registration.devices_per_app is 1") })
            // Another app has room, and so has a device that is there.
            let body = #"{"provider":"fcm","token":"other"}"#
            #expect(
                try await fixture.ask("PUT", Fixture.path("d0", app: "news"), body, key: Fixture.newsKey).status == 201
            )
            #expect(try await fixture.ask("PUT", Fixture.path("d0"), body).status == 200)
        }
    }

    @Test func `Removals are recorded when there is something to remove, apart from what operators do`() async throws {
        try await Fixture.with { fixture in
            let audit = fixture.installation.streams.audit
            try await audit.record(AuditEntry("key.revoke", of: "old", by: Operator("root", through: .commandLine)))
            _ = try await fixture.ask("PUT", Fixture.path("d1"), apns(#""user":"anna""#))
            for path in [Fixture.path("nobody"), "/v1/apps/shop/users/nobody"] {
                for _ in 0..<20 { #expect(try await fixture.ask("DELETE", path).status == 204) }
            }
            #expect(try await fixture.ask("DELETE", Fixture.path("d1"), nil, [("if-match", "\"x\"")]).status == 412)
            #expect(try await audit.newest(100).map(\.action) == ["key.revoke"])
            #expect(try await fixture.ask("DELETE", Fixture.path("d1")).status == 204)
            _ = try await fixture.ask("PUT", Fixture.path("d2"), apns(#""user":"anna""#))
            #expect(try await fixture.ask("DELETE", "/v1/apps/shop/users/anna").status == 204)
            #expect(try await audit.newest(100).map(\.action) == ["user.forget", "device.forget", "key.revoke"])
            let length = RedisCommand("XLEN", .text(StreamKeys.audit))
            #expect(try await fixture.client.send(length, on: HashTag(ofKey: StreamKeys.audit)).root.integer == 1)
        }
    }

    @Test func aDeviceIsCreatedReadReplacedAndRemoved() async throws {
        try await Fixture.with { fixture in
            let created = try await fixture.ask("PUT", Fixture.path("d1"), iPhone)
            #expect(created.status == 201, "\(created.text)")
            #expect(created.header("content-type") == "application/json")
            let etag = try #require(created.header("etag"))
            #expect(try member(created, "device") == "d1")
            #expect(try member(created, "provider") == "apns")
            #expect(try member(created, "environment") == "production")
            #expect(try member(created, "token_kind") == "device")
            #expect(try member(created, "user") == "anna")
            #expect(try member(created, "topics") == ["news", "sport"])
            #expect(try member(created, "attributes") == ["locale": "de-AT", "tags": ["vip"]])

            let read = try await fixture.ask("GET", Fixture.path("d1"))
            #expect(read.status == 200)
            #expect(read.text == created.text)
            #expect(read.header("etag") == etag)
            #expect(!read.text.contains(token.prefix(8)))
            #expect(try member(read, "token")?.string?.hasPrefix("token:") == true)
            #expect(read.header("x-request-id")?.isEmpty == false)
            let head = try await fixture.ask("HEAD", Fixture.path("d1"))
            #expect(head.status == 200)
            #expect(head.body.isEmpty)
            #expect(head.header("content-length") == String(read.body.count))

            let again = try await fixture.ask("PUT", Fixture.path("d1"), iPhone)
            #expect(again.status == 200)
            #expect(again.header("etag") == etag)
            // Another token; topics and attributes stay when nothing is said of them, the user does not.
            let rotated = try await fixture.ask("PUT", Fixture.path("d1"), apns(token: "cd" + token.dropFirst(2)))
            #expect(rotated.status == 200)
            #expect(rotated.header("etag") != etag)
            #expect(try member(rotated, "topics") == ["news", "sport"])
            #expect(try member(rotated, "user") == .null)

            let removed = try await fixture.ask("DELETE", Fixture.path("d1"))
            #expect(removed.status == 204)
            #expect(removed.body.isEmpty)
            #expect(try await fixture.ask("GET", Fixture.path("d1")).status == 404)
            #expect(try await fixture.ask("DELETE", Fixture.path("d1")).status == 204)
            #expect(!fixture.log.contains(token))
        }
    }

    @Test func conditionsAreObeyed() async throws {
        try await Fixture.with { fixture in
            let path = Fixture.path("d1")
            #expect(try await fixture.ask("PUT", path, apns(), [("if-match", "*")]).status == 412)
            let created = try await fixture.ask("PUT", path, apns(), [("if-none-match", "*")])
            #expect(created.status == 201)
            let etag = try #require(created.header("etag"))
            let refused = try await fixture.ask("PUT", path, apns(), [("if-none-match", "*")])
            #expect(refused.status == 412)
            #expect(try member(refused, "type") == "urn:apus:problem:precondition-failed")
            #expect(try await fixture.ask("GET", path, nil, [("if-none-match", etag)]).status == 304)
            #expect(try await fixture.ask("GET", path, nil, [("if-none-match", "\"x\", W/\(etag)")]).status == 304)
            #expect(try await fixture.ask("GET", path, nil, [("if-none-match", "\"x\"")]).status == 200)
            #expect(try await fixture.ask("DELETE", path, nil, [("if-match", "\"x\"")]).status == 412)
            #expect(try await fixture.ask("DELETE", path, nil, [("if-match", "W/\(etag)")]).status == 412)
            #expect(try await fixture.ask("DELETE", path, nil, [("if-match", "x")]).status == 400)
            #expect(try await fixture.ask("DELETE", path, nil, [("if-match", "\"x\", \(etag)")]).status == 204)
            #expect(try await fixture.ask("DELETE", path, nil, [("if-match", "*")]).status == 412)
            let merge = ("content-type", "application/merge-patch+json")
            #expect(try await fixture.ask("PATCH", path, "{}", [merge]).status == 404)
            #expect(try await fixture.ask("PATCH", path, "{}", [merge, ("if-match", etag)]).status == 412)
            #expect(try await fixture.metrics.contains("apus_registration_rejected_total{cause=\"precondition\"} 6\n"))
        }
    }

    @Test func `Each form of a device has a tag of its own, and either is good for a change`() async throws {
        try await Fixture.with { fixture in
            let path = Fixture.path("d1")
            let packed = ("accept", "application/protobuf")
            let text = try #require(try await fixture.ask("PUT", path, apns()).header("etag"))
            let read = try await fixture.ask("GET", path, nil, [packed])
            let bytes = try #require(read.header("etag"))
            #expect(read.header("content-type") == "application/protobuf" && bytes != text)
            #expect(try await fixture.ask("GET", path, nil, [packed, ("if-none-match", bytes)]).status == 304)
            #expect(try await fixture.ask("GET", path, nil, [packed, ("if-none-match", text)]).status == 200)
            #expect(try await fixture.ask("GET", path, nil, [("if-none-match", bytes)]).status == 200)
            let merge = ("content-type", "application/merge-patch+json")
            for tag in [text, bytes] {
                #expect(
                    try await fixture.ask("PATCH", path, #"{"badge":1}"#, [merge, ("if-match", tag)]).status == 200
                )
            }
            #expect(
                try await fixture.ask("PATCH", path, #"{"user":"bert"}"#, [merge, ("if-match", bytes)]).status == 200
            )
            for tag in [text, bytes] {
                #expect(try await fixture.ask("DELETE", path, nil, [("if-match", tag)]).status == 412)
            }
        }
    }

    @Test func theAppSaysWhatItsBadgeShows() async throws {
        try await Fixture.with { fixture in
            let merge = ("content-type", "application/merge-patch+json")
            let path = Fixture.path("d1")
            let created = try await fixture.ask("PUT", path, iPhone)
            #expect(try member(created, "badge") == 0)
            let etag = try #require(created.header("etag"))
            let device = try #require(try await fixture.store.get(try AppID("shop"), try DeviceID("d1")))
            let counted = try await fixture.store.countBadges(
                Route(app: try AppID("shop"), provider: .apns, environment: .production),
                Int(device.reference.partition),
                [.init(ordinal: device.reference.ordinal, generation: device.reference.generation)],
                send: 1,
                increment: 3,
            )
            #expect(counted == [3])
            let read = try await fixture.ask("GET", path, nil, [("if-none-match", etag)])
            #expect(read.status == 200 && read.header("etag") != etag)
            #expect(try member(read, "badge") == 3)
            // A condition speaks of what a change changes: a send that counted meanwhile does not break it.
            let reset = try await fixture.ask("PATCH", path, #"{"badge":0}"#, [merge, ("if-match", etag)])
            #expect(reset.status == 200 && reset.header("etag") == etag)
            #expect(try member(reset, "badge") == 0)
            let patched = try await fixture.ask("PATCH", path, #"{"badge":12,"user":"bert"}"#, [merge])
            #expect(try member(patched, "badge") == 12)
            // A request without the member leaves the value as it is.
            #expect(try member(try await fixture.ask("PUT", path, iPhone), "badge") == 12)
            #expect(try member(try await fixture.ask("PUT", path, apns(#""badge":2"#)), "badge") == 2)
            #expect(try member(try await fixture.ask("PATCH", path, #"{"badge":null}"#, [merge]), "badge") == 0)
            for wrong in [#"{"badge":-1}"#, #"{"badge":"1"}"#, #"{"badge":1.5}"#, #"{"badge":2147483648}"#] {
                #expect(try await fixture.ask("PATCH", path, wrong, [merge]).status == 422, "\(wrong)")
            }
            #expect(try await fixture.ask("PUT", path, apns(#""badge":2147483648"#)).status == 422)
            #expect(try member(try await fixture.ask("GET", path), "badge") == 0)
        }
    }

    @Test func aMergePatchChangesWhatItNames() async throws {
        try await Fixture.with { fixture in
            let merge = ("content-type", "application/merge-patch+json")
            let path = Fixture.path("d1")
            _ = try await fixture.ask("PUT", path, iPhone)
            let one = try await fixture.ask("PATCH", path, #"{"attributes":{"country":"AT","locale":null}}"#, [merge])
            #expect(one.status == 200)
            #expect(try member(one, "attributes") == ["country": "AT", "tags": ["vip"]])
            #expect(try member(one, "user") == "anna")
            let same = try await fixture.ask("PATCH", path, #"{"attributes":{"country":"AT"}}"#, [merge])
            #expect(same.header("etag") == one.header("etag"))
            let two = try await fixture.ask("PATCH", path, #"{"user":"bert","attributes":{"timeZone":"UTC"}}"#, [merge])
            #expect(try member(two, "attributes") == ["time_zone": "UTC", "country": "AT", "tags": ["vip"]])
            #expect(try member(two, "user") == "bert")
            let three = try await fixture.ask("PATCH", path, #"{"user":null,"attributes":null}"#, [merge])
            #expect(try member(three, "attributes") == [:])
            #expect(try member(three, "user") == .null)
            #expect(try member(three, "topics") == ["news", "sport"])

            let fixed = try await fixture.ask("PATCH", path, #"{"token":"ff","topics":[],"user":7}"#, [merge])
            #expect(fixed.status == 422)
            #expect(pointers(fixed) == ["#/token", "#/topics", "#/user"])
            let type = try await fixture.ask("PATCH", path, "{}")
            #expect(type.status == 415)
            #expect(type.header("accept-patch") == "application/merge-patch+json")
        }
    }

    @Test func topicsAndUsersComeAndGo() async throws {
        try await Fixture.with { fixture in
            let path = Fixture.path("d1")
            let topic = "\(path)/topics/news%2Dat"
            #expect(try await fixture.ask("PUT", topic).status == 404)
            #expect(try await fixture.ask("DELETE", topic).status == 204)
            _ = try await fixture.ask("PUT", path, apns())
            #expect(try await fixture.ask("PUT", topic).status == 204)
            #expect(try await fixture.ask("PUT", topic).status == 204)
            #expect(try member(try await fixture.ask("GET", path), "topics") == ["news-at"])
            #expect(try await fixture.ask("DELETE", topic).status == 204)
            #expect(try member(try await fixture.ask("GET", path), "topics") == [])
            #expect(try await fixture.ask("PUT", "\(path)/topics/a%20b").status == 400)

            let anna = "/v1/apps/shop/users/anna/devices/d1"
            #expect(try await fixture.ask("PUT", "/v1/apps/shop/users/anna/devices/nothing").status == 404)
            #expect(try await fixture.ask("PUT", anna).status == 204)
            #expect(try member(try await fixture.ask("GET", path), "user") == "anna")
            // A log-out that comes late: the device is somebody else's by now.
            #expect(try await fixture.ask("PUT", "/v1/apps/shop/users/bert/devices/d1").status == 204)
            #expect(try await fixture.ask("DELETE", anna).status == 204)
            #expect(try member(try await fixture.ask("GET", path), "user") == "bert")
            #expect(try await fixture.ask("DELETE", "/v1/apps/shop/users/bert/devices/d1").status == 204)
            #expect(try member(try await fixture.ask("GET", path), "user") == .null)
            let shop = try AppID("shop")
            #expect(try await fixture.store.devices(shop, ofUser: try UserID("bert")).isEmpty)
        }
    }

    @Test func protobufGoesInAndComesOut() async throws {
        try await Fixture.with { fixture in
            var registration = DeviceRegistration(device: "p1", provider: .fcm, token: "fcm-token-1")
            registration.topics = ["news"]
            registration.attributes.appVersion = "3.2"
            let connection = try await fixture.connect()
            for type in ["application/protobuf", "application/x-protobuf", "application/x-protobuffer"] {
                let answer = try await connection.ask(
                    "PUT",
                    Fixture.path("p1"),
                    [
                        ("authorization", "Bearer \(Fixture.adminKey)"), ("content-type", type),
                        ("accept", "application/json;q=0.5, application/protobuf"),
                    ],
                    body: try registration.encode(),
                )
                #expect(answer.status == (type == "application/protobuf" ? 201 : 200))
                #expect(answer.header("content-type") == "application/protobuf")
                let stored = try DeviceRegistration.decode(answer.body)
                #expect(stored.device == "p1")
                #expect(stored.provider == .fcm)
                #expect(stored.topics == ["news"])
                #expect(stored.attributes.appVersion == "3.2")
                #expect(stored.token.hasPrefix("token:"))
            }
            let elsewhere = try await connection.ask(
                "PUT",
                Fixture.path("p2"),
                [("authorization", "Bearer \(Fixture.adminKey)"), ("content-type", "application/protobuf")],
                body: try registration.encode(),
            )
            #expect(elsewhere.status == 422)
            #expect(pointers(elsewhere) == ["#/device"])
            let garbage = try await connection.ask(
                "PUT",
                Fixture.path("p2"),
                [("authorization", "Bearer \(Fixture.adminKey)"), ("content-type", "application/protobuf")],
                body: [0xff, 0xff, 0xff],
            )
            #expect(garbage.status == 400)
            await connection.close()
        }
    }

    @Test func whatBreaksARuleIsToldWithItsPlace() async throws {
        let rules: [(String, [String])] = [
            ("{}", ["#/provider", "#/token"]),
            ("[]", ["#"]),
            (#"{"provider":"pigeon","token":7}"#, ["#/provider", "#/token"]),
            (apns(token: "xyz"), ["#/token"]),
            (apns(token: ""), ["#/token"]),
            (apns(token: String(repeating: "ab", count: 201)), ["#/token"]),
            (#"{"provider":"fcm","token":"a b"}"#, ["#/token"]),
            (#"{"provider":"fcm","token":"a","environment":"sandbox"}"#, ["#/environment"]),
            (apns(#""environment":"staging","token_kind":"fax""#), ["#/environment", "#/token_kind"]),
            (apns(#""token_kind":"voip","tokenKind":"voip""#), ["#/token_kind"]),
            (apns(#""token_kind":"installation""#), ["#/token_kind"]),
            (#"{"provider":"fcm","token":"a","token_kind":"voip"}"#, ["#/token_kind"]),
            (apns(#""user":"a b","topics":["ok","not ok",3]"#), ["#/topics/2", "#/user", "#/topics/1"]),
            (apns(#""user":"\#(String(repeating: "u", count: 129))""#), ["#/user"]),
            (apns(#""topics":\#(list(101))"#), ["#/topics"]),
            (
                apns(#""attributes":{"tags":\#(list(65)),"country":"AUT","locale":1}"#),
                [
                    "#/attributes/locale", "#/attributes/country", "#/attributes/tags",
                ]
            ),
            (
                apns(#""attributes":{"tags":["","\#(String(repeating: "t", count: 65))"]}"#),
                [
                    "#/attributes/tags/0", "#/attributes/tags/1",
                ]
            ),
            (apns(#""attributes":{"locale":"\u0000"}"#), ["#/attributes/locale"]),
            (apns(#""attributes":{"locale":"en_GB"}"#), ["#/attributes/locale"]),
            (apns(#""device":"other""#), ["#/device"]),
            (apns(#""webpush_auth":"AAAA""#), ["#/webpush_auth"]),
            (
                #"{"provider":"webpush","token":"https://web.push.apple.com/1"}"#,
                ["#/webpush_p256dh", "#/webpush_auth"]
            ),
            (
                #"{"provider":"webpush","token":"http://push.example/1","webpush_auth":"*"}"#,
                [
                    "#/webpush_auth", "#/token", "#/webpush_p256dh",
                ]
            ),
        ]
        try await Fixture.with { fixture in
            for (body, expected) in rules {
                let answer = try await fixture.ask("PUT", Fixture.path("d1"), body)
                #expect(answer.status == 422, "\(body)")
                #expect(pointers(answer) == expected, "\(body)")
                #expect(try member(answer, "title") == "The content is not valid")
            }
            #expect(try await fixture.ask("PUT", Fixture.path("d1"), apns(#""topics":\#(list(100))"#)).status == 201)
            let count = rules.count
            #expect(
                try await fixture.metrics.contains("apus_registration_rejected_total{cause=\"validation\"} \(count)\n")
            )
        }
    }
}

/// Returns that many different words, as JSON.
private func list(_ count: Int) -> String { "[" + (0..<count).map { "\"t\($0)\"" }.joined(separator: ",") + "]" }

/// Returns the locations of the errors in a problem.
func pointers(_ answer: Answer) -> [String] {
    let errors = try? member(answer, "errors")?.array
    return errors?.compactMap { $0["pointer"]?.string } ?? []
}
