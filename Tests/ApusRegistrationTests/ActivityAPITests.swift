import ApusCore
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusStore
import ApusStreams
import ApusTestKit
import Testing

private let device = #"{"provider":"apns","token":"\#(String(repeating: "ab", count: 32))"}"#
private let path = "\(Fixture.path("a1"))/activities/delivery-7"

private func body(_ kind: String = "live_activity_update", token: String = "cdcd", _ more: String = "") -> String {
    #"{"kind":"\#(kind)","token":"\#(token)"\#(more)}"#
}

@Suite struct ActivityAPITests {
    @Test func anActivityHasItsTokenForATime() async throws {
        try await Fixture.with { fixture in
            let app = try AppID("shop")
            let id = try DeviceID("a1")
            #expect(try await fixture.ask("PUT", path, body()).status == 404)
            _ = try await fixture.ask("PUT", Fixture.path("a1"), device)
            let before = fixture.store.now
            #expect(try await fixture.ask("PUT", path, body()).status == 204)
            #expect(try await fixture.ask("PUT", path, body(token: "efef")).status == 204)
            let address = try #require(try await fixture.store.get(app, id)?.record.secondary.first)
            #expect(try await fixture.store.get(app, id)?.record.secondary.count == 1)
            #expect(address.token == [0xef, 0xef])
            #expect(address.activityID == "delivery-7")
            #expect((before.seconds + 43_200...before.seconds + 43_260).contains(address.expiresAtSeconds))
            let shown = try await fixture.ask("GET", Fixture.path("a1"))
            #expect(try member(shown, "activities")?.array?.first?["activity"] == "delivery-7")
            #expect(!shown.text.contains("efef"))
            // The device's next start keeps it, another user's log-in does not.
            _ = try await fixture.ask("PUT", Fixture.path("a1"), device)
            #expect(try await fixture.store.get(app, id)?.record.secondary.count == 1)
            _ = try await fixture.ask("PUT", "/v1/apps/shop/users/anna/devices/a1")
            #expect(try await fixture.store.get(app, id)?.record.secondary.isEmpty == true)
            #expect(try await fixture.ask("PUT", path, body("live_activity_start")).status == 204)
            #expect(try await fixture.ask("DELETE", path).status == 204)
            #expect(try await fixture.ask("DELETE", path).status == 204)
            #expect(try await fixture.store.get(app, id)?.record.secondary.isEmpty == true)
        }
    }

    @Test func thereIsALimitAndWhoseTimeIsOverGoes() async throws {
        try await Fixture.with { fixture in
            _ = try await fixture.ask("PUT", Fixture.path("a1"), device)
            let all = "\(Fixture.path("a1"))/activities"
            for number in 0..<16 { #expect(try await fixture.ask("PUT", "\(all)/\(number)", body()).status == 204) }
            let crowded = try await fixture.ask("PUT", "\(all)/16", body())
            #expect(crowded.status == 422)
            let soon = #","expires_at_ms":\#(fixture.store.now.value + 3_000)"#
            #expect(try await fixture.ask("PUT", "\(all)/15", body(token: "cd", soon)).status == 204)
            try await eventually("the one whose time is over makes room") {
                try await fixture.ask("PUT", "\(all)/16", body()).status == 204
            }
        }
    }

    @Test func onlyAnAPNsDeviceHasThemAndTheBodyIsChecked() async throws {
        try await Fixture.with { fixture in
            let table: [(String, [String])] = [
                ("{}", ["#/token", "#/kind"]), (body("device"), ["#/kind"]), (body(token: "xyz"), ["#/token"]),
                (body("live_activity_update", token: "cd", #","expires_at_ms":1"#), ["#/expires_at_ms"]),
            ]
            _ = try await fixture.ask("PUT", Fixture.path("a1"), device)
            for (body, expected) in table {
                let answer = try await fixture.ask("PUT", path, body)
                #expect(answer.status == 422, "\(body)")
                #expect(pointers(answer) == expected, "\(body)")
            }
            _ = try await fixture.ask("PUT", Fixture.path("a1"), #"{"provider":"fcm","token":"t"}"#)
            #expect(try await fixture.ask("PUT", path, body()).status == 422)
        }
    }
}
