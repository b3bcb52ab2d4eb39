import ApusCore
import ApusMessages
import ApusRedis
import ApusTestKit
import Testing

@testable import ApusStore

/// Devices that a provider's word removed, and their way back.
struct UndoTests {
    private static let always = UnixMilliseconds(0)..<UnixMilliseconds(4_000_000_000_000)

    private static func prune(
        _ device: StoredDevice,
        _ fixture: StoreFixture,
        undo: DeviceStore.UndoRules? = .default,
    ) async throws {
        let result = try await fixture.store.prune(
            fixture.route,
            device.reference,
            tokenDigest: DeviceToken.digest(device.record.token),
            asOf: device.registeredAt.advanced(byMilliseconds: 1),
            undo: undo,
        )
        #expect(result == .applied(device))
    }

    private static func pruned(_ fixture: StoreFixture) async throws -> [DeviceStore.PrunedDevice] {
        var all: [DeviceStore.PrunedDevice] = []
        for partition in 0..<StoreFixture.partitions {
            all += try await fixture.store.prunedDevices(fixture.route, partition, in: Self.always).devices
        }
        return all
    }

    @Test func `A removed device comes back as it was`() async throws {
        try await StoreFixture.with { fixture in
            let (store, app, id) = (fixture.store, fixture.app, try DeviceID("phone"))
            let device = try await fixture.register("phone", user: "ann", topics: ["news", "sport"]).device
            try await Self.prune(device, fixture)
            #expect(try await fixture.get("phone") == nil)
            #expect(try await store.devices(app, ofUser: UserID("ann")) == [])
            let pruned = try #require(try await store.prunedDevice(app, id))
            #expect(pruned.device.record == device.record && pruned.prunedAt >= device.registeredAt)

            guard case .restored(let back) = try await store.restore(pruned) else {
                Issue.record("not restored")
                return
            }
            #expect(back.record == device.record && back.registeredAt == device.registeredAt)
            #expect(try await fixture.get("phone") == back)
            #expect(try await store.devices(app, ofUser: UserID("ann")) == [back])
            #expect(try await fixture.topics(back) == ["news", "sport"])
            #expect(try await store.prunedDevice(app, id) == nil)
            // Asked again, as after a crash, it changes nothing.
            #expect(try await store.restore(pruned) == .restored(back))
            try await fixture.expectClean()
        }
    }

    @Test func `The registration of a removed device does not bring it back when it is carried out again`() async throws
    {
        try await StoreFixture.with { fixture in
            let past = UnixMilliseconds(1_700_000_000_000)
            func time(_ milliseconds: Int64) -> UnixMilliseconds { past.advanced(byMilliseconds: milliseconds) }
            let device = try await fixture.register("phone", user: "ann", asOf: time(1)).device
            try await Self.prune(device, fixture)
            for repeated in [time(1), time(0)] {
                #expect(try await fixture.register("phone", user: "ann", asOf: repeated).change == .ignored)
            }
            #expect(try await fixture.get("phone") == nil)
            #expect(try await Self.pruned(fixture).map(\.device) == [device])
            try await fixture.expectClean()
            #expect(try await fixture.register("phone", user: "ann", asOf: time(2)).change == .created)
            try await fixture.expectClean()
        }
    }

