import ApusCore
import ApusMessages
import ApusRedis
import ApusTestKit
import Testing

@testable import ApusStore

/// Tests what a check finds in a store that was damaged by hand, and what is left of it after upkeep.
@Suite struct UpkeepTests {
    private static func populate(_ fixture: StoreFixture, _ count: Int = 200) async throws {
        for index in 0..<count {
            try await fixture.register(
                "phone-\(index)",
                user: index % 3 == 0 ? "user-\(index / 6)" : "",
                topics: ["all"] + (index % 7 == 0 ? ["few-\(index % 3)"] : []),
            )
        }
    }

    /// Sends a command to where a device is.
    private static func send(
        _ fixture: StoreFixture,
        _ partition: Int,
        _ name: String,
        _ arguments: RedisArgument...
    )
        async throws -> RESPNode
    {
        try await fixture.client.send(
            RedisCommand(name, arguments),
            on: fixture.store.keys.tag(partition)
        ).root
    }

    private static func upkeep(_ fixture: StoreFixture) async throws -> UpkeepReport {
        var sum = UpkeepReport()
        for partition in 0..<StoreFixture.partitions {
            let report = try await fixture.store.upkeep(fixture.app, partition) { _ in }
            sum.devices += report.devices
            sum.ordinals += report.ordinals
            sum.hints += report.hints
            sum.tokens += report.tokens
            sum.users += report.users
            sum.left += report.left
        }
        return sum
    }

    @Test func `A sound store is left unchanged`() async throws {
        try await StoreFixture.with { fixture in
            try await Self.populate(fixture)
            let check = try await fixture.expectClean()
            #expect(check.deviceCount == 200 && check.subscriptions == 200 + 29)
            var nothing = UpkeepReport()
            nothing.devices = 200
            #expect(try await Self.upkeep(fixture) == nothing)
            try await fixture.expectClean()
        }
    }

    @Test func `The store's count of a route follows added, removed and moved devices`() async throws {
        try await StoreFixture.with { fixture in
            let sandbox = Route(app: fixture.app, provider: .apns, environment: .sandbox)
            func counts() async throws -> [Int] {
                [try await fixture.store.deviceCount(fixture.route), try await fixture.store.deviceCount(sandbox)]
            }
            #expect(try await counts() == [0, 0])
            try await Self.populate(fixture, 50)
            #expect(try await counts() == [50, 0])
            try await fixture.register("phone-1", environment: .sandbox)
            try await fixture.register("phone-2", topics: ["other"])
            #expect(try await counts() == [49, 1])
            for index in 0..<10 { _ = try await fixture.store.delete(fixture.app, try DeviceID("phone-\(index)")) }
            #expect(try await counts() == [40, 0])
        }
    }

