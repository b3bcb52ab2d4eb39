import ApusCore
import ApusMessages
import ApusStore
import Testing

private func fcm(_ token: String, _ more: String = "") -> String { #"{"provider":"fcm","token":"\#(token)"\#(more)}"# }

/// A device with a token of its app's identity provider may act for itself and its user, and for nobody else.
@Suite struct OwnershipTests {
    @Test func aDeviceRegistersItselfForItsUserOnly() async throws {
        try await Fixture.with { fixture in
            let anna = try Fixture.token("anna")
            let created = try await fixture.ask("PUT", Fixture.path("a1"), fcm("t1"), key: anna)
            #expect(created.status == 201, "\(created.text)")
            #expect(try member(created, "user") == "anna")
            #expect(
                try await fixture.ask("PUT", Fixture.path("a1"), fcm("t1", #","user":"anna""#), key: anna).status == 200
            )
            let forged = try await fixture.ask("PUT", Fixture.path("a2"), fcm("t2", #","user":"bert""#), key: anna)
            #expect(forged.status == 403)
            #expect(try await fixture.ask("GET", Fixture.path("a2")).status == 404)
            #expect(try await fixture.ask("PUT", "/v1/apps/shop/users/bert/devices/a1", key: anna).status == 403)
            #expect(try await fixture.ask("DELETE", "/v1/apps/shop/users/bert/devices/a1", key: anna).status == 403)
            let merge = ("content-type", "application/merge-patch+json")
            let moved = try await fixture.ask("PATCH", Fixture.path("a1"), #"{"user":"bert"}"#, key: anna, [merge])
            #expect(moved.status == 403)
            #expect(try member(try await fixture.ask("GET", Fixture.path("a1")), "user") == "anna")
        }
    }

    @Test func `A device that a provider's word removed is forgotten when its user logs out, and by nobody else`()
        async throws
    {
        try await Fixture.with { fixture in
            let (anna, bert) = (try Fixture.token("anna"), try Fixture.token("bert"))
            let (path, merge) = (Fixture.path("a1"), ("content-type", "application/merge-patch+json"))
            let (app, id) = (try AppID("shop"), try DeviceID("a1"))
            _ = try await fixture.ask("PUT", path, fcm("t1", #","topics":["x"]"#), key: anna)
            let device = try #require(try await fixture.store.get(app, id))
            let removed = try await fixture.store.prune(
                device.realm.route(of: app),
                device.reference,
                tokenDigest: DeviceToken.digest(device.record.token),
                asOf: device.registeredAt.advanced(byMilliseconds: 1),
                undo: .default,
            )
            #expect(removed == .applied(device))
            for (method, part, json, headers) in [
                ("PATCH", "", #"{"user":null}"# as String?, [merge]), ("DELETE", "", nil, []),
                ("PUT", "/topics", #"{"topics":[]}"#, []), ("DELETE", "/topics/x", nil, []),
            ] {
                _ = try await fixture.ask(method, path + part, json, key: bert, headers)
                #expect(try await fixture.store.prunedDevice(app, id) != nil, "\(method) \(part)")
            }
            #expect(try await fixture.ask("PATCH", path, #"{"user":null}"#, key: anna, [merge]).status == 404)
            #expect(try await fixture.store.prunedDevice(app, id) == nil)
        }
    }

    @Test func `Another's device looks as if it were not there`() async throws {
        try await Fixture.with { fixture in
            let (anna, bert) = (try Fixture.token("anna"), try Fixture.token("bert"))
            let path = Fixture.path("a1")
            let etag = try #require(
                try await fixture.ask("PUT", path, fcm("t1", #","topics":["x"]"#), key: anna).header("etag")
            )
            let merge = ("content-type", "application/merge-patch+json")
            let token = #"{"token":"00fc","kind":"live_activity_update"}"#
            let event = #"{"events":[{"id":"e","send":"s","kind":"opened"}]}"#
            let attempts: [(String, String, String?, [(String, String)])] = [
                ("GET", "", nil, []), ("PATCH", "", "{}", [merge]), ("PATCH", "", "{}", [merge, ("if-match", etag)]),
                ("DELETE", "", nil, []), ("DELETE", "", nil, [("if-match", "*")]),
                ("DELETE", "", nil, [("if-match", etag)]), ("DELETE", "", nil, [("if-none-match", "*")]),
                ("PUT", "", fcm("t9"), [("if-match", "*")]), ("PUT", "", fcm("t9"), [("if-match", etag)]),
                ("GET", "/topics", nil, []), ("PUT", "/topics", #"{"topics":["y"]}"#, []),
                ("POST", "/topics", #"{"subscribe":["y"]}"#, []), ("POST", "/topics", #"{"unsubscribe":["x"]}"#, []),
                ("PUT", "/topics/y", nil, []), ("DELETE", "/topics/x", nil, []),
                ("PUT", "/activities/a", token, []), ("DELETE", "/activities/a", nil, []),
                ("POST", "/events", event, []), ("POST", "/test", nil, []),
            ]
            var statuses: [Int: Int] = [:]
            for (method, part, json, headers) in attempts {
                let headers = headers + [("x-request-id", "same")]
                let there = try await fixture.ask(method, path + part, json, key: bert, headers)
                let notThere = try await fixture.ask(method, Fixture.path("none") + part, json, key: bert, headers)
                #expect(there.status == notThere.status, "\(method) \(part) \(headers)")
                #expect(there.text == notThere.text, "\(method) \(part)")
                #expect(there.headers.map(\.name) == notThere.headers.map(\.name), "\(method) \(part)")
                statuses[there.status, default: 0] += 1
            }
            #expect(statuses == [404: 10, 204: 4, 412: 5], "\(statuses)")
            let users = "/v1/apps/shop/users/bert/devices"
            for (method, status) in [("PUT", 404), ("DELETE", 204)] {
                for device in ["a1", "none"] {
                    #expect(try await fixture.ask(method, "\(users)/\(device)", key: bert).status == status)
                }
            }
            // Only who wants the same id for a device learns that it is taken.
            let taken = try await fixture.ask("PUT", path, fcm("t9"), key: bert)
            #expect(taken.status == 403)
            #expect(try member(taken, "detail") == "the device is another user's")
            #expect(try await fixture.ask("GET", path, key: anna).header("etag") == etag)
            #expect(try await fixture.ask("GET", Fixture.path("none")).status == 404)
            // Each was counted but for the registrations that a condition stopped and the log-out.
            #expect(
                try await fixture.metrics.contains(
                    "apus_registration_auth_failures_total{cause=\"owner\"} \(attempts.count)\n"
                )
            )
        }
    }

    @Test func nobodysDeviceMayBeTaken() async throws {
        try await Fixture.with { fixture in
            let bert = try Fixture.token("bert")
            _ = try await fixture.ask("PUT", Fixture.path("n1"), fcm("t1"))
            #expect(try await fixture.ask("GET", Fixture.path("n1"), key: bert).status == 200)
            #expect(try await fixture.ask("PUT", "\(Fixture.path("n1"))/topics/y", key: bert).status == 204)
            #expect(try await fixture.ask("PUT", "/v1/apps/shop/users/bert/devices/n1", key: bert).status == 204)
            #expect(try member(try await fixture.ask("GET", Fixture.path("n1"), key: bert), "user") == "bert")
            #expect(try await fixture.ask("DELETE", "/v1/apps/shop/users/bert/devices/n1", key: bert).status == 204)
            #expect(try member(try await fixture.ask("GET", Fixture.path("n1")), "user") == .null)
            #expect(try await fixture.ask("DELETE", Fixture.path("n1"), key: bert).status == 204)
            #expect(try await fixture.ask("DELETE", Fixture.path("n1"), key: bert).status == 204)
            #expect(try await fixture.ask("PUT", "/v1/apps/shop/users/bert/devices/n1", key: bert).status == 404)
        }
    }

    @Test func aDevicesOwnConditionsCountToo() async throws {
        try await Fixture.with { fixture in
            let anna = try Fixture.token("anna")
            let path = Fixture.path("a1")
            #expect(try await fixture.ask("PUT", path, fcm("t1"), key: anna, [("if-match", "*")]).status == 412)
            let created = try await fixture.ask("PUT", path, fcm("t1"), key: anna, [("if-none-match", "*")])
            #expect(created.status == 201)
            #expect(try await fixture.ask("PUT", path, fcm("t1"), key: anna, [("if-none-match", "*")]).status == 412)
            #expect(try await fixture.ask("DELETE", path, nil, key: anna, [("if-match", "\"x\"")]).status == 412)
            let etag = try #require(created.header("etag"))
            #expect(try await fixture.ask("DELETE", path, nil, key: anna, [("if-match", etag)]).status == 204)
        }
    }

    @Test func twoAppsSeeNothingOfEachOther() async throws {
        try await Fixture.with { fixture in
            let news = Fixture.path("same", app: "news")
            _ = try await fixture.ask("PUT", Fixture.path("same"), fcm("same", #","user":"u","topics":["shop-only"]"#))
            _ = try await fixture.ask(
                "PUT",
                news,
                fcm("same", #","user":"u","topics":["news-only"]"#),
                key: Fixture.newsKey
            )
            let shopDevice = try await fixture.ask("GET", Fixture.path("same"))
            let newsDevice = try await fixture.ask("GET", news, key: Fixture.newsKey)
            #expect(try member(shopDevice, "topics") == ["shop-only"])
            #expect(try member(newsDevice, "topics") == ["news-only"])
            for (method, path, key) in [
                ("GET", news, Fixture.shopKey), ("DELETE", news, Fixture.adminKey),
                ("GET", Fixture.path("same"), Fixture.newsKey), ("GET", news, try Fixture.token("u")),
            ] {
                #expect(try await fixture.ask(method, path, key: key).status == 401)
            }
            #expect(try await fixture.ask("DELETE", Fixture.path("same")).status == 204)
            #expect(
                try await fixture.ask("GET", news, key: Fixture.newsKey).header("etag") == newsDevice.header("etag")
            )
            let user = try UserID("u")
            #expect(try await fixture.store.devices(try AppID("shop"), ofUser: user).isEmpty)
            #expect(try await fixture.store.devices(try AppID("news"), ofUser: user).map(\.id) == ["same"])
        }
    }
}
