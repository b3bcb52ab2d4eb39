import ApusCore
import ApusMessages
import ApusRedis
import ApusStore
import ApusTestKit
import Testing

@Suite struct LoadTests {
    /// Devices of three realms, in a topic of everyone, and of a half, a fiftieth and a thousandth; two of three with a user.
    private static func device(_ index: Int) -> DeviceRegistration {
        let realm: Realm = [.apns, .apns, .apns, Realm(.apns, .sandbox), .fcm][index % 5]
        var registration = DeviceRegistration(
            device: "phone-\(index)",
            provider: realm.provider,
            token: StoreFixture.token("token-\(index)"),
        )
        registration.environment = realm.environment
        registration.user = index % 3 == 0 ? "" : "user-\(index / 4)"
        registration.attributes.locale = index % 2 == 0 ? "de" : "fr"
        registration.topics = ["all"]
        if index % 2 == 0 { registration.topics?.append("half") }
        if index % 50 == 0 { registration.topics?.append("fiftieth") }
        if index % 1_000 == 0 { registration.topics?.append("thousandth") }
        return registration
    }

    @Test func `A loaded store agrees with itself, and works like any other`() async throws {
        // Two partitions, so that there is more than one chunk.
        try await StoreFixture.with(partitions: 2) { fixture in
            let (app, store) = (fixture.app, fixture.store)
            // Two passes, so that every device is asked for twice and its parts are written in different ones.
            try await store.load(app, count: 20_000, gatheredMax: 10_000, device: Self.device)
            #expect(try await store.chunkCount(fixture.route, 0) == 2)
            let loaded = try await fixture.expectClean()
            #expect(loaded.devices.count == 20_000)
            #expect(try await fixture.topics(try #require(loaded.devices["phone-3000"])).count == 4)
            let users = try await store.devices(app, ofUser: UserID("user-100"))
            #expect(users.map(\.id).sorted() == ["phone-400", "phone-401", "phone-403"])

            // Across all forms of postings, the ids, the tokens and the users.
            var random = SeededGenerator(seed: 7)
            var expected = loaded.devices.count
            for step in 0..<400 {
                let device = try DeviceID("phone-\(Int.random(in: 0..<20_000, using: &random))")
                switch Int.random(in: 0..<6, using: &random) {
                case 0: if case .deleted = try await store.delete(app, device) { expected -= 1 }
                case 1: _ = try await store.subscribe(app, device, to: ["fiftieth", "thousandth"])
                case 2: _ = try await store.unsubscribe(app, device, from: ["half", "fiftieth"])
                case 3: _ = try await store.bindUser(app, device, UserID("user-\(step % 9)"))
                case 4:
                    _ = try await fixture.register("new-\(step)", topics: ["half", "own-\(step)"])
                    expected += 1
                default:
                    // Takes the token of a device that was loaded, or nobody's.
                    let index = Int.random(in: 0..<20_000, using: &random)
                    let isHeld = try await fixture.get("phone-\(index)") != nil
                    let isApple = Self.device(index).provider == .apns
                    _ = try await fixture.register("thief-\(step)", token: "token-\(index)")
                    if !isHeld || !isApple { expected += 1 }
                }
            }
            let check = try await fixture.expectClean()
            #expect(check.devices.count == expected)
        }
    }

    @Test func `A loaded store is the same, byte for byte, as one that was registered`() async throws {
        let app = "load-same"
        var dumps: [[String: [String: [UInt8]]]] = []
        for isLoaded in [true, false] {
            let server = try await RedisServer.start()
            let fixture = try await StoreFixture.make(on: server, partitions: 2, app: app)
            if isLoaded {
                try await fixture.store.load(fixture.app, count: 600, device: Self.device)
            } else {
                for index in 0..<600 { _ = try await fixture.store.register(fixture.app, Self.device(index)) }
            }
            dumps.append(try await Self.dump(fixture))
            await fixture.client.close()
            await server.stop()
        }
        #expect(dumps[0].count > 50)
        #expect(Set(dumps[0].keys) == Set(dumps[1].keys))
        let different = dumps[0].filter { dumps[1][$0.key] != $0.value }.keys.sorted()
        #expect(different == [])
    }

    /// All keys with their fields; of records not when they were registered, which Redis stamps.
    private static func dump(_ fixture: StoreFixture) async throws -> [String: [String: [UInt8]]] {
        let tag = fixture.store.keys.tag(0)
        func send(_ name: String, _ key: String) async throws -> RESPNode {
            try await fixture.client.send(RedisCommand(name, .text(key)), on: tag).root
        }
        var dump: [String: [String: [UInt8]]] = [:]
        for key in try await send("KEYS", "*").children.compactMap(\.string) {
            guard try await send("TYPE", key).string == "hash" else {
                dump[key] = ["": try await send("GET", key).bytes ?? []]
                continue
            }
            var nodes = try await send("HGETALL", key).children.makeIterator()
            while let field = nodes.next()?.bytes, let value = nodes.next()?.bytes {
                let stored = key.contains(":rec:") ? Array(value.dropFirst(8)) : value
                dump[key, default: [:]][Hexadecimal.encode(field)] = stored
            }
        }
        return dump
    }

    @Test func `A load needs an empty store, and devices without conflicts`() async throws {
        try await StoreFixture.with { fixture in
            let (app, store) = (fixture.app, fixture.store)
            func refusal(
                _ fixture: StoreFixture,
                _ device: @escaping @Sendable (Int) -> DeviceRegistration,
            ) async throws -> StoreError.Code? {
                do {
                    try await fixture.store.load(fixture.app, count: 100, device: device)
                    return nil
                } catch {
                    return error.code
                }
            }
            let sameID: @Sendable (Int) -> DeviceRegistration = { index in
                var registration = Self.device(index)
                registration.device = "phone-\(index / 2)"
                return registration
            }
            let sameToken: @Sendable (Int) -> DeviceRegistration = { index in
                var registration = Self.device(5 * index)
                registration.token = StoreFixture.token("token-\(index / 2)")
                return registration
            }
            let sameUser: @Sendable (Int) -> DeviceRegistration = { index in
                var registration = Self.device(index)
                registration.user = "ada"
                return registration
            }
            #expect(try await refusal(try await StoreFixture.make(), sameID) == .collision)
            #expect(try await refusal(try await StoreFixture.make(), sameToken) == .invalidRegistration)
            #expect(try await refusal(try await StoreFixture.make(), sameUser) == .invalidRegistration)

            try await fixture.register("first")
            #expect(try await refusal(fixture, Self.device) == .preconditionFailed)
            _ = try await store.delete(app, DeviceID("first"))
            // Ordinals and topics were given: it is not empty.
            #expect(try await refusal(fixture, Self.device) == .preconditionFailed)
        }
    }
}
