import ApusCore
import ApusMessages
import ApusRedis
import ApusTestKit
import Testing

@testable import ApusStore

struct ChangeTests {
    @Test func topicsAreEnteredAndLeft() async throws {
        try await StoreFixture.with { fixture in
            let registered = try await fixture.register("phone", topics: ["a"]).device
            let id = try DeviceID("phone")
            guard case .changed(let more) = try await fixture.store.subscribe(fixture.app, id, to: ["b", "c", "a"])
            else { throw Unexpected() }
            #expect(try await fixture.topics(more) == ["a", "b", "c"])
            #expect(more.registeredAt == registered.registeredAt)
            #expect(try await fixture.store.subscribe(fixture.app, id, to: ["b"]) == .unchanged(more))
            guard
                case .changed(let fewer) = try await fixture.store.unsubscribe(fixture.app, id, from: ["a", "c", "x"])
            else { throw Unexpected() }
            #expect(try await fixture.topics(fewer) == ["b"])
            #expect(try await fixture.store.topicNumber(fixture.app, TopicName("x")) == nil)
            #expect(try await fixture.store.subscribe(fixture.app, DeviceID("ghost"), to: ["y"]) == .missing)
            #expect(try await fixture.store.topicNumber(fixture.app, TopicName("y")) == nil)
            try await fixture.expectClean()
        }
    }

    @Test func `Who leaves a topic whose number a master has forgotten is not in it when it has its number again`()
        async throws
    {
        try await StoreFixture.with { fixture in
            let (store, app, id) = (fixture.store, fixture.app, try DeviceID("phone"))
            let phone = try await fixture.register("phone", topics: ["a", "b"]).device
            let number = try #require(try await store.topicNumber(app, TopicName("a")))
            let tag = store.keys.tag(Int(number) % StoreFixture.partitions)
            // Other tests share the server.
            let question = RedisCommand("KEYS", .text("\(tag)\(app):topics:*"))
            for name in try await fixture.client.send(question, on: tag).root.children.compactMap(\.string) {
                _ = try await fixture.client.send(RedisCommand("HDEL", .text(name), "a"), on: tag)
            }
            #expect(try await store.topicNumber(app, TopicName("a")) == nil)
            #expect(try await fixture.get("phone")?.record.topics == phone.record.topics)
            guard case .changed(let left) = try await store.unsubscribe(app, id, from: ["a"]) else {
                throw Unexpected()
            }
            #expect(try await fixture.topics(left) == ["b"] && left.record.topics.count == 1)
            try await fixture.register("tablet", topics: ["a"])
            #expect(try await store.topicNumber(app, TopicName("a")) == number)
        }
    }