    @Test func `Every kind of wrong posting, id or hint is found and repaired from the record`()
        async throws
    {
        try await StoreFixture.with { fixture in
            // Enough for a posting with a key of its own in each partition, and for one bucket of ids.
            try await Self.populate(fixture, 280)
            let (keys, app) = (fixture.store.keys, fixture.app)
            // Out of a dense posting, out of a small one, and into one where it does not belong.
            let seven = try #require(try await fixture.get("phone-7"))
            let all = try #require(try await fixture.store.topicNumber(app, TopicName("all")))
            let few = try #require(try await fixture.store.topicNumber(app, TopicName("few-1")))
            let partition = Int(seven.reference.partition)
            let dense = keys.posting(app, .apns, partition, topic: all, chunk: 0)
            let bytes = try #require(try await Self.send(fixture, partition, "GET", .text(dense)).bytes)
            let ordinal = [UInt8(seven.reference.ordinal >> 8), UInt8(seven.reference.ordinal & 0xff)]
            let packed = stride(from: 0, to: bytes.count, by: 2).map { Array(bytes[$0..<$0 + 2]) }
            #expect(packed.contains(ordinal))
            let without = packed.filter { $0 != ordinal }.flatMap(\.self)
            _ = try await Self.send(fixture, partition, "SET", .text(dense), .bytes(without))
            let stray = UInt32(few + 4)  // A number of the same partition that nobody has: no record asks for it.
            let field: [UInt8] = [
                UInt8(truncatingIfNeeded: stray >> 24), UInt8(truncatingIfNeeded: stray >> 16),
                UInt8(truncatingIfNeeded: stray >> 8), UInt8(truncatingIfNeeded: stray), 0,
            ]
            _ = try await Self.send(
                fixture,
                partition,
                "HSET",
                .text(keys.bucket(.few, app, .apns, partition, 0)),
                .bytes(field),
                .bytes(ordinal)
            )
            _ = try await Self.send(
                fixture,
                partition,
                "HINCRBY",
                .text(keys.meta(app, .apns, partition)),
                "few_count",
                1
            )
            // An id that leads nowhere, a token and a user that lead to nobody.
            let nine = fixture.place(Array("phone-9".utf8))
            _ = try await Self.send(
                fixture,
                nine.partition,
                "HDEL",
                .text(keys.bucket(.ids, app, .apns, nine.partition, 0)),
                .bytes(nine.digest)
            )
            _ = try await Self.send(
                fixture,
                nine.partition,
                "HINCRBY",
                .text(keys.meta(app, .apns, nine.partition)),
                "id_count",
                -1
            )
            let token = fixture.place(try #require(Hexadecimal.decode(StoreFixture.token("phone-12"))))
            let release = ReleaseTokenCall(
                keys: [keys.meta(app, token.partition)],
                digest: token.digest,
                owner: fixture.owner("phone-12"),
            )
            _ = try await fixture.client.call(release, on: keys.tag(token.partition))
            let user = fixture.place(Array("user-3".utf8))
            let remove = RemoveUserCall(
                keys: [keys.meta(app, user.partition)],
                digest: user.digest,
                device: fixture.owner("phone-18"),
            )
            _ = try await fixture.client.call(remove, on: keys.tag(user.partition))

            let check = try await StoreCheck.run(fixture.store, app)
            for text in [
                "ordinal \(seven.reference.ordinal), which its posting has not",
                "topic \(stray): ordinal \(seven.reference.ordinal), which its record has not",
                "phone-9 in apns/\(nine.partition) is not reachable by its id",
                "apns/\(nine.partition) counts 1 devices fewer than it has",
                "the token of phone-12 does not lead to it",
                "the user of phone-18 does not lead to it",
            ] {
                #expect(check.problems.contains { $0.contains(text) }, "\(text)")
            }
            #expect(check.findings.count == 6, "\(check.problems)")
            #expect(try await fixture.get("phone-9") == nil)

            let report = try await Self.upkeep(fixture)
            #expect(report.ordinals == 2 && report.left == [], "\(report)")
            // While its id leads nowhere, phone-9 cannot bear out its token and its user: whether these are dropped before it is
            // found, and then put back, depends on which partition comes first.
            #expect((2...3).contains(report.hints), "\(report)")
            try await fixture.expectClean()
            #expect(try await fixture.get("phone-9") != nil)
        }
    }

    @Test func `A record that has changed since it was read is not repaired from the old read`() async throws {
        try await StoreFixture.with { fixture in
            try await fixture.register("one", topics: ["a"])
            let one = try #require(try await fixture.get("one"))
            let place = fixture.place(Array("one".utf8))
            func repair(_ expected: [UInt8], digest: [UInt8]) async throws -> Int64? {
                let call = RepairDeviceCall(
                    keys: [fixture.store.keys.meta(fixture.app, .apns, place.partition)],
                    ordinal: one.reference.ordinal,
                    expected: expected,
                    digest: digest,
                    entered: [],
                    left: [],
                )
                return try await fixture.client.call(call, on: fixture.store.keys.tag(place.partition)).root.integer
            }
            #expect(try await repair([1, 2, 3], digest: place.digest) == 0)
            #expect(try await repair([], digest: []) == 0)
            try await fixture.expectClean()
        }
    }

    @Test func `The traces of crashes are removed`() async throws {
        try await StoreFixture.with { fixture in
            try await fixture.register("one", user: "ada")
            let (keys, app) = (fixture.store.keys, fixture.app)
            let token = fixture.place(try #require(Hexadecimal.decode(StoreFixture.token("one"))))
            // Claimed by a process that died, and noted for a user by another.
            let claim = ClaimTokenCall(
                keys: [keys.meta(app, token.partition)],
                digest: token.digest,
                claimer: fixture.owner("ghost"),
            )
            _ = try await fixture.client.call(claim, on: keys.tag(token.partition))
            let user = fixture.place(Array("grace".utf8))
            let add = AddUserCall(
                keys: [keys.meta(app, user.partition)],
                digest: user.digest,
                device: fixture.owner("one"),
                devicesMax: 64,
            )
            _ = try await fixture.client.call(add, on: keys.tag(user.partition))
            let check = try await StoreCheck.run(fixture.store, app)
            #expect(check.problems == [] && check.staleHints == 2 && check.unsettledTokens == 1)
            let report = try await Self.upkeep(fixture)
            #expect(report.tokens == 1 && report.users == 1 && report.ordinals + report.hints == 0)
            try await fixture.expectClean()
        }
    }

    @Test func `A partition belongs to one janitor for an interval`() async throws {
        try await StoreFixture.with { fixture in
            var begun: [Bool] = []
            for partition in [0, 0, 1] {
                begun.append(try await fixture.store.beginUpkeep(fixture.app, partition, within: 3_600))
            }
            #expect(begun == [true, false, true])
        }
    }

    @Test func `A clock that has gone back does not put the janitor off`() async throws {
        try await StoreFixture.with { fixture in
            let keys = fixture.store.keys
            // As a master with a clock that was ahead has left it, where its replica takes over.
            let ahead = fixture.clock.now().advanced(byMilliseconds: 600_000).value
            let stamp = RedisCommand("SET", .text(keys.upkeep(fixture.app, 0)), .text("\(ahead)"), "PX", "3600000")
            _ = try await fixture.client.send(stamp, on: keys.tag(0))
            var begun: [Bool] = []
            for _ in 0..<2 { begun.append(try await fixture.store.beginUpkeep(fixture.app, 0, within: 3_600)) }
            #expect(begun == [true, false])
        }
    }

    @Test func `A check of a store that is being changed finds nothing wrong`() async throws {
        try await StoreFixture.with { fixture in
            try await Self.populate(fixture, 100)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for index in 0..<8 {
                    group.addTask {
                        var random = SeededGenerator(seed: UInt64(index))
                        for _ in 0..<150 {
                            let device = "phone-\(Int.random(in: 0..<25, using: &random) * 8 + index)"
                            switch Int.random(in: 0..<3, using: &random) {
                            case 0: _ = try await fixture.store.delete(fixture.app, DeviceID(device))
                            case 1:
                                let user = "user-\(Int.random(in: 0..<20, using: &random))"
                                try await fixture.register(device, user: user, topics: ["all", "other"])
                            default:
                                _ = try await fixture.store.unsubscribe(fixture.app, DeviceID(device), from: ["all"])
                            }
                        }
                    }
                }
                group.addTask {
                    for _ in 0..<3 {
                        #expect(try await StoreCheck.run(fixture.store, fixture.app).problems == [])
                        _ = try await Self.upkeep(fixture)
                    }
                }
                try await group.waitForAll()
            }
            try await fixture.expectClean()
        }
    }

    @Test func `Every device is exported once, with its topics' names`() async throws {
        try await StoreFixture.with { fixture in
            try await Self.populate(fixture)
            _ = try await fixture.store.setBadge(fixture.app, DeviceID("phone-7"), to: 5)
            var exported: [String: ExportedDevice] = [:]
            var count = 0
            try await fixture.store.forEachDevice(fixture.app) { devices in
                count += devices.count
                for device in devices { exported[device.device.id] = device }
            }
            #expect(count == 200 && exported.count == 200)
            #expect(exported["phone-7"]?.topics == ["all", "few-1"] && exported["phone-7"]?.badge == 5)
            #expect(exported["phone-8"]?.topics == ["all"] && exported["phone-8"]?.badge == nil)
        }
    }

    // MARK: Stale devices

    @Test func `Devices of FCM that were silent for too long are removed, the oldest first, and not all at once`()
        async throws
    {
        try await StoreFixture.with(partitions: 1) { fixture in
            let day: Int64 = 86_400_000
            let store = fixture.store
            func upkeep(_ staleAfter: Int64?) async throws -> UpkeepReport {
                try await store.upkeep(fixture.app, 0, staleAfterMilliseconds: staleAfter.map { [.fcm: $0] } ?? [:]) {
                    _ in
                }
            }
            let start = try await fixture.redisNow().advanced(byMilliseconds: -289 * day)
            func register(_ index: Int, day number: Int64) async throws {
                var registration = DeviceRegistration(
                    device: "android-\(index)",
                    provider: .fcm,
                    token: "token-\(index)"
                )
                registration.user = "ann"
                _ = try await store.register(
                    fixture.app,
                    registration,
                    asOf: start.advanced(byMilliseconds: number * day)
                )
            }
            for index in 0..<3 { try await fixture.register("iphone-\(index)") }
            for index in 0..<12 { try await register(index, day: Int64(index)) }
            fixture.clock.advance(byMilliseconds: -20 * day)
            #expect(try await upkeep(270 * day).stale == 0)
            try await register(0, day: 269)
            fixture.clock.advance(byMilliseconds: 20 * day)
            #expect(try await upkeep(nil).stale == 0)
            let first = try await upkeep(270 * day)
            #expect(first.stale == StoreLimits.staleDevicesMin && first.staleLeft == 3)
            // They were registered and seen a day after each other.
            let left = try await fixture.expectClean().devices.keys.filter { $0.hasPrefix("android") }
            #expect(Set(left) == ["android-0", "android-9", "android-10", "android-11"])
            let second = try await upkeep(270 * day)
            #expect(second.stale == 3 && second.staleLeft == 0)
            #expect(try await upkeep(270 * day).stale == 0)
            #expect(try await fixture.expectClean().deviceCount == 4)
            let history = try await store.history(fixture.app, try DeviceID("android-3"))
            #expect(history.map(\.kind) == [.stale])
            #expect(try await store.deleteUser(fixture.app, UserID("ann")).map(\.id) == ["android-0"])
            #expect(try await store.history(fixture.app, try DeviceID("android-3")) == [])
        }
    }
}