    @Test
    func `A change that is carried out again after the removal is in what comes back, and only a newer one forgets it`()
        async throws
    {
        try await StoreFixture.with { fixture in
            let (store, app, id) = (fixture.store, fixture.app, try DeviceID("phone"))
            let past = UnixMilliseconds(1_700_000_000_000)
            func time(_ milliseconds: Int64) -> UnixMilliseconds { past.advanced(byMilliseconds: milliseconds) }
            try await fixture.register("phone", user: "ann", asOf: time(1))
            _ = try await store.subscribe(app, id, to: ["news"], asOf: time(2))
            guard case .changed(let device) = try await store.unbindUser(app, id, asOf: time(3)) else {
                Issue.record("not changed")
                return
            }
            let result = try await store.prune(
                fixture.route,
                device.reference,
                tokenDigest: DeviceToken.digest(device.record.token),
                asOf: time(9),
                undo: .default,
            )
            #expect(result == .applied(device))
            let pruned = try #require(try await Self.pruned(fixture).first).device
            #expect(try await store.unbindUser(app, id, asOf: time(3)) == .ignored(pruned))
            #expect(try await store.subscribe(app, id, to: ["news"], asOf: time(2)) == .ignored(pruned))
            #expect(try await store.delete(app, id, asOf: time(2)) == .ignored(pruned))
            // These change nothing of it, or only add to it.
            #expect(try await store.unbindUser(app, id, asOf: time(8)) == .missing)
            #expect(try await store.subscribe(app, id, to: ["sport"]) == .missing)
            #expect(try await Self.pruned(fixture).map(\.device) == [pruned])
            // Another change of the same millisecond is no repetition.
            #expect(try await store.unsubscribe(app, id, from: ["news"], asOf: time(3)) == .missing)
            #expect(try await Self.pruned(fixture) == [])
        }
    }