    @Test func aDeviceHasAHundredTopicsAtMost() async throws {
        try await StoreFixture.with { fixture in
            try await fixture.register("phone", topics: (0..<99).map { "t\($0)" })
            let id = try DeviceID("phone")
            await #expect { try await fixture.store.subscribe(fixture.app, id, to: ["u1", "u2"]) } throws: {
                isCode($0, .tooManyTopics)
            }
            guard case .changed = try await fixture.store.subscribe(fixture.app, id, to: ["u1"]) else {
                throw Unexpected()
            }
            try await fixture.expectClean()
        }
    }

    @Test func topicNumbersAreUniqueAndStay() async throws {
        try await StoreFixture.with { fixture in
            let names = (0..<300).map { "topic-\($0)" }
            for part in 0..<3 {
                try await fixture.register("phone-\(part)", topics: Array(names[part * 100..<part * 100 + 100]))
            }
            var numbers: Set<UInt32> = []
            for name in names {
                numbers.insert(try #require(try await fixture.store.topicNumber(fixture.app, TopicName(name))))
            }
            #expect(numbers.count == 300 && !numbers.contains(0))
            let ordered = numbers.sorted()
            #expect(Set(try await fixture.store.topicNames(fixture.app, ordered).compactMap { $0?.text }) == Set(names))
            let unknown = try #require((1...1_000).first { !numbers.contains($0) })
            #expect(try await fixture.store.topicNames(fixture.app, [unknown]) == [nil])
        }
    }

    @Test func usersComeAndGo() async throws {
        try await StoreFixture.with { fixture in
            try await fixture.register("phone")
            let id = try DeviceID("phone")
            let (ann, bob) = (try UserID("ann"), try UserID("bob"))
            let store = fixture.store
            _ = try await store.bindUser(fixture.app, id, ann)
            _ = try await store.bindUser(fixture.app, id, bob)
            #expect(try await store.devices(fixture.app, ofUser: ann).isEmpty)
            #expect(try await store.devices(fixture.app, ofUser: bob).map(\.id) == ["phone"])
            // Ann's late log-out does not log Bob out.
            guard case .unchanged = try await store.unbindUser(fixture.app, id, from: ann) else { throw Unexpected() }
            guard case .changed = try await store.unbindUser(fixture.app, id, from: bob) else { throw Unexpected() }
            #expect(try await store.devices(fixture.app, ofUser: bob).isEmpty)
            #expect(try await store.bindUser(fixture.app, DeviceID("ghost"), ann) == .missing)
            try await fixture.expectClean()
        }
    }

    @Test func aUserWithTooManyDevicesLosesTheOldest() async throws {
        try await StoreFixture.with { fixture in
            for index in 0..<StoreLimits.devicesPerUserMax {
                try await fixture.register("phone-\(index)", user: "ann")
                fixture.clock.advance(byMilliseconds: 3_600_000)
            }
            let added = try await fixture.register("one-more", user: "ann")
            #expect(added.device.displaced == "phone-0")
            #expect(try #require(try await fixture.get("one-more")).displaced == nil)
            // Logging in takes a place, too.
            try await fixture.register("tablet", user: "bea")
            guard
                case .changed(let tablet) = try await fixture.store.bindUser(
                    fixture.app,
                    DeviceID("tablet"),
                    UserID("ann")
                )
            else {
                Issue.record("not changed")
                return
            }
            #expect(tablet.displaced == "phone-1")
            let devices = try await fixture.store.devices(fixture.app, ofUser: UserID("ann"))
            #expect(devices.count == StoreLimits.devicesPerUserMax)
            #expect(devices.contains { $0.id == "one-more" } && devices.contains { $0.id == "tablet" })
            #expect(!devices.contains { $0.id == "phone-0" || $0.id == "phone-1" })
            #expect(try #require(try await fixture.get("phone-0")).record.user.isEmpty)
            try await fixture.expectClean()
        }
    }

    @Test func `A user's maximum counts no device of another user, and takes none from it`() async throws {
        try await StoreFixture.with { fixture in
            let store = fixture.store
            try await fixture.register("passed-on", user: "bea")
            for index in 1..<StoreLimits.devicesPerUserMax { try await fixture.register("phone-\(index)", user: "ann") }
            // The process that passed it on was killed before it took the note from Ann.
            let passedOn = store.home(fixture.app, try DeviceID("passed-on"))
            try await store.addUser("ann", passedOn)
            let added = try await fixture.register("one-more", user: "ann")
            #expect(added.device.displaced == nil)
            #expect(try #require(try await fixture.get("passed-on")).record.user == "bea")
            let devices = try await store.devices(fixture.app, ofUser: UserID("ann"))
            #expect(devices.count == StoreLimits.devicesPerUserMax)
            try await fixture.expectClean()
        }
    }

    @Test func `A device that its user logs in on while room is made for another one is found`() async throws {
        try await StoreFixture.with { fixture in
            let (store, app, id) = (fixture.store, fixture.app, try DeviceID("passed-on"))
            let ann = try UserID("ann")
            for index in 1..<StoreLimits.devicesPerUserMax { try await fixture.register("phone-\(index)", user: "ann") }
            for race in 0..<100 {
                try await fixture.register("passed-on", user: "bea")
                // The process that passed it on was killed before it took the note from Ann.
                try await store.addUser("ann", store.home(app, id))
                async let added = fixture.register("more-\(race)", user: "ann")
                async let bound = store.bindUser(app, id, ann)
                _ = try await (added, bound)
                #expect(try await store.devices(app, ofUser: ann).contains { $0.id == "passed-on" })
            }
            try await fixture.expectClean()
        }
    }

    @Test func `A log-in without a time is not undone by a command from before it`() async throws {
        try await StoreFixture.with { fixture in
            let (store, app, id) = (fixture.store, fixture.app, try DeviceID("phone"))
            let past = UnixMilliseconds(1_700_000_000_000)
            func time(_ milliseconds: Int64) -> UnixMilliseconds { past.advanced(byMilliseconds: milliseconds) }
            try await fixture.register("phone", user: "ann", asOf: time(1))
            guard case .changed = try await store.unbindUser(app, id) else { throw Unexpected() }
            let device = try #require(try await fixture.get("phone"))
            #expect(try await store.bindUser(app, id, UserID("ann"), asOf: time(2)) == .ignored(device))
            #expect(try await fixture.register("phone", user: "ann", asOf: time(2)).change == .ignored)
            #expect(try await fixture.get("phone") == device)
            // A change of another kind leaves room for what waits in the stream.
            try await fixture.register("tablet", asOf: time(1))
            _ = try await store.subscribe(app, DeviceID("tablet"), to: ["news"])
            guard case .changed = try await store.bindUser(app, DeviceID("tablet"), UserID("ann"), asOf: time(2)) else {
                throw Unexpected()
            }
            // Nor does it bring back what was deleted.
            guard case .deleted = try await store.delete(app, id) else { throw Unexpected() }
            #expect(try await fixture.register("phone", user: "ann", asOf: time(2)).change == .ignored)
            #expect(try await fixture.get("phone") == nil)
            #expect(try await fixture.register("phone", user: "ann").change == .created)
            try await fixture.expectClean()
        }
    }

    @Test func `A log-in or log-out that changes nothing is not undone by a command from before it`() async throws {
        try await StoreFixture.with { fixture in
            let (store, app) = (fixture.store, fixture.app)
            let (ann, bob) = (try UserID("ann"), try UserID("bob"))
            let past = try await fixture.redisNow().advanced(byMilliseconds: -10_000)
            let later = past.advanced(byMilliseconds: 1)
            let (phone, tablet, watch) = (try DeviceID("phone"), try DeviceID("tablet"), try DeviceID("watch"))
            try await fixture.register("phone", asOf: past)
            for user in [nil, ann] {
                guard case .unchanged(let device) = try await store.unbindUser(app, phone, from: user) else {
                    throw Unexpected()
                }
                #expect(device.changedAt > later)
                #expect(try await store.bindUser(app, phone, ann, asOf: later) == .ignored(device))
            }
            try await fixture.register("tablet", user: "ann", asOf: past)
            guard case .unchanged(let anns) = try await store.bindUser(app, tablet, ann) else { throw Unexpected() }
            #expect(try await store.unbindUser(app, tablet, asOf: later) == .ignored(anns))
            // A log-out of somebody else says nothing of whose it is.
            #expect(try await store.unbindUser(app, tablet, from: bob) == .unchanged(anns))
            // The registration that an app repeats at each start changes nothing, either.
            #expect(try await fixture.register("tablet", user: "ann").change == .unchanged)
            try await fixture.register("watch", user: "ann", asOf: past)
            guard case .unchanged(let same) = try await store.patch(app, watch, user: "ann") else { throw Unexpected() }
            #expect(try await store.bindUser(app, watch, bob, asOf: later) == .ignored(same))
            try await fixture.expectClean()
        }
    }

    @Test func `A change on a condition is not made over a change that came between`() async throws {
        try await StoreFixture.with { fixture in
            let (store, app, id) = (fixture.store, fixture.app, try DeviceID("phone"))
            let ann = try UserID("ann")
            var attributes = Attributes()
            for round in 0..<50 {
                let read = try await fixture.register("phone", user: "ann").device
                attributes.locale = "l\(round)"
                let patched = attributes
                async let loggedOut = store.unbindUser(app, id, from: ann)
                async let patching = store.patch(
                    app,
                    id,
                    attributes: patched,
                    user: "ann",
                    condition: .matches([read.etag])
                )
                guard case .changed = try await loggedOut else { throw Unexpected() }
                do {
                    _ = try await patching
                } catch let error as StoreError {
                    #expect(error.code == .preconditionFailed)
                }
                // Whichever came first, she has logged out.
                #expect(try #require(try await fixture.get("phone")).record.user.isEmpty)
            }
            for round in 0..<50 {
                let new = try DeviceID("new-\(round)")
                let results = try await withThrowingTaskGroup(of: Bool.self) { group in
                    for user in ["ann", "bob"] {
                        group.addTask {
                            var registration = DeviceRegistration(
                                device: new.text,
                                provider: .apns,
                                token: StoreFixture.token(new.text)
                            )
                            registration.user = user
                            do {
                                _ = try await store.register(app, registration, condition: .absent)
                                return true
                            } catch let error as StoreError where error.code == .preconditionFailed {
                                return false
                            }
                        }
                    }
                    return try await group.reduce(into: []) { $0.append($1) }
                }
                #expect(results.sorted { !$0 && $1 } == [false, true])
            }
            // The one that came second has taken back what it had noted.
            try await fixture.expectClean()
        }
    }

    /// Keys of the app in which a name stands, as it is or as the digest that the store files it under.
    private static func traces(of name: String, in fixture: StoreFixture) async throws -> [String] {
        let digest = fixture.place(Array(name.utf8)).digest
        let wanted = [Array(name.utf8), digest, Array(digest.prefix(4)), Array(Hexadecimal.encode(digest).utf8)]
        func isTrace(_ bytes: [UInt8]) -> Bool {
            wanted.contains { $0.count <= bytes.count && bytes.firstRange(of: $0) != nil }
        }
        var traces: [String] = []
        for partition in 0..<StoreFixture.partitions {
            let tag = fixture.store.keys.tag(partition)
            let keys = try await fixture.client.send(
                RedisCommand("KEYS", .text("\(tag)\(fixture.app):*")),
                on: tag
            ).root.children.compactMap(\.string)
            for key in keys {
                let dump = try await fixture.client.send(RedisCommand("DUMP", .text(key)), on: tag).root.bytes ?? []
                if isTrace(Array(key.utf8)) || isTrace(dump) { traces.append(key) }
            }
        }
        return traces
    }

    @Test func `What leads from a user to removed devices goes last, and what leads to others stays`() async throws {
        try await StoreFixture.with { fixture in
            let (store, app, ann) = (fixture.store, fixture.app, try UserID("ann"))
            for name in ["phone", "tablet"] { try await fixture.register(name, user: "ann") }
            #expect(try await store.deleteDevices(app, ofUser: ann).map(\.id).sorted() == ["phone", "tablet"])
            let between = try await StoreCheck.run(store, app)
            #expect(between.staleHints == 2 && between.findings.isEmpty)
            // One of them is there again, as after a failover.
            let phone = try await fixture.register("phone", user: "ann").device
            try await store.forgetUser(app, ann)
            #expect(try await store.devices(app, ofUser: ann) == [phone])
            #expect(try await StoreCheck.run(store, app).staleHints == 0)
            #expect(try await store.deleteUser(app, ann) == [phone])
            #expect(try await fixture.expectClean().devices.isEmpty)
        }
    }

    @Test func `A device that leaves its user while the user is forgotten stays`() async throws {
        try await StoreFixture.with { fixture in
            let (store, app, ann, id) = (fixture.store, fixture.app, try UserID("ann"), try DeviceID("phone"))
            for race in 0..<50 {
                try await fixture.register("phone", token: "hers-\(race)", user: "ann")
                async let removed = store.deleteUser(app, ann)
                try await fixture.register("phone", token: "nobodys-\(race)")
                _ = try await removed
                #expect(try await store.get(app, id)?.record.user == "")
            }
            await #expect {
                try await store.delete(app, id, condition: .isOf(ann))
            } throws: {
                isCode($0, .foreign)
            }
            #expect(try await fixture.expectClean().devices.count == 1)
        }
    }

    @Test func aUserIsForgottenWithAllDevices() async throws {
        try await StoreFixture.with { fixture in
            for index in 0..<5 { try await fixture.register("phone-\(index)", user: index < 3 ? "anneliese" : "bob") }
            // A history begins with an outcome; what comes after that joins it.
            for index in [0, 3] {
                let device = try #require(try await fixture.get("phone-\(index)"))
                let event = HistoryEvent(.accepted, at: fixture.clock.now(), provider: .apns)
                try await fixture.store.note(
                    [DeviceStore.HistoryEntry(event, of: device)],
                    DeviceStore.HistoryRules(keepMilliseconds: 600_000)
                )
            }
            let gone = try await fixture.store.deleteUser(fixture.app, UserID("anneliese"))
            #expect(Set(gone.map(\.id)) == ["phone-0", "phone-1", "phone-2"])
            #expect(Set(try await fixture.expectClean().devices.keys) == ["phone-3", "phone-4"])
            #expect(try await fixture.store.history(fixture.app, DeviceID("phone-0")) == [])
            #expect(try await fixture.store.history(fixture.app, DeviceID("phone-3")).count == 1)
            // Not a key or a field of them is left, in whatever form: neither the user's name nor the devices', but that they were removed, for
            // an hour.
            #expect(try await Self.traces(of: "anneliese", in: fixture) == [])
            for name in ["phone-0", "phone-1", "phone-2"] {
                let tag = fixture.store.keys.tag(fixture.place(Array(name.utf8)).partition)
                for key in try await Self.traces(of: name, in: fixture) {
                    let left = try await fixture.client.send(RedisCommand("PTTL", .text(key)), on: tag).root.integer
                    #expect(key.contains(":gone:"))
                    #expect((1...StoreLimits.removalMilliseconds).contains(left ?? 0))
                }
            }
            #expect(try await Self.traces(of: "phone-3", in: fixture) != [])
        }
    }

    @Test(arguments: [DeviceStore.UndoRules.default, nil])
    func `A user is forgotten with the histories of devices that were removed before`(
        undo: DeviceStore.UndoRules?
    ) async throws {
        try await StoreFixture.with { fixture in
            let (store, app) = (fixture.store, fixture.app)
            let rules = DeviceStore.HistoryRules(keepMilliseconds: 600_000)
            func prune(_ name: String, user: String) async throws {
                let device = try await fixture.register(name, user: user).device
                let event = HistoryEvent(.pruned, at: fixture.clock.now(), provider: .apns)
                let result = try await store.prune(
                    fixture.route,
                    device.reference,
                    tokenDigest: DeviceToken.digest(device.record.token),
                    asOf: device.registeredAt,
                    undo: undo,
                    event: DeviceStore.RemovalEvent(event, rules),
                )
                #expect(result == .applied(device))
            }
            for name in ["removed", "passed-on"] { try await prune(name, user: "anneliese") }
            try await prune("bobs", user: "bob")
            try await fixture.register("passed-on", user: "bob")
            // The token of another one goes to a device of somebody else.
            let robbed = try await fixture.register("robbed", token: "shared", user: "anneliese").device
            let accepted = HistoryEvent(.accepted, at: fixture.clock.now(), provider: .apns)
            try await store.note([DeviceStore.HistoryEntry(accepted, of: robbed)], rules)
            try await fixture.register("later", token: "shared", user: "bob")
            for name in ["removed", "passed-on", "bobs", "robbed"] {
                #expect(try await store.history(app, DeviceID(name)).isEmpty == false, "\(name)")
            }
            #expect(try await store.deleteUser(app, UserID("anneliese")) == [])
            // Nothing is left but that devices were removed, for an hour.
            for name in ["anneliese", "removed", "robbed"] {
                let traces = try await Self.traces(of: name, in: fixture).filter { !$0.contains(":gone:") }
                #expect(traces == [], "\(name)")
            }
            // A device that is somebody's keeps its history, and so do those of others.
            #expect(try await store.history(app, DeviceID("passed-on")).map(\.kind) == [.pruned, .registered])
            #expect(try await store.history(app, DeviceID("bobs")).map(\.kind) == [.pruned])
            try await fixture.expectClean()
        }
    }

    @Test func theIndexOfHistoriesGoesByTheLongestTimeToKeep() async throws {
        try await StoreFixture.with { fixture in
            let (first, second) = (
                try await fixture.register("phone").device, try await fixture.register("tablet").device
            )
            func note(_ device: StoredDevice, keep: Int64) async throws {
                let at = fixture.clock.now().advanced(byMilliseconds: keep)
                let event = HistoryEvent(.accepted, at: at, provider: .apns)
                let rules = DeviceStore.HistoryRules(keepMilliseconds: keep)
                try await fixture.store.note([DeviceStore.HistoryEntry(event, of: device)], rules)
            }
            func send(_ name: String, _ partition: Int, _ arguments: RedisArgument...) async throws -> Int64 {
                let history = fixture.store.keys.history(fixture.app, partition, digest: 0)
                let index = RedisArgument.text("\(history.prefix { $0 != ":" }):hists")
                let command = RedisCommand(name, [index] + arguments)
                return try await fixture.client.send(command, on: HashTag(ofKey: history)).root.integer ?? -9
            }
            let partition = Int(first.reference.partition)
            try await note(first, keep: 600_000)
            // One of that kind that was told of five minutes ago.
            let old = fixture.clock.now().value - 300_000
            #expect(try await send("ZADD", partition, .integer(old), "eight by") == 1)
            // The same place, kept for a minute.
            try await note(first, keep: 60_000)
            #expect(try await send("ZCARD", partition) == 2)
            #expect(try await send("PTTL", partition) > 1_000_000)
            // Where only such are, it lives no longer.
            if second.reference.partition != first.reference.partition {
                try await note(second, keep: 60_000)
                let left = try await send("PTTL", Int(second.reference.partition))
                #expect(left > 0 && left <= 120_000)
            }
        }
    }

    @Test func lookUpsKeepTheirOrder() async throws {
        try await StoreFixture.with { fixture in
            for index in 0..<150 { try await fixture.register("phone-\(index)", user: "user-\(index % 10)") }
            let ids = try (0..<160).reversed().map { try DeviceID("phone-\($0)") }
            let devices = try await fixture.store.resolve(fixture.app, devices: ids)
            #expect(devices.map { $0?.id } == (0..<160).reversed().map { $0 < 150 ? "phone-\($0)" : nil })
            let users = try await fixture.store.resolve(fixture.app, users: (0..<12).map { try UserID("user-\($0)") })
            #expect(users.map(\.count) == [Int](repeating: 15, count: 10) + [0, 0])
            #expect(users[3].allSatisfy { $0.record.user == "user-3" })
        }
    }

    @Test func `A record that cannot be read is found as one, and hides no other`() async throws {
        try await StoreFixture.with { fixture in
            for name in ["sound", "corrupt"] { try await fixture.register(name, user: "ann") }
            let place = try #require(try await fixture.get("corrupt")).reference
            let (partition, ordinal) = (Int(place.partition), Int(place.ordinal))
            let slab = fixture.store.keys.slab(fixture.app, .apns, partition, ordinal / 64)
            let command = RedisCommand("HSET", .text(slab), .integer(ordinal % 64), "short")
            _ = try await fixture.client.send(command, on: fixture.store.keys.tag(partition))
            let ids = try ["corrupt", "sound", "missing"].map { try DeviceID($0) }
            let found = try await fixture.store.find(fixture.app, devices: ids)
            let names = found.map { found -> String in
                switch found {
                case .device(let device): device.id
                case .corrupt(let place): "corrupt \(place.realm.provider)"
                case nil: "none"
                }
            }
            #expect(names == ["corrupt apns", "sound", "none"])
            let ofAnn = try await fixture.store.find(fixture.app, users: [try UserID("ann")])[0]
            #expect(ofAnn.count == 2)
            await #expect(throws: StoreError.self) { try await fixture.store.resolve(fixture.app, devices: ids) }
        }
    }

    @Test func `An answer of another form buries nothing`() {
        let error = StoreCalls.unexpected("apus2_find_devices")
        #expect(error.disposition == .retryLater && error.detail.contains("apus2_find_devices"))
    }

    @Test func changesOfOneDeviceAtTheSameTimeAllCount() async throws {
        try await StoreFixture.with { fixture in
            try await fixture.register("phone")
            let id = try DeviceID("phone")
            try await withThrowingTaskGroup { group in
                for index in 0..<8 {
                    group.addTask { _ = try await fixture.store.subscribe(fixture.app, id, to: ["t\(index)"]) }
                }
                try await group.waitForAll()
            }
            let device = try #require(try await fixture.get("phone"))
            #expect(try await fixture.topics(device) == (0..<8).map { "t\($0)" })
            try await fixture.expectClean()
        }
    }
}

struct Unexpected: Error {}
