import ApusCore
import ApusMessages
import ApusRedis
import ApusStore
import Testing

/// Tests the limits of topics, and how empty topics are forgotten.
struct TopicLimitTests {
    private static func limited(_ fixture: StoreFixture, perApp: Int, perOwner: Int) -> StoreFixture {
        var store = fixture.store
        store.topicLimits = TopicLimits(perApp: perApp, perOwner: perOwner)
        return StoreFixture(app: fixture.app, client: fixture.client, store: store, clock: fixture.clock)
    }

    private static func number(_ topic: String, _ fixture: StoreFixture) async throws -> UInt32? {
        try await fixture.store.topicNumber(fixture.app, try TopicName(topic))
    }

    private static func code(_ body: () async throws -> Void) async -> StoreError.Code? {
        do {
            try await body()
            return nil
        } catch {
            return (error as? StoreError)?.code
        }
    }

    private static func forget(_ fixture: StoreFixture, after rest: Int64 = 0) async throws -> Int {
        try await fixture.store.forgetEmptyTopics(fixture.app, after: rest) { _ in }
    }

    @Test func `An app has a maximum of topics whoever adds them; known topics are always entered`() async throws {
        try await StoreFixture.with { fixture in
            let fixture = Self.limited(fixture, perApp: 5, perOwner: 100)
            try await fixture.register("a", topics: ["1", "2", "3"])
            try await fixture.register("b", topics: ["4", "5"])
            #expect(await Self.code { try await fixture.register("c", topics: ["6"]) } == .topicLimit)
            let subscribed = await Self.code {
                _ = try await fixture.store.subscribe(fixture.app, DeviceID("a"), to: ["7"])
            }
            #expect(subscribed == .topicLimit)
            for name in ["6", "7"] { #expect(try await Self.number(name, fixture) == nil) }
            try await fixture.register("c", topics: ["1", "5"])
            try await fixture.expectClean()
        }
    }

    @Test
    func `One user has a maximum of new topics over all devices, and the app has room for others`()
        async throws
    {
        try await StoreFixture.with { fixture in
            let fixture = Self.limited(fixture, perApp: 1_000, perOwner: 10)
            var refused = 0
            for index in 0..<20 {
                let code = await Self.code {
                    try await fixture.register("m-\(index)", user: "mallory", topics: ["x\(index)"])
                }
                refused += code == .topicLimit ? 1 : 0
                // A topic that was once entered is left again: its name is still there.
                _ = try await fixture.store.delete(fixture.app, DeviceID("m-\(index)"))
            }
            #expect(refused == 10)
            try await fixture.register("phone", user: "ann", topics: (0..<10).map { "y\($0)" })
            try await fixture.register("nobodys", topics: (0..<10).map { "z\($0)" })
        }
    }

    @Test func `Topics of a device that its user left to nobody count for that user`() async throws {
        try await StoreFixture.with { fixture in
            let fixture = Self.limited(fixture, perApp: 1_000, perOwner: 10)
            let device = try DeviceID("phone")
            try await fixture.register("phone", user: "mallory", topics: (0..<10).map { "x\($0)" })
            for round in 0..<3 {
                _ = try await fixture.store.unbindUser(fixture.app, device, from: UserID("mallory"))
                let change = await Self.code {
                    _ = try await fixture.store.changeTopics(
                        fixture.app,
                        device,
                        replacing: true,
                        entered: ["y\(round)"],
                    )
                }
                #expect(change == .topicLimit, "round \(round)")
                #expect(
                    await Self.code { try await fixture.register("phone", topics: ["z\(round)"]) } == .topicLimit
                )
            }
            // A device of nobody is its own only when a backend asks; whoever asks for himself is counted himself.
            try await fixture.register("nobodys", topics: [])
            let asked = await Self.code {
                _ = try await fixture.store.changeTopics(
                    fixture.app,
                    DeviceID("nobodys"),
                    entered: ["new"],
                    askedBy: UserID("mallory"),
                )
            }
            #expect(asked == .topicLimit)
            _ = try await fixture.store.changeTopics(fixture.app, DeviceID("nobodys"), entered: ["new"])
        }
    }

