import ApusCore
import ApusMessages
import ApusRedis
import ApusStore
import Testing

/// Tests records that are encrypted at rest.
struct EncryptionTests {
    private static let first = [UInt8](repeating: 1, count: 32)
    private static let second = [UInt8](repeating: 2, count: 32)

    /// Returns all records of the app as Redis has them, by key and field.
    private static func stored(_ fixture: StoreFixture) async throws -> [String: [UInt8]] {
        var records: [String: [UInt8]] = [:]
        for partition in 0..<StoreFixture.partitions {
            let tag = fixture.store.keys.tag(partition)
            let question = RedisCommand("KEYS", .text("\(tag)\(fixture.app):*:rec:*"))
            let keys = try await fixture.client.send(question, on: tag)
            for key in keys.root.children.compactMap(\.string) {
                let reply = try await fixture.client.send(RedisCommand("HGETALL", .text(key)), on: tag).root
                for index in stride(from: 0, to: reply.count, by: 2) {
                    records["\(key)/\(reply[index].string ?? "")"] = reply[index + 1].bytes ?? []
                }
            }
        }
        return records
    }

    private static func contains(_ bytes: [UInt8], _ part: [UInt8]) -> Bool {
        bytes.indices.contains { bytes[$0...].starts(with: part) }
    }

    @Test func `Redis has no token and no user of an encrypted record, and everything works as before`() async throws {
        try await StoreFixture.with { fixture in
            fixture.store.encryption.setKeys([Self.first])
            let device = try await fixture.register("phone", user: "ann", topics: ["news"]).device
            #expect(try await fixture.get("phone") == device)
            #expect(device.record.user == "ann" && device.record.token.count == 32)
            let stored = try await Self.stored(fixture)
            #expect(stored.count == 1)
            let plain = try device.record.encode().count
            for value in stored.values {
                #expect(value.count == RecordHeader.byteCount + plain + 45)
                for part in [device.record.token, Array("phone".utf8), Array("ann".utf8)] {
                    #expect(!Self.contains(value, part))
                }
            }
            // Change, move to another user, verdict, undo.
            #expect(try await fixture.register("phone", user: "ann", topics: ["news"]).change == .unchanged)
            #expect(try await fixture.register("phone", user: "bob", topics: ["sport"]).change == .updated)
            let current = try #require(try await fixture.get("phone"))
            #expect(current.record.user == "bob")
            #expect(try await fixture.topics(current) == ["sport"])
            let digest = DeviceToken.digest(current.record.token)
            let later = current.registeredAt.advanced(byMilliseconds: 1)
            let pruned = try await fixture.store.prune(
                fixture.route,
                current.reference,
                tokenDigest: digest,
                asOf: later,
                undo: .default
            )
            #expect(pruned == .applied(current))
            let found = try #require(try await fixture.store.prunedDevice(fixture.app, try DeviceID("phone")))
            _ = try await fixture.store.restore(found)
            #expect(try await fixture.get("phone")?.record == current.record)
            try await fixture.expectClean()
        }
    }

    @Test func `Senders read many encrypted records, and each with what it holds`() async throws {
        try await StoreFixture.with { fixture in
            fixture.store.encryption.setKeys([Self.first])
            for index in 0..<200 { try await fixture.register("d\(index)", topics: ["news"]) }
            // Some are not encrypted, some with another key.
            fixture.store.encryption.setKeys([Self.second, Self.first])
            for index in 200..<220 { try await fixture.register("d\(index)", topics: ["news"]) }
            fixture.store.encryption.setKeys([])
            for index in 220..<240 { try await fixture.register("d\(index)", topics: ["news"]) }
            fixture.store.encryption.setKeys([Self.second, Self.first])
            var tokens: Set<[UInt8]> = []
            for partition in 0..<StoreFixture.partitions {
                let next = try await fixture.store.meta(fixture.route, partition).nextOrdinal
                for step in [1, 7] {
                    let ordinals = stride(from: UInt32(0), to: UInt32(next), by: step).map { $0 }
                    let reads = try await fixture.store.readRecords(fixture.route, partition, ordinals: ordinals)
                    for (read, reply) in reads {
                        read.forEachRecord(in: reply) { _, value in
                            guard let view = DeviceRecordView(value, RecordHeader.byteCount..<value.count) else {
                                return
                            }
                            tokens.insert(view.token.map { value[$0] })
                        }
                    }
                }
            }
            let expected = (0..<240).map { Hexadecimal.decode(StoreFixture.token("d\($0)")) ?? [] }
            #expect(tokens == Set(expected))
        }
    }

