import ApusCore
import ApusMessages
import ApusRedis
import ApusStore
import ApusTestKit
import Testing

struct PlaceTests {
    /// Lets freed ordinals have rested: their times are written anew.
    private static func letRest(_ fixture: StoreFixture, _ age: Int64) async throws {
        let tag = fixture.store.keys.tag(0)
        let key = fixture.store.keys.meta(fixture.app, .apns, 0).replacingSuffix("meta", with: "freed")
        let list = try await fixture.client.send(RedisCommand("LRANGE", .text(key), 0, -1), on: tag).root
        let time = try await fixture.client.send(RedisCommand("TIME"), on: tag).root
        let now = (time.element(0)?.integer ?? 0) * 1_000
        for (index, entry) in list.children.enumerated() {
            let bytes = try #require(entry.bytes)
            let at = UInt64(now - age)
            let aged = Array(bytes.prefix(4)) + (0..<8).map { UInt8(truncatingIfNeeded: at >> (56 - 8 * UInt64($0))) }
            _ = try await fixture.client.send(
                RedisCommand("LSET", .text(key), .integer(index), .bytes(aged)),
                on: tag,
            )
        }
    }

    @Test func aFreedOrdinalRestsAnHourAndComesBackWithAnotherGeneration() async throws {
        let fixture = try await StoreFixture.make(partitions: 1)
        let first = try await fixture.register("a").device.reference
        _ = try await fixture.store.delete(fixture.app, DeviceID("a"))
        let second = try await fixture.register("b").device.reference
        #expect(first.ordinal == 0 && second.ordinal == 1)

        try await Self.letRest(fixture, 3_590_000)
        #expect(try await fixture.register("c").device.reference.ordinal == 2)
        try await Self.letRest(fixture, 3_601_000)
        let reused = try await fixture.register("d").device.reference
        #expect(reused.ordinal == 0)
        #expect(reused.generation != first.generation)
        #expect(try await fixture.register("e").device.reference.ordinal == 3)
        try await fixture.expectClean()

        // A reference to the first holder finds nobody.
        #expect(try await fixture.store.read(fixture.route, first) == nil)
        #expect(try await fixture.store.read(fixture.route, reused)?.id == "d")

        // And again.
        _ = try await fixture.store.delete(fixture.app, DeviceID("d"))
        try await Self.letRest(fixture, 3_601_000)
        let third = try await fixture.register("f").device.reference
        #expect(third.ordinal == 0 && third.generation != reused.generation)
        #expect(try await fixture.store.meta(fixture.route, 0).reuses == 2)
        await fixture.client.close()
    }

    @Test func `Who means a device that Redis has forgotten does not find the next one in its place`() async throws {
        let fixture = try await StoreFixture.make(partitions: 1)
        let tag = fixture.store.keys.tag(0)
        var generations: Set<UInt32> = []
        for name in ["a", "b", "c"] {
            let reference = try await fixture.register(name).device.reference
            #expect(reference.ordinal == 0)
            generations.insert(reference.generation)
            let pattern = RedisCommand("KEYS", .text("\(tag)\(fixture.app.text):*"))
            for key in try await fixture.client.send(pattern, on: tag).root.children.compactMap(\.string) {
                _ = try await fixture.client.send(RedisCommand("DEL", .text(key)), on: tag)
            }
        }
        #expect(generations.count == 3)
        await fixture.client.close()
    }

    @Test func aClockThatWentBackKeepsOrdinalsAtRest() async throws {
        let fixture = try await StoreFixture.make(partitions: 1)
        try await fixture.register("a")
        _ = try await fixture.store.delete(fixture.app, DeviceID("a"))
        try await Self.letRest(fixture, -86_400_000)
        #expect(try await fixture.register("b").device.reference.ordinal == 1)
        try await fixture.expectClean()
        await fixture.client.close()
    }

    @Test func aFullPlaceTakesNoMore() async throws {
        let fixture = try await StoreFixture.make(partitions: 1)
        try await fixture.register("a")
        let key = fixture.store.keys.meta(fixture.app, .apns, 0)
        func setNext(_ next: Int) async throws {
            _ = try await fixture.client.send(
                RedisCommand("HSET", .text(key), "next", .integer(next)),
                on: fixture.store.keys.tag(0),
            )
        }
        try await setNext(StoreLimits.ordinalsMax - 1)
        let last = try await fixture.register("b").device.reference
        #expect(Int(last.ordinal) == StoreLimits.ordinalsMax - 1)
        await #expect { try await fixture.register("c") } throws: { isCode($0, .full) }
        #expect(try await fixture.get("c") == nil)
        // The holder of a place can change.
        #expect(try await fixture.register("a", token: "new").change == .tokenReplaced)
        await fixture.client.close()
    }

    @Test func aFullRedisTakesWhatProvidersSayOfTokens() async throws {
        try await RedisServer.with { server in
            let fixture = try await StoreFixture.make(on: server, partitions: 1)
            let device = try await fixture.register("a", topics: ["news"]).device
            let (store, digest) = (fixture.store, DeviceToken.digest(device.record.token))
            _ = try await server.command("CONFIG", "SET", "maxmemory", "1")
            let marked = try await store.markSuspect(
                fixture.route,
                device.reference,
                tokenDigest: digest,
                reason: .badToken,
                since: device.registeredAt,
            )
            guard case .applied(let suspect) = marked else {
                Issue.record("\(marked)")
                return
            }
            #expect(suspect.record.suspicion?.reason == .badToken)
            guard
                case .applied(let moved) = try await store.learnEnvironment(
                    fixture.route,
                    suspect.reference,
                    tokenDigest: digest
                )
            else {
                Issue.record("not moved")
                return
            }
            #expect(moved.realm.environment == .sandbox)
            #expect(try await store.beginUpkeep(fixture.app, 0, within: 60))
            #expect(try await !store.beginUpkeep(fixture.app, 0, within: 60))
            // Reports of apps are counted apart.
            await #expect { try await fixture.register("a", token: "new") } throws: {
                ($0 as? StoreError)?.redis?.code == .outOfMemory
            }
            _ = try await server.command("CONFIG", "SET", "maxmemory", "0")
            try await fixture.expectClean()
            await fixture.client.close()
        }
    }

    @Test func aFullRedisStillForgets() async throws {
        try await RedisServer.with { server in
            let fixture = try await StoreFixture.make(on: server, partitions: 1)
            let device = try await fixture.register("a", user: "ann", topics: ["news"]).device
            _ = try await server.command("CONFIG", "SET", "maxmemory", "1")
            await #expect { try await fixture.register("b") } throws: {
                ($0 as? StoreError)?.redis?.code == .outOfMemory
            }
            let digest = DeviceToken.digest(device.record.token)
            let result = try await fixture.store.prune(
                fixture.route,
                device.reference,
                tokenDigest: digest,
                asOf: device.registeredAt,
            )
            #expect(result == .applied(device))
            _ = try await server.command("CONFIG", "SET", "maxmemory", "0")
            try await fixture.repairEverything()
            #expect(try await fixture.expectClean().devices.isEmpty)
            await fixture.client.close()
        }
    }
}

extension String {
    fileprivate func replacingSuffix(_ suffix: String, with other: String) -> String {
        self.hasSuffix(suffix) ? String(self.dropLast(suffix.count)) + other : self
    }
}
