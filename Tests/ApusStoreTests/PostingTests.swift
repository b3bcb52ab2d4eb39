import ApusCore
import ApusMessages
import ApusRedis
import ApusStore
import ApusTestKit
import Testing

struct PostingTests {
    /// One partition, so that ordinals are dense and counted.
    private static func withOnePartition(_ body: (StoreFixture) async throws -> Void) async throws {
        let fixture = try await StoreFixture.make(partitions: 1)
        try await body(fixture)
        await fixture.client.close()
    }

    private static func form(_ fixture: StoreFixture, _ topic: String) async throws -> String {
        let number = try #require(try await fixture.store.topicNumber(fixture.app, TopicName(topic)))
        let key = fixture.store.keys.posting(fixture.app, .apns, 0, topic: number, chunk: 0)
        let reply = try await fixture.client.send(RedisCommand("STRLEN", .text(key)), on: fixture.store.keys.tag(0))
        switch reply.root.integer {
        case 0: return "few"
        case 512: return "bitmap"
        case .some(let length): return "packed \(length / 2)"
        case nil: return "?"
        }
    }

    @Test func aPostingChangesItsFormAtItsThresholds() async throws {
        try await Self.withOnePartition { fixture in
            let ids = try (0..<260).map { try DeviceID("phone-\($0)") }
            func enter(_ range: Range<Int>) async throws {
                for index in range { try await fixture.register("phone-\(index)", topics: ["t"]) }
            }
            func leave(_ range: Range<Int>) async throws {
                for index in range { _ = try await fixture.store.unsubscribe(fixture.app, ids[index], from: ["t"]) }
            }
            try await enter(0..<31)
            #expect(try await Self.form(fixture, "t") == "few")
            try await enter(31..<32)
            #expect(try await Self.form(fixture, "t") == "packed 32")
            try await fixture.expectClean()
            try await enter(32..<255)
            #expect(try await Self.form(fixture, "t") == "packed 255")
            try await enter(255..<256)
            #expect(try await Self.form(fixture, "t") == "bitmap")
            try await enter(256..<260)
            try await fixture.expectClean()

            // The way back has other thresholds, so that one device that comes and goes moves nothing.
            try await leave(0..<68)
            #expect(try await Self.form(fixture, "t") == "bitmap")
            try await leave(68..<69)
            #expect(try await Self.form(fixture, "t") == "packed 191")
            try await fixture.expectClean()
            try await leave(69..<236)
            #expect(try await Self.form(fixture, "t") == "packed 24")
            try await leave(236..<237)
            #expect(try await Self.form(fixture, "t") == "few")
            try await fixture.expectClean()
            try await leave(237..<260)
            #expect(try await Self.form(fixture, "t") == "few")
            let check = try await fixture.expectClean()
            #expect(check.devices.values.allSatisfy { $0.record.topics.isEmpty })
        }
    }

    @Test func bucketsAreSplitAsTheyFill() async throws {
        try await Self.withOnePartition { fixture in
            // Each has a topic of its own: ids, tokens, users, topics and small postings all grow.
            try await withThrowingTaskGroup { group in
                for worker in 0..<8 {
                    group.addTask {
                        for index in stride(from: worker, to: 700, by: 8) {
                            try await fixture.register(
                                "phone-\(index)",
                                user: "user-\(index)",
                                topics: ["own-\(index)"]
                            )
                        }
                    }
                }
                try await group.waitForAll()
            }
            let full = try await fixture.store.meta(fixture.route, 0)
            #expect(full.live == 700 && full.nextOrdinal == 700)
            #expect(full.idBuckets == 7, "700 ids at 100 a bucket")
            #expect(full.fewBuckets == 7)
            try await fixture.expectClean()
            for bucket in 0..<full.idBuckets {
                let key = fixture.store.keys.bucket(.ids, fixture.app, .apns, 0, bucket)
                let reply = try await fixture.client.send(
                    RedisCommand("HLEN", .text(key)),
                    on: fixture.store.keys.tag(0)
                )
                let length = try #require(reply.root.integer)
                #expect((1...250).contains(length))
            }
        }
    }