    @Test func `Users together take at most three quarters of an app's topics, and backends the rest`() async throws {
        try await StoreFixture.with { fixture in
            let fixture = Self.limited(fixture, perApp: 8, perOwner: 4)
            #expect(fixture.store.topicLimits.perUsers == 6)
            func ask(_ user: String, _ topic: String) async -> StoreError.Code? {
                await Self.code {
                    _ = try await fixture.store.changeTopics(
                        fixture.app,
                        DeviceID(user),
                        entered: [topic],
                        askedBy: UserID(user),
                    )
                }
            }
            for user in ["ann", "bob", "eve"] { try await fixture.register(user, user: user) }
            for index in 0..<6 { #expect(await ask(index < 3 ? "ann" : "bob", "t\(index)") == nil) }
            #expect(await ask("eve", "t6") == .topicLimit)
            #expect(await ask("eve", "t0") == nil, "a topic that there is takes no room")
            try await fixture.register("eve", user: "eve", topics: ["t6", "t7"])
            #expect(await Self.code { try await fixture.register("d", topics: ["t8"]) } == .topicLimit)
            // Forgotten topics make room for users again.
            for user in ["ann", "bob", "eve"] { try await fixture.register(user, user: user, topics: []) }
            #expect(try await Self.forget(fixture) == 8)
            for index in 0..<6 { #expect(await ask(index < 3 ? "ann" : "bob", "u\(index)") == nil) }
            #expect(await ask("eve", "u6") == .topicLimit)
            try await fixture.expectClean()
        }
    }

    @Test func `A topic without devices is forgotten after a rest, and its number is never given again`() async throws {
        try await StoreFixture.with { fixture in
            let fixture = Self.limited(fixture, perApp: 3, perOwner: 3)
            try await fixture.register("a", user: "ann", topics: ["kept", "left", "back"])
            let numbers = Set(try #require(try await fixture.get("a")).record.topics)
            try await fixture.register("a", user: "ann", topics: ["kept"])
            // Found empty for the first time; entered again in the rest; and within the rest nothing goes.
            #expect(try await Self.forget(fixture, after: 60_000) == 0)
            try await fixture.register("b", user: "bob", topics: ["back"])
            _ = try await fixture.store.unsubscribe(fixture.app, DeviceID("b"), from: ["back"])
            #expect(try await Self.forget(fixture, after: 60_000) == 0)
            #expect(try await Self.number("left", fixture) != nil)
            try await fixture.register("b", user: "bob", topics: ["back"])

            #expect(try await Self.forget(fixture) == 1)
            #expect(try await Self.number("left", fixture) == nil)
            for name in ["kept", "back"] { #expect(numbers.contains(try await Self.number(name, fixture) ?? 0)) }
            #expect(try await Self.forget(fixture) == 0)

            // There is room again, for the app and for who invented it, and its number rests for ever.
            try await fixture.register("a", user: "ann", topics: ["kept", "left"])
            let again = try #require(try await Self.number("left", fixture))
            #expect(!numbers.contains(again))
            #expect(await Self.code { try await fixture.register("c", topics: ["more"]) } == .topicLimit)
            try await fixture.expectClean()
        }
    }

    @Test func `Entering a topic that was found empty restarts its rest`() async throws {
        try await StoreFixture.with { fixture in
            try await fixture.register("a", topics: ["t"])
            try await fixture.register("a", topics: [])
            #expect(try await Self.forget(fixture, after: 60_000) == 0)
            #expect(try await Self.isIdle("t", fixture))
            try await fixture.register("a", topics: ["t"])
            #expect(try await !Self.isIdle("t", fixture))
            #expect(try await Self.forget(fixture) == 0)
            try await fixture.expectClean()
        }
    }

    @Test func `A device that is brought back restarts the rest of its topics`() async throws {
        try await StoreFixture.with { fixture in
            let device = try await fixture.register("a", topics: ["s", "t"]).device
            let result = try await fixture.store.prune(
                fixture.route,
                device.reference,
                tokenDigest: DeviceToken.digest(device.record.token),
                asOf: device.registeredAt.advanced(byMilliseconds: 1),
                undo: .default,
            )
            #expect(result == .applied(device))
            #expect(try await Self.forget(fixture, after: 60_000) == 0)
            let pruned = try #require(try await fixture.store.prunedDevice(fixture.app, DeviceID("a")))
            for topic in ["s", "t"] { #expect(try await Self.isIdle(topic, fixture)) }
            guard case .restored(let back) = try await fixture.store.restore(pruned) else {
                Issue.record("not restored")
                return
            }
            for topic in ["s", "t"] { #expect(try await !Self.isIdle(topic, fixture)) }
            #expect(try await fixture.topics(back) == ["s", "t"])
            try await fixture.expectClean()
        }
    }

    /// Returns true when a topic is marked as one that was found without devices.
    private static func isIdle(_ topic: String, _ fixture: StoreFixture) async throws -> Bool {
        let tag = fixture.store.keys.tag(fixture.place(Array(topic.utf8)).partition)
        let known = RedisCommand("HEXISTS", .text(tag.key("\(fixture.app.text):topics_idle")), .text(topic))
        return try await fixture.client.send(known, on: tag).root.integer == 1
    }

    @Test func `Topics of all forms of postings and of every environment are in use`() async throws {
        try await StoreFixture.with(partitions: 1) { fixture in
            for index in 0..<300 {
                var topics = ["bitmap"]
                if index < 60 { topics.append("packed") }
                if index < 3 { topics.append("few") }
                try await fixture.register("d-\(index)", topics: topics)
            }
            try await fixture.register("sandboxed", topics: ["other"], environment: .sandbox)
            #expect(try await Self.forget(fixture) == 0)
            for name in ["bitmap", "packed", "few", "other"] {
                #expect(try await Self.number(name, fixture) != nil, "\(name)")
            }
        }
    }

    @Test func `Hundreds of empty topics are forgotten, and only the record of their numbers stays`()
        async throws
    {
        try await StoreFixture.with { fixture in
            let fixture = Self.limited(fixture, perApp: 400, perOwner: 400)
            for round in 0..<2 {
                for part in 0..<4 {
                    let names = (0..<100).map { "t\(part)-\($0)" }
                    try await fixture.register("a", topics: names)
                }
                try await fixture.register("a", topics: [])
                #expect(try await Self.forget(fixture) == 400, "round \(round)")
            }
            var fields = 0
            for partition in 0..<StoreFixture.partitions {
                let tag = fixture.store.keys.tag(partition)
                for key in ["topics:0", "topics_idle", "topic_list", "topic_owners"] {
                    let name = tag.key("\(fixture.app.text):\(key)")
                    fields += Int(
                        try await fixture.client.send(RedisCommand("HLEN", .text(name)), on: tag).root.integer ?? 0
                    )
                }
            }
            #expect(fields == 0)
        }
    }
}
