import ApusCore
import ApusMessages
import ApusStore
import Testing

/// Tests the limit of an app's devices.
struct DeviceLimitTests {
    /// The devices that one partition takes of an app that may have four: its share and five standard deviations.
    private static let most = 14

    private static func limited(_ fixture: StoreFixture) -> StoreFixture {
        var store = fixture.store
        store.devicesPerApp = 4
        return StoreFixture(app: fixture.app, client: fixture.client, store: store, clock: fixture.clock)
    }

    private static func code(_ body: () async throws -> Void) async -> StoreError.Code? {
        do {
            try await body()
            return nil
        } catch {
            return (error as? StoreError)?.code
        }
    }

    @Test func `One device more than an app may have is refused, and takes the token from no other`() async throws {
        try await StoreFixture.with(partitions: 1) { fixture in
            let fixture = Self.limited(fixture)
            for index in 0..<Self.most { try await fixture.register("d\(index)", topics: ["news"]) }
            #expect(
                await Self.code { try await fixture.register("more", token: "d3", topics: ["other"]) } == .deviceLimit
            )
            #expect(try await fixture.get("more") == nil)
            #expect(try await fixture.get("d3") != nil)
            #expect(try await fixture.store.topicNumber(fixture.app, try TopicName("other")) == nil)
            // Those that are there go on.
            try await fixture.register("d3", token: "new", topics: ["news"], environment: .sandbox)
            try await fixture.expectClean()

            _ = try await fixture.store.delete(fixture.app, DeviceID("d0"))
            try await fixture.register("more")
            #expect(await Self.code { try await fixture.register("yet-another") } == .deviceLimit)
            try await fixture.expectClean()
        }
    }

    @Test func `An app at its limit takes no room from another, and devices of all providers count together`()
        async throws
    {
        try await StoreFixture.with(partitions: 1) { fixture in
            let fixture = Self.limited(fixture)
            for index in 0..<Self.most {
                let token = index.isMultiple(of: 2) ? StoreFixture.token("t\(index)") : "token-\(index)"
                let provider: Provider = index.isMultiple(of: 2) ? .apns : .fcm
                let registration = DeviceRegistration(device: "d\(index)", provider: provider, token: token)
                _ = try await fixture.store.register(fixture.app, registration)
            }
            #expect(await Self.code { try await fixture.register("more") } == .deviceLimit)
            let other = try AppID("\(fixture.app.text.prefix(20))-other")
            let registration = DeviceRegistration(device: "more", provider: .apns, token: StoreFixture.token("more"))
            #expect(try await fixture.store.register(other, registration).change == .created)
        }
    }

    @Test func `Of many registrations at once those are refused that come after the limit`() async throws {
        try await StoreFixture.with(partitions: 1) { fixture in
            let fixture = Self.limited(fixture)
            func registrations(_ range: Range<Int>) -> [DeviceRegistration] {
                range.map { DeviceRegistration(device: "d\($0)", provider: .apns, token: StoreFixture.token("t\($0)")) }
            }
            for result in await fixture.store.register(fixture.app, registrations(0..<Self.most)) {
                _ = try result.get()
            }
            let mixed = await fixture.store.register(fixture.app, registrations(Self.most - 2..<Self.most + 3))
            #expect(mixed.map { (try? $0.get()) != nil } == [true, true, false, false, false])
            try await fixture.expectClean()
        }
    }
}
