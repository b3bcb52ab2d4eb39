import ApusCore
import ApusMessages
import ApusStore
import Testing

private let token = String(repeating: "ab", count: 32)
private let iPhone =
    #"{"provider":"apns","token":"\#(token)","user":"anna","attributes":{"locale":"de-AT","tags":["vip"]},"topics":["news","sport"]}"#

@Suite struct DeviceAPITests {
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

            let again = try await fixture.ask("PUT", Fixture.path("d1"), iPhone)
            #expect(again.status == 200)
            #expect(again.header("etag") == etag)

            let removed = try await fixture.ask("DELETE", Fixture.path("d1"))
            #expect(removed.status == 204)
            #expect(removed.body.isEmpty)
            #expect(try await fixture.ask("GET", Fixture.path("d1")).status == 404)
            #expect(try await fixture.ask("DELETE", Fixture.path("d1")).status == 204)
        }
    }
}
