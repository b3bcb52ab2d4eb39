import ApusCore
import ApusMessages
import ApusRedis
import ApusTestKit
import Testing

@testable import ApusStore

/// Many registrations in one call end as registering each by itself would have.
struct RegisterManyTests {
    private static func registration(
        _ device: String,
        token: String? = nil,
        user: String = "",
        topics: [String]? = nil,
    ) -> DeviceRegistration {
        var registration = DeviceRegistration(
            device: device,
            provider: .apns,
            token: StoreFixture.token(token ?? device),
        )
        registration.user = user
        registration.topics = topics
        return registration
    }

    private static func changes(_ results: [Result<RegisterResult, StoreError>]) -> [RegisterResult.Change?] {
        results.map { try? $0.get().change }
    }

    /// The devices of an app by their ids, with what an app knows of them.
    private static func devices(_ fixture: StoreFixture) async throws -> [String: [String]] {
        var devices: [String: [String]] = [:]
        for (id, device) in try await fixture.expectClean().devices {
            let token = Hexadecimal.encode(device.record.token)
            devices[id] = [token, device.record.user] + (try await fixture.topics(device))
        }
        return devices
    }

    @Test(arguments: [UInt64(1), 2, 3])
    func `Many at once end as one after the other`(_ seed: UInt64) async throws {
        try await StoreFixture.with { together in
            try await StoreFixture.with { apart in
                var random = SeededGenerator(seed: seed)
                for _ in 0..<5 {
                    let registrations = (0..<150).map { _ in
                        // Each device has tokens of its own, so the order among devices does not matter.
                        let device = Int.random(in: 0..<60, using: &random)
                        let topics = (0..<3).map { _ in "topic-\(Int.random(in: 0..<12, using: &random))" }
                        return Self.registration(
                            "phone-\(device)",
                            token: "\(device)-\(Int.random(in: 0..<2, using: &random))",
                            user: ["", "ann", "bob"][Int.random(in: 0..<3, using: &random)],
                            topics: Bool.random(using: &random) ? topics : nil,
                        )
                    }
                    let results = await together.store.register(together.app, registrations)
                    var expected: [RegisterResult.Change?] = []
                    for registration in registrations {
                        expected.append(try await apart.store.register(apart.app, registration).change)
                    }
                    #expect(Self.changes(results) == expected, "seed \(seed)")
                    #expect(try await Self.devices(together) == Self.devices(apart), "seed \(seed)")
                }
            }
        }
    }

    @Test func registrationsOfOneTokenComeInTheirOrder() async throws {
        try await StoreFixture.with { fixture in
            let first = await fixture.store.register(
                fixture.app,
                [
                    Self.registration("a", token: "t", user: "ann"), Self.registration("b", token: "t"),
                    Self.registration("c"),
                ],
            )
            #expect(Self.changes(first) == [.created, .created, .created])
            #expect(try await Self.devices(fixture).keys.sorted() == ["b", "c"])
            let second = await fixture.store.register(
                fixture.app,
                [
                    Self.registration("b", token: "u"), Self.registration("a", token: "t"),
                    Self.registration("b", token: "v"), Self.registration("c", token: "u"),
                ],
            )
            #expect(Self.changes(second) == [.tokenReplaced, .created, .tokenReplaced, .tokenReplaced])
            let tokens = try await Self.devices(fixture).mapValues { $0[0] }
            #expect(tokens == ["a": "t", "b": "v", "c": "u"].mapValues { StoreFixture.token($0) })
        }
    }

    @Test func `Of two lines of an import with one device, token and time the first counts, also before its end`()
        async throws
    {
        try await StoreFixture.with { fixture in
            let past = UnixMilliseconds(1_700_000_000_000)
            func take(
                _ lines: [(token: String, user: String, part: DeviceStore.ImportedPart)]
            ) async -> [RegisterResult.Change?] {
                let results = await fixture.store.register(
                    fixture.app,
                    lines.map { Self.registration("phone", token: $0.token, user: $0.user) },
                    asOf: lines.map { _ in past },
                    importing: lines.map { $0.part },
                )
                return Self.changes(results)
            }
            let first = await take([("t", "ann", .beginning), ("t", "bob", .whole), ("t", "cleo", .beginning)])
            #expect(first == [.created, .ignored, .ignored])
            #expect(try await fixture.get("phone")?.record.user == "ann")
            // Another token of that time is another registration.
            let second = await take([("u", "bob", .beginning), ("t", "cleo", .whole), ("t", "ann", .beginning)])
            #expect(second == [.tokenReplaced, .tokenReplaced, .ignored])
            #expect(try await fixture.get("phone")?.record.user == "cleo")
            try await fixture.expectClean()
        }
    }