    @Test func `Leaving topics or the user after the removal forgets the device, but not for another user`()
        async throws
    {
        try await StoreFixture.with { fixture in
            let (store, app, id) = (fixture.store, fixture.app, try DeviceID("phone"))
            let (ann, bob) = (try UserID("ann"), try UserID("bob"))
            func pruned() async throws -> StoredDevice {
                let device = try await fixture.register("phone", user: "ann", topics: ["news", "sport"]).device
                try await Self.prune(device, fixture)
                return device
            }
            let device = try await pruned()
            let others = DeviceCondition.belongs(to: bob, and: .absent)
            #expect(try await store.delete(app, id, condition: others) == .missing)
            #expect(try await store.changeTopics(app, id, replacing: true, condition: others) == .missing)
            #expect(try await store.patch(app, id, user: "", condition: others) == .missing)
            // A change that leaves it as it is is none.
            let owners = DeviceCondition.belongs(to: ann, and: .absent)
            #expect(
                try await store.changeTopics(app, id, entered: ["new"], left: ["other"], condition: owners) == .missing
            )
            #expect(try await Self.pruned(fixture).map(\.device) == [device])
            #expect(
                try await store.changeTopics(app, id, entered: ["new"], left: ["news"], condition: owners) == .missing
            )
            #expect(try await Self.pruned(fixture) == [])
            _ = try await pruned()
            #expect(try await store.changeTopics(app, id, replacing: true, entered: ["news"]) == .missing)
            #expect(try await Self.pruned(fixture) == [])
            _ = try await pruned()
            let patched = try await store.patchMissing(app, id, user: "", condition: owners, attributes: { $0 })
            #expect(patched == .missing)
            #expect(try await Self.pruned(fixture) == [])
        }
    }

    @Test func `A suspect comes back without suspicion`() async throws {
        try await StoreFixture.with { fixture in
            let (store, route) = (fixture.store, fixture.route)
            let device = try await fixture.register("phone").device
            let digest = DeviceToken.digest(device.record.token)
            _ = try await store.markSuspect(
                route,
                device.reference,
                tokenDigest: digest,
                reason: .badToken,
                since: device.registeredAt,
            )
            _ = try await store.pruneSuspect(route, device.reference, tokenDigest: digest, undo: .default)
            let pruned = try #require(try await store.prunedDevice(fixture.app, DeviceID("phone")))
            #expect(pruned.device.record.suspicion != nil)
            guard case .restored(let back) = try await store.restore(pruned) else { throw NotRestored() }
            #expect(back.record == device.record)
        }
    }

    private struct NotRestored: Error {}

    @Test func `A device that registered again, or holds the token, is not overwritten`() async throws {
        try await StoreFixture.with { fixture in
            let store = fixture.store
            for name in ["back", "moved"] {
                try await Self.prune(try await fixture.register(name, user: "ann").device, fixture)
            }
            let pruned = try await Self.pruned(fixture)
            #expect(pruned.count == 2)
            let back = try await fixture.register("back", user: "bob").device
            let newOwner = try await fixture.register("new-owner", token: "moved", user: "bob").device
            var results: [String: DeviceStore.RestoreResult] = [:]
            for device in pruned { results[device.device.id] = try await store.restore(device) }
            #expect(results == ["back": .registered, "moved": .tokenTaken])
            #expect(try await fixture.get("back") == back)
            #expect(try await fixture.get("new-owner") == newOwner)
            #expect(try await fixture.get("moved") == nil)
            #expect(try await store.devices(fixture.app, ofUser: UserID("ann")) == [])
            #expect(try await Self.pruned(fixture).map(\.device.id) == ["moved"])
            try await fixture.expectClean()
        }
    }

    @Test func `A device that the app deletes or logs out meanwhile does not come back`() async throws {
        try await StoreFixture.with { fixture in
            let (store, app) = (fixture.store, fixture.app)
            for name in ["deleted", "logged-out", "changed", "kept"] {
                try await Self.prune(try await fixture.register(name, user: "ann").device, fixture)
            }
            #expect(try await store.delete(app, DeviceID("deleted")) == .missing)
            #expect(try await store.unbindUser(app, DeviceID("logged-out"), from: UserID("ann")) == .missing)
            #expect(try await store.patch(app, DeviceID("changed"), user: "") == .missing)
            #expect(try await Self.pruned(fixture).map(\.device.id) == ["kept"])
        }
    }

    @Test func `The registration of a removed device does not bring it back after the app has forgotten that, either`()
        async throws
    {
        try await StoreFixture.with { fixture in
            let (store, app, ann) = (fixture.store, fixture.app, try UserID("ann"))
            let past = UnixMilliseconds(1_700_000_000_000)
            let later = past.advanced(byMilliseconds: 2)
            let names = ["deleted", "logged-out", "logged-out-then", "forgotten"]
            for name in names {
                try await Self.prune(try await fixture.register(name, user: "ann", asOf: past).device, fixture)
            }
            #expect(try await store.delete(app, DeviceID("deleted")) == .missing)
            #expect(try await store.unbindUser(app, DeviceID("logged-out"), from: ann) == .missing)
            #expect(try await store.unbindUser(app, DeviceID("logged-out-then"), asOf: later) == .missing)
            try await store.deleteUser(app, ann)
            #expect(try await Self.pruned(fixture) == [])
            for name in names {
                #expect(try await fixture.register(name, user: "ann", asOf: past).change == .ignored, "\(name)")
                #expect(try await fixture.get(name) == nil)
            }
            try await fixture.expectClean()
            // A registration of the very time of a log-out is not older, and one of the present is not either.
            #expect(try await fixture.register("logged-out-then", user: "bob", asOf: later).change == .created)
            #expect(try await fixture.register("deleted", user: "ann").change == .created)
            try await fixture.expectClean()
        }
    }

    @Test func `A user who is forgotten as of a time loses no removed device that registered later`() async throws {
        try await StoreFixture.with { fixture in
            let (store, app, ann) = (fixture.store, fixture.app, try UserID("ann"))
            let past = UnixMilliseconds(1_700_000_000_000)
            for (name, time) in [("older", past), ("newer", past.advanced(byMilliseconds: 2))] {
                try await Self.prune(try await fixture.register(name, user: "ann", asOf: time).device, fixture)
            }
            for (time, left) in [(past.advanced(byMilliseconds: 1), ["newer"]), (past.advanced(byMilliseconds: 3), [])]
            {
                #expect(try await store.deleteDevices(app, ofUser: ann, asOf: time) == [])
                try await store.forgetUser(app, ann, asOf: time)
                #expect(try await Self.pruned(fixture).map(\.device.id) == left)
            }
            try await fixture.expectClean()
        }
    }

    @Test func `A change that is not of the user keeps out no newer registration of a removed device`() async throws {
        try await StoreFixture.with { fixture in
            let (store, app) = (fixture.store, fixture.app)
            let past = UnixMilliseconds(1_700_000_000_000)
            let later = past.advanced(byMilliseconds: 2)
            var attributes = Attributes()
            attributes.locale = "fr"
            for name in ["undated", "dated"] {
                let asOf = name == "dated" ? past.advanced(byMilliseconds: 4) : nil
                let device = try await fixture.register(name, user: "ann", topics: ["news"], asOf: past).device
                try await Self.prune(device, fixture)
                let id = try DeviceID(name)
                #expect(try await store.patch(app, id, attributes: attributes, asOf: asOf) == .missing)
                #expect(try await Self.pruned(fixture) == [])
                #expect(try await fixture.register(name, user: "ann", asOf: past).change == .ignored, "\(name)")
                #expect(try await fixture.register(name, user: "ann", asOf: later).change == .created, "\(name)")
                try await Self.prune(try #require(try await fixture.get(name)), fixture)
                // The user's own time counts: what is older must not give the device back.
                #expect(try await store.patch(app, id, user: "bob", asOf: asOf) == .missing)
                let between = later.advanced(byMilliseconds: 1)
                #expect(try await fixture.register(name, user: "ann", asOf: between).change == .ignored, "\(name)")
            }
            try await fixture.expectClean()
        }
    }

    @Test func `Forgetting a user forgets all devices that could come back`() async throws {
        try await StoreFixture.with { fixture in
            for index in 0..<5 {
                try await Self.prune(try await fixture.register("a-\(index)", user: "ann").device, fixture)
            }
            try await Self.prune(try await fixture.register("bobs", user: "bob").device, fixture)
            try await fixture.register("left", user: "ann")
            let removed = try await fixture.store.deleteUser(fixture.app, UserID("ann"))
            #expect(removed.map(\.id) == ["left"])
            #expect(try await Self.pruned(fixture).map(\.device.id) == ["bobs"])
        }
    }

    @Test func `A removed device that another user had since is not forgotten with the user before`() async throws {
        try await StoreFixture.with { fixture in
            let (store, app) = (fixture.store, fixture.app)
            func noted(_ user: String) async throws -> Int {
                let place = store.calls.placed(app, user)
                let key = store.keys.formerDevices(app, place.partition, ofUser: place.digest)
                let tag = store.keys.tag(place.partition)
                return Int(try await fixture.client.send(RedisCommand("SCARD", .text(key)), on: tag).root.integer ?? -1)
            }
            for user in ["ann", "bob"] {
                try await Self.prune(try await fixture.register("phone", user: user).device, fixture)
            }
            let bobs = try #require(try await store.prunedDevice(app, DeviceID("phone")))
            #expect(bobs.device.record.user == "bob")
            #expect(try await noted("ann") == 1)
            try await store.deleteUser(app, UserID("ann"))
            #expect(try await Self.pruned(fixture).map(\.device) == [bobs.device])
            #expect(try await noted("ann") == 0)
            try await store.deleteUser(app, UserID("bob"))
            #expect(try await Self.pruned(fixture) == [])
            try await fixture.expectClean()
        }
    }

    @Test func `A device of a user that is forgotten before its turn does not come back`() async throws {
        try await StoreFixture.with { fixture in
            let (store, app) = (fixture.store, fixture.app)
            for name in ["anns", "bobs"] {
                try await Self.prune(try await fixture.register(name, user: String(name.dropLast())).device, fixture)
            }
            let pruned = try await Self.pruned(fixture)
            try await store.deleteUser(app, UserID("ann"))
            var results: [String: String] = [:]
            for device in pruned { results[device.device.id] = "\(try await store.restore(device))" }
            #expect(results["anns"] == "forgotten" && results["bobs"]?.hasPrefix("restored") == true)
            // Also when it is forgotten after the last look at it, and before the write.
            let late = try #require(pruned.first { $0.device.id == "anns" }).device
            let written = try await store.write(
                late.record,
                over: nil,
                realm: late.realm,
                home: store.home(of: late),
                stamp: .asOf(late.registeredAt),
                isVerdict: true,
                pruned: late.value,
            )
            #expect(written == nil)
            #expect(try await fixture.get("anns") == nil)
            #expect(try await store.devices(app, ofUser: UserID("ann")) == [])
            try await fixture.expectClean()
        }
    }

    @Test func `A removed device whose record cannot be read keeps no other from coming back`() async throws {
        try await StoreFixture.with(partitions: 1) { fixture in
            var devices: [StoredDevice] = []
            for id in ["one", "two"] {
                devices.append(try await fixture.register(id).device)
                try await Self.prune(devices[devices.count - 1], fixture)
            }
            let owner = fixture.store.home(of: devices[0]).owner
            let key = fixture.store.keys.pruned(fixture.app, .apns, 0, digest: owner.digest)
            let broken = Array(devices[0].value.prefix(RecordHeader.byteCount)) + [0xff]
            let command = RedisCommand("SET", .text(key), .bytes(broken), "KEEPTTL")
            _ = try await fixture.client.send(command, on: fixture.store.keys.tag(0))
            let pruned = try await fixture.store.prunedDevices(fixture.route, 0, in: Self.always)
            #expect(pruned.unreadable == 1 && pruned.devices.map(\.device.id) == ["two"])
            #expect(try await fixture.store.prunedDevice(fixture.app, DeviceID("two"))?.device.id == "two")
        }
    }

    @Test func `A device that registers in another environment does not come back in the one before`() async throws {
        try await StoreFixture.with { fixture in
            try await Self.prune(try await fixture.register("phone", user: "ann").device, fixture)
            #expect(try await Self.pruned(fixture).count == 1)
            try await fixture.register("phone", environment: .sandbox)
            #expect(try await Self.pruned(fixture) == [])
        }
    }

    @Test func `A shorter time for later removals leaves the records of earlier ones reachable`() async throws {
        try await StoreFixture.with(partitions: 1) { fixture in
            for name in ["phone", "tablet"] {
                try await Self.prune(try await fixture.register(name, user: "ann").device, fixture)
            }
            // A removal trims what is older than records are kept.
            try await Task.sleep(for: .milliseconds(5))
            let short = DeviceStore.UndoRules(keepMilliseconds: 1)
            try await Self.prune(try await fixture.register("watch", user: "bob").device, fixture, undo: short)
            let pruned = try await fixture.store.prunedDevices(fixture.route, 0, in: Self.always).devices
            #expect(Set(pruned.map(\.device.id)).subtracting(["watch"]) == ["phone", "tablet"])
            try await fixture.store.deleteUser(fixture.app, UserID("ann"))
            let records = RedisCommand("KEYS", .text("*\(fixture.app):*:pruned:*"))
            try await eventually("no record is left") {
                try await fixture.client.send(records, on: fixture.store.keys.tag(0)).root.count == 0
            }
        }
    }

    @Test func `The functions keep records for as long as Swift allows`() {
        let text = String(decoding: StoreFunctions.source, as: UTF8.self)
        #expect(text.contains("keep_ms_max = \(StoreLimits.undoMillisecondsMax),"))
    }

    @Test func `A removal that cannot be undone keeps no record, and other records expire by themselves`() async throws
    {
        try await StoreFixture.with { fixture in
            let before = try await fixture.redisNow()
            for index in 0..<40 {
                try await Self.prune(
                    try await fixture.register("device-\(index)").device,
                    fixture,
                    undo: index.isMultiple(of: 2) ? nil : DeviceStore.UndoRules(keepMilliseconds: 60_000),
                )
            }
            let pruned = try await Self.pruned(fixture)
            #expect(pruned.count == 20)
            let early = UnixMilliseconds(0)..<before
            for partition in 0..<StoreFixture.partitions {
                #expect(try await fixture.store.prunedDevices(fixture.route, partition, in: early).devices == [])
            }
            let place = fixture.place(Array("device-1".utf8))
            let hexadecimal = Hexadecimal.encode(place.digest)
            let meta = fixture.store.keys.meta(fixture.app, .apns, place.partition)
            let key = String(meta.dropLast("meta".count)) + "pruned:" + hexadecimal
            let left = try await fixture.client.send(
                RedisCommand("PTTL", .text(key)),
                on: fixture.store.keys.tag(place.partition)
            )
            #expect((1...60_000).contains(left.root.integer ?? 0))

            // Beyond the number that may be brought back the oldest go.
            let few = DeviceStore.UndoRules(keepMilliseconds: 60_000, devicesMax: 2 * StoreFixture.partitions)
            for index in 40..<80 {
                try await Self.prune(try await fixture.register("device-\(index)").device, fixture, undo: few)
            }
            let kept = try await Self.pruned(fixture)
            #expect(kept.count <= 2 * StoreFixture.partitions && kept.allSatisfy { !pruned.contains($0) })
        }
    }

    @Test func `A device that registers again while removed ones are read keeps no other from being found`()
        async throws
    {
        try await StoreFixture.with(partitions: 1) { fixture in
            let count = StoreLimits.undoPerCallMax + 2
            for index in 0..<count {
                try await Self.prune(try await fixture.register("device-\(index)").device, fixture)
            }
            let end = Self.always.upperBound
            var cursor = PrunedCursor(from: Self.always.lowerBound)
            let first = try await fixture.store.nextPruned(&cursor, fixture.route, 0, before: end)
            var found = (first?.devices ?? []).map(\.device.id)
            try #require(found.count == StoreLimits.undoPerCallMax)
            try await fixture.register(found[0])
            while let page = try await fixture.store.nextPruned(&cursor, fixture.route, 0, before: end) {
                found += page.devices.map(\.device.id)
            }
            #expect(found.count == count && Set(found).count == count)
        }
    }

    @Test func `A topic that is forgotten while a device comes back gets no number`() async throws {
        try await StoreFixture.with { fixture in
            let topic = try TopicName("gone")
            try await fixture.store.calls.keepTopic(fixture.app, topic)
            #expect(try await fixture.store.topicNumber(fixture.app, topic) == nil)
            try await fixture.expectClean()
        }
    }

    @Test func `Entries of one time that fill a call are left out by their number, and others never`() {
        let limit = StoreLimits.undoPerCallMax
        var cursor = PrunedCursor(from: UnixMilliseconds(5))
        cursor.advance(over: limit, to: 7)
        #expect(cursor.from == 7 && cursor.first == 0 && !cursor.isAtEnd)
        for calls in 1...2 {
            cursor.advance(over: limit, to: 7)
            #expect(cursor.from == 7 && cursor.first == calls * limit && !cursor.isAtEnd)
        }
        cursor.advance(over: limit, to: 9)
        #expect(cursor.from == 9 && cursor.first == 0)
        cursor.advance(over: limit - 1, to: 9)
        #expect(cursor.isAtEnd)
    }

    @Test func `More removed devices than one call reads are all found`() async throws {
        try await StoreFixture.with(partitions: 1) { fixture in
            let count = StoreLimits.undoPerCallMax + 10
            for index in 0..<count {
                try await Self.prune(try await fixture.register("device-\(index)").device, fixture)
            }
            let pruned = try await fixture.store.prunedDevices(fixture.route, 0, in: Self.always).devices
            #expect(Set(pruned.map(\.device.id)).count == count)
        }
    }
}
