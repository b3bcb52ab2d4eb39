import ApusCore
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

    @Test func anothersDeviceIsOutOfReach() async throws {
        try await Fixture.with { fixture in
            let (anna, bert) = (try Fixture.token("anna"), try Fixture.token("bert"))
            let path = Fixture.path("a1")
            let etag = try await fixture.ask("PUT", path, fcm("t1", #","topics":["x"]"#), key: anna).header("etag")
            let merge = ("content-type", "application/merge-patch+json")
            let attempts: [(String, String, String?, [(String, String)])] = [
                ("GET", path, nil, []), ("PUT", path, fcm("t9"), []), ("PATCH", path, "{}", [merge]),
                ("DELETE", path, nil, []), ("PUT", "\(path)/topics/y", nil, []),
                ("DELETE", "\(path)/topics/x", nil, []),
                ("PUT", "/v1/apps/shop/users/bert/devices/a1", nil, []),
            ]
            for (method, target, json, headers) in attempts {
                let answer = try await fixture.ask(method, target, json, key: bert, headers)
                #expect(answer.status == 403, "\(method) \(target)")
                #expect(try member(answer, "detail") == "the device is another user's")
            }
            // Logging out of what is not one's own changes nothing.
            #expect(try await fixture.ask("DELETE", "/v1/apps/shop/users/bert/devices/a1", key: bert).status == 204)
            #expect(try await fixture.ask("GET", path, key: anna).header("etag") == etag)
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