    @Test func tokensThatChangeHandsInAChainLeaveEveryDeviceWhatItHas() async throws {
        try await StoreFixture.with { fixture in
            let count = 20
            let old = (0..<count).map { Self.registration("phone-\($0)", token: "\($0)", topics: ["of-\($0 % 3)"]) }
            _ = await fixture.store.register(fixture.app, old)
            // Each takes the token that the one before it gave up.
            let new = (0..<count).map { Self.registration("phone-\($0)", token: $0 == 0 ? "new" : "\($0 - 1)") }
            let results = await fixture.store.register(fixture.app, new)
            #expect(Self.changes(results) == Array(repeating: .tokenReplaced, count: count))
            let devices = try await Self.devices(fixture)
            for index in 0..<count {
                #expect(devices["phone-\(index)"] == [new[index].token, "", "of-\(index % 3)"])
            }
        }
    }

    @Test func `A device that gives its token to an earlier one of the call keeps what it has`() async throws {
        try await StoreFixture.with { fixture in
            let count = 10
            let past = UnixMilliseconds(1_700_000_000_000)
            let old = (0..<count).map { Self.registration("phone-\($0)", token: "\($0)", topics: ["of-\($0 % 3)"]) }
            _ = await fixture.store.register(fixture.app, old, asOf: old.map { _ in past })
            // Each takes the token that the one after it gives up, and registered later than that one.
            let new = (0..<count).reversed().map { Self.registration("phone-\($0)", token: "\($0 - 1)") }
            let times = (0..<count).reversed().map { past.advanced(byMilliseconds: Int64($0) + 1) }
            let results = await fixture.store.register(fixture.app, new, asOf: times)
            #expect(Self.changes(results) == Array(repeating: .tokenReplaced, count: count))
            let devices = try await Self.devices(fixture)
            for index in 0..<count {
                let token = StoreFixture.token("\(index - 1)")
                #expect(devices["phone-\(index)"] == [token, "", "of-\(index % 3)"])
            }
        }
    }

    @Test func `A device that loses its token to a line of an import comes back by its own line in a later call`()
        async throws
    {
        try await StoreFixture.with { fixture in
            func take(
                _ device: String,
                token: String,
                after milliseconds: Int64
            ) async throws -> RegisterResult.Change {
                let results = await fixture.store.register(
                    fixture.app,
                    [Self.registration(device, token: token)],
                    asOf: [UnixMilliseconds(1_700_000_000_000 + milliseconds)],
                    importing: [.whole],
                )
                return try results[0].get().change
            }
            #expect(try await take("old", token: "t", after: 0) == .created)
            #expect(try await take("new", token: "t", after: 2) == .created)
            // The line of an older export takes no token back.
            #expect(try await take("old", token: "t", after: 0) == .ignored)
            #expect(try await take("old", token: "u", after: 1) == .created)
            let tokens = try await Self.devices(fixture).mapValues { $0[0] }
            #expect(tokens == ["new": "t", "old": "u"].mapValues { StoreFixture.token($0) })
        }
    }

    @Test func `Who holds the tokens of many before loses them`() async throws {
        try await StoreFixture.with { fixture in
            let old = (0..<20).map { Self.registration("old-\($0)", token: "\($0)", user: "ann") }
            let new = (0..<20).map { Self.registration("new-\($0)", token: "\($0)", user: "bob", topics: ["all"]) }
            _ = await fixture.store.register(fixture.app, old)
            let results = await fixture.store.register(fixture.app, new)
            #expect(Self.changes(results) == Array(repeating: .created, count: 20))
            let names = try await Self.devices(fixture).keys
            #expect(Set(names) == Set(new.map(\.device)))
            #expect(try await fixture.store.devices(fixture.app, ofUser: UserID("ann")).isEmpty)
            #expect(try await fixture.store.devices(fixture.app, ofUser: UserID("bob")).count == 20)
        }
    }

    @Test func oneThatFailsStopsNoOther() async throws {
        try await StoreFixture.with(partitions: 1) { fixture in
            let corrupt = try await fixture.register("corrupt").device
            let keys = fixture.store.keys
            let slab = keys.slab(fixture.app, .apns, 0, 0)
            let ordinal = Int(corrupt.reference.ordinal)
            try await Self.send(fixture, RedisCommand("HSET", .text(slab), .integer(ordinal), "short"))
            // A posting that is none: whoever enters that topic fails, in the middle of a call for all.
            let broken = try #require(
                try await fixture.register("first", topics: ["broken"]).device.record.topics.first
            )
            let posting = keys.posting(fixture.app, .apns, 0, topic: broken, chunk: 0)
            try await Self.send(fixture, RedisCommand("LPUSH", .text(posting), "no posting"))
            var badToken = Self.registration("bad-token")
            badToken.token = "no hex"
            var badTopic = Self.registration("bad-topic")
            badTopic.topics = ["a b"]
            let registrations = [
                Self.registration("a", topics: ["news"]), badToken, Self.registration("corrupt"),
                Self.registration("b", user: "ann"), Self.registration("in-broken", topics: ["broken"]), badTopic,
                Self.registration("c", topics: ["news"]),
            ]
            let results = await fixture.store.register(fixture.app, registrations)
            let codes = results.map { result -> StoreError.Code? in
                if case .failure(let error) = result { error.code } else { nil }
            }
            #expect(codes == [nil, .invalidToken, .corrupt, nil, .corrupt, .invalidRegistration, nil])
            #expect([0, 3, 6].map { try? results[$0].get().change } == [.created, .created, .created])
            for device in ["a", "b", "c"] { #expect(try await fixture.get(device)?.id == device) }
            #expect(try await fixture.store.devices(fixture.app, ofUser: UserID("ann")).map(\.id) == ["b"])
        }
    }