    @Test func `A record of a key that is not known is an error, and neither skipped nor overwritten`() async throws {
        try await StoreFixture.with { fixture in
            fixture.store.encryption.setKeys([Self.first])
            let device = try await fixture.register("phone", topics: ["news"]).device
            let before = try await Self.stored(fixture)
            for keys in [[], [Self.second]] {
                fixture.store.encryption.setKeys(keys)
                func expectSealed(_ body: () async throws -> Void) async {
                    let count = fixture.store.encryption.refusedCount
                    defer { #expect(fixture.store.encryption.refusedCount > count) }
                    let error = await #expect(throws: StoreError.self) { try await body() }
                    #expect(error?.code == .sealed && error?.disposition == .retryLater)
                    #expect(error?.detail.contains("store.encryption_key_file") == true)
                }
                await expectSealed { _ = try await fixture.get("phone") }
                await expectSealed { try await fixture.register("phone", user: "bob") }
                await expectSealed {
                    _ = try await fixture.store.find(fixture.app, devices: [try DeviceID("phone")])
                }
                let partition = Int(device.reference.partition)
                await expectSealed {
                    _ = try await fixture.store.readRecords(
                        fixture.route,
                        partition,
                        ordinals: [device.reference.ordinal]
                    )
                }
                await expectSealed { _ = try await fixture.store.upkeep(fixture.app, partition) { _ in } }
                await expectSealed { _ = try await fixture.store.delete(fixture.app, try DeviceID("phone")) }
            }
            #expect(try await Self.stored(fixture) == before)
        }
    }

    @Test func `A removed device of a key that was taken out keeps no other from coming back`() async throws {
        try await StoreFixture.with(partitions: 1) { fixture in
            let (store, always) = (fixture.store, UnixMilliseconds(0)..<Limits.timeMax)
            func prune(_ name: String) async throws {
                let device = try await fixture.register(name).device
                _ = try await store.prune(
                    fixture.route,
                    device.reference,
                    tokenDigest: DeviceToken.digest(device.record.token),
                    asOf: device.registeredAt.advanced(byMilliseconds: 1),
                    undo: .default,
                )
            }
            store.encryption.setKeys([Self.first])
            try await prune("old")
            store.encryption.setKeys([Self.second, Self.first])
            try await prune("new")
            store.encryption.setKeys([Self.second])
            let pruned = try await store.prunedDevices(fixture.route, 0, in: always)
            #expect(pruned.unreadable == 1 && pruned.devices.map(\.device.id) == ["new"])
            #expect(try await store.prunedDevice(fixture.app, DeviceID("new")) != nil)
            // It may be the one that cannot be read, so nobody may say that there is none.
            let unread = await #expect(throws: StoreError.self) {
                try await store.prunedDevice(fixture.app, DeviceID("old"))
            }
            #expect(unread?.code == .sealed && unread?.detail.contains("1 removed devices") == true)
            // A reader without any key learns that.
            store.encryption.setKeys([])
            let error = await #expect(throws: StoreError.self) {
                try await store.prunedDevices(fixture.route, 0, in: always)
            }
            #expect(error?.code == .sealed)
        }
    }

    @Test func `Who lacks the configured keys writes nothing in the clear, and reads what is not encrypted`()
        async throws
    {
        try await StoreFixture.with { fixture in
            let plain = try await fixture.register("plain").device
            fixture.store.encryption.lackKeys(because: "the file may not be read")
            #expect(try await fixture.get("plain") == plain)
            #expect(fixture.store.encryption.refusedCount == 0)
            let error = await #expect(throws: StoreError.self) { try await fixture.register("new") }
            #expect(error?.code == .sealed && error?.detail == "the file may not be read")
            #expect(try await fixture.get("new") == nil)
            #expect(fixture.store.encryption.refusedCount == 1)
            fixture.store.encryption.setKeys([Self.first])
            try await fixture.register("new")
            fixture.store.encryption.lackKeys(because: "the file may not be read")
            let sealed = await #expect(throws: StoreError.self) { try await fixture.get("new") }
            #expect(sealed?.code == .sealed && sealed?.detail.hasSuffix("but the file may not be read") == true)
        }
    }

    @Test func `An altered record is a corrupt one`() async throws {
        try await StoreFixture.with { fixture in
            fixture.store.encryption.setKeys([Self.first])
            try await fixture.register("phone")
            let stored = try #require(try await Self.stored(fixture).first)
            var value = stored.value
            value[value.count - 1] ^= 1
            let place = stored.key.split(separator: "/")
            let set = RedisCommand("HSET", .text(String(place[0])), .text(String(place[1])), .bytes(value))
            _ = try await fixture.client.send(set, on: HashTag(ofKey: String(place[0])))
            let error = await #expect(throws: StoreError.self) { try await fixture.get("phone") }
            #expect(error?.code == .corrupt)
        }
    }

    @Test func `The janitor encrypts what is not encrypted with the current key, and that once`() async throws {
        try await StoreFixture.with { fixture in
            for index in 0..<20 { try await fixture.register("plain-\(index)", user: "u\(index)", topics: ["news"]) }
            fixture.store.encryption.setKeys([Self.first])
            for index in 0..<20 { try await fixture.register("first-\(index)", topics: ["news"]) }
            let check = try await fixture.expectClean()
            let before = check.devices.values
            #expect(check.unencrypted == 20)
            func upkeep() async throws -> Int {
                var count = 0
                for partition in 0..<StoreFixture.partitions {
                    count += try await fixture.store.upkeep(fixture.app, partition) { _ in }.encrypted
                }
                return count
            }
            #expect(try await upkeep() == 20)
            fixture.store.encryption.setKeys([Self.second, Self.first])
            #expect(try await upkeep() == 40)
            #expect(try await upkeep() == 0)
            fixture.store.encryption.setKeys([Self.second])
            let clean = try await fixture.expectClean()
            let after = clean.devices.values
            #expect(clean.unencrypted == 0)
            #expect(Set(after.map(\.record)) == Set(before.map(\.record)))
            #expect(Set(after.map(\.registeredAt)) == Set(before.map(\.registeredAt)))
            #expect(Set(after.map(\.reference)) == Set(before.map(\.reference)))
        }
    }
}
