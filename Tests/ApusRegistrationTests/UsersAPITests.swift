import ApusCore
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusStore
import ApusStreams
import ApusTestKit
import Testing

@Suite struct UsersAPITests {
    @Test func aUsersDevicesAreListedAndForgotten() async throws {
        try await Fixture.with { fixture in
            for device in ["a", "b"] {
                let body = #"{"provider":"fcm","token":"t-\#(device)","user":"anna","topics":["x"]}"#
                _ = try await fixture.ask("PUT", Fixture.path(device), body)
            }
            _ = try await fixture.ask("PUT", Fixture.path("c"), #"{"provider":"fcm","token":"t-c","user":"bert"}"#)
            let path = "/v1/apps/shop/users/anna/devices"
            let listed = try await fixture.ask("GET", path)
            #expect(listed.status == 200)
            let devices = try #require(try member(listed, "devices")?.array)
            #expect(devices.map { $0["device"]?.string } == ["a", "b"])
            #expect(devices.allSatisfy { $0["topics"] == ["x"] })
            #expect(!listed.text.contains("t-a"), "tokens are not shown")
            // Her own token lists and forgets them; another user's does not.
            let (anna, bert) = (try Fixture.token("anna"), try Fixture.token("bert"))
            #expect(try await fixture.ask("GET", path, key: anna).text == listed.text)
            #expect(try await fixture.ask("GET", path, key: bert).status == 403)
            #expect(try await fixture.ask("DELETE", "/v1/apps/shop/users/anna", key: bert).status == 403)
            #expect(try await fixture.ask("DELETE", "/v1/apps/shop/users/anna", key: anna).status == 204)
            #expect(try await fixture.ask("DELETE", "/v1/apps/shop/users/anna").status == 204)
            #expect(try member(try await fixture.ask("GET", path), "devices") == [])
            #expect(try await fixture.ask("GET", Fixture.path("a")).status == 404)
            #expect(try await fixture.ask("GET", Fixture.path("c")).status == 200)
            #expect(try await fixture.metrics.contains("change=\"deleted\",source=\"http\"} 2\n"))
        }
    }
}