    @Test func aUserWithTooManyDevicesLosesTheOldest() async throws {
        try await StoreFixture.with { fixture in
            let count = StoreLimits.devicesPerUserMax + 3
            let registrations = (0..<count).map { Self.registration("phone-\($0)", user: "ann") }
            let results = await fixture.store.register(fixture.app, registrations)
            #expect(Self.changes(results) == Array(repeating: .created, count: count))
            let devices = try await fixture.store.devices(fixture.app, ofUser: UserID("ann"))
            #expect(devices.count == StoreLimits.devicesPerUserMax)
            #expect(try await fixture.expectClean().devices.count == count)
        }
    }

    @Test func topicsBeyondTheLimitFailOnlyWhoWantsThem() async throws {
        try await StoreFixture.with { fixture in
            var store = fixture.store
            store.topicLimits = TopicLimits(perApp: 100, perOwner: 2)
            let results = await store.register(
                fixture.app,
                [
                    Self.registration("a", user: "ann", topics: ["1", "2"]),
                    Self.registration("b", user: "ann", topics: ["3"]),
                    Self.registration("c", user: "bob", topics: ["1", "3"]),
                ],
            )
            #expect(results.map { (try? $0.get()) != nil } == [true, false, true])
            guard case .failure(let error) = results[1] else { return }
            #expect(error.code == .topicLimit)
        }
    }

    @Test func `Calls are counted by partition and not by device`() async throws {
        try await RedisServer.with { server in
            let fixture = try await StoreFixture.make(on: server, partitions: 4, app: "counted")
            func calls(_ body: () async throws -> Void) async throws -> Int {
                let before = try await Self.callCount(fixture)
                try await body()
                return try await Self.callCount(fixture) - before
            }
            let many = (0..<128).map { Self.registration("phone-\($0)", user: "ann-\($0 % 8)", topics: ["news"]) }
            let groups = [many.map { Array($0.device.utf8) }, many.map { Hexadecimal.decode($0.token) ?? [] }]
            let sizes = groups.map { ids in
                Dictionary(grouping: ids) { fixture.place($0).partition }.values.map { ($0.count + 63) / 64 }
            }
            let (devices, tokens) = (sizes[0].reduce(0, +), sizes[1].reduce(0, +))
            let users = Set((0..<8).map { fixture.place(Array("ann-\($0)".utf8)).partition }).count
            // Reserve and number the topic besides.
            let created = try await calls {
                let results = await fixture.store.register(fixture.app, many)
                #expect(Self.changes(results) == Array(repeating: .created, count: many.count))
            }
            #expect(created == 2 * devices + 2 * tokens + 2 * users + 1 + 2)
            let unchanged = try await calls {
                let results = await fixture.store.register(fixture.app, many)
                #expect(Self.changes(results) == Array(repeating: .unchanged, count: many.count))
            }
            #expect(unchanged == devices + tokens + 1)

            #expect(try await calls { try await fixture.register("new", topics: ["news"]) } == 5)
            #expect(try await calls { try await fixture.register("new", topics: ["news"]) } == 3)
            #expect(try await calls { try await fixture.register("new", topics: []) } == 3)
            #expect(try await calls { try await fixture.register("other") } == 4)
            await fixture.client.close()
        }
    }

    @Test func aCallHasALimitOfDevicesAndOfBytes() {
        var group = CallGroup(partition: 3, index: 0, byteCount: 10)
        for index in 1..<StoreLimits.registrationsPerCallMax {
            #expect(group.takes(10))
            group.add(index, 10)
        }
        #expect(!group.takes(0))
        #expect(group.indices == Array(0..<StoreLimits.registrationsPerCallMax))
        let large = CallGroup(partition: 3, index: 0, byteCount: StoreLimits.registrationBytesPerCallMax - 10)
        #expect(large.takes(10) && !large.takes(11))
    }

    private static func send(_ fixture: StoreFixture, _ command: RedisCommand) async throws {
        _ = try await fixture.client.send(command, on: fixture.store.keys.tag(0))
    }

    /// Returns the number of functions called on the fixture's server.
    private static func callCount(_ fixture: StoreFixture) async throws -> Int {
        let info = try await fixture.client.send(RedisCommand("INFO", "commandstats"), on: fixture.store.keys.tag(0))
        let lines = (info.root.string ?? "").split(whereSeparator: \.isNewline)
        return lines.reduce(0) { sum, line in
            guard let match = line.firstMatch(of: /^cmdstat_fcall(?:_ro)?:calls=([0-9]+)/) else { return sum }
            return sum + (Int(match.1) ?? 0)
        }
    }
}