    @Test func audiencesAreComputedOverSeveralChunks() async throws {
        try await Self.withOnePartition { fixture in
            // Three chunks without registering 10,000 devices: the place is told that its ordinals begin later.
            var expected: [String: [Int]] = [:]
            for (part, next) in [0, 4_090, 9_000].enumerated() {
                let key = fixture.store.keys.meta(fixture.app, .apns, 0)
                _ = try await fixture.client.send(
                    RedisCommand("HSET", .text(key), "next", .integer(next)),
                    on: fixture.store.keys.tag(0),
                )
                for index in 0..<12 {
                    let topics = [index % 2 == 0 ? "even" : nil, index % 3 == 0 ? "third" : nil].compactMap(\.self)
                    let device = try await fixture.register("phone-\(part)-\(index)", topics: topics).device
                    for topic in topics + ["all"] {
                        expected[topic, default: []].append(Int(device.reference.ordinal))
                    }
                }
            }
            let even = try #require(try await fixture.store.topicNumber(fixture.app, TopicName("even")))
            let third = try #require(try await fixture.store.topicNumber(fixture.app, TopicName("third")))
            let chunks = try await fixture.store.chunkCount(fixture.route, 0)
            #expect(chunks == 3)
            func meant(_ expression: TopicExpression) async throws -> [Int] {
                try await fixture.store.audience(fixture.route, 0, chunks: 0..<chunks, expression).enumerated()
                    .flatMap { chunk, set in set.ordinals.map { chunk * ChunkSet.capacity + $0 } }
            }
            let all = Set(expected["all"] ?? [])
            let (evens, thirds) = (Set(expected["even"] ?? []), Set(expected["third"] ?? []))
            #expect(try await meant(.everyone) == all.sorted())
            #expect(try await meant(.topic(even)) == evens.sorted())
            #expect(try await meant(.not(.topic(even))) == all.subtracting(evens).sorted())
            #expect(try await meant(.and([.topic(even), .topic(third)])) == evens.intersection(thirds).sorted())
            #expect(
                try await meant(.or([.topic(even), .not(.topic(third))]))
                    == evens.union(all.subtracting(thirds)).sorted()
            )
            #expect(try await meant(.nobody) == [])
            // More chunks than one read takes, most of them without anything.
            let far = try await fixture.store.audience(fixture.route, 0, chunks: 0..<700, .not(.topic(even)))
            #expect(far.count == 700 && far.map(\.count).reduce(0, +) == all.subtracting(evens).count)
        }
    }

    @Test func recordsAreReadBySlabs() async throws {
        try await Self.withOnePartition { fixture in
            for index in 0..<130 { try await fixture.register("phone-\(index)") }
            for index in [3, 70] { _ = try await fixture.store.delete(fixture.app, DeviceID("phone-\(index)")) }
            func ids(_ ordinals: [Int]) async throws -> [Int: String] {
                var ids: [Int: String] = [:]
                for (read, reply) in try await fixture.store.readSlabs(fixture.route, 0, chunk: 0, ordinals: ordinals) {
                    read.forEachRecord(in: reply) { ordinal, value in
                        #expect(ids[Int(ordinal)] == nil)
                        ids[Int(ordinal)] = RecordHeader(value) == nil ? "" : "there"
                    }
                }
                return ids
            }
            // A whole slab, a few of the second, one of the third, and one that was never given.
            let asked = Array(0..<64) + [64, 70, 127, 128, 200]
            let found = try await ids(asked)
            #expect(found.keys.sorted() == asked)
            #expect(found.filter { $0.value.isEmpty }.keys.sorted() == [3, 70, 200])
            #expect(try await fixture.store.readSlabs(fixture.route, 0, chunk: 0, ordinals: []).isEmpty)
        }
    }

    @Test func `Postings are in order on a server whose language orders texts in another way`() async throws {
        let locale = try EnglishLocale()
        try await RedisServer.with(RedisServer.Options(environment: locale.environment)) { server in
            let isOrdered = try await server.command("EVAL", "return 'a' < 'B' and 1 or 0", .integer(0))
            #expect(isOrdered.root.integer == 1)
            let fixture = try await StoreFixture.make(on: server, partitions: 1)
            for number in 0..<130 { try await fixture.register("phone-\(number)") }
            // The texts of 97 and 66 end with "a" and "B".
            let order = [97, 66, 98, 67] + (0..<130).reversed()
            for number in order {
                _ = try await fixture.store.subscribe(fixture.app, DeviceID("phone-\(number)"), to: ["t"])
            }
            for number in stride(from: 0, to: 130, by: 3) {
                _ = try await fixture.store.unsubscribe(fixture.app, DeviceID("phone-\(number)"), from: ["t"])
            }
            #expect(try await Self.form(fixture, "t") == "packed 86")
            try await fixture.expectClean()
            await fixture.client.close()
        }
    }
}
