import ApusCore
import ApusMessages
import ApusRedis
import ApusTestKit
import Testing

@testable import ApusStore

struct RegisterTests {
    @Test func aDeviceIsCreatedFoundAndForgotten() async throws {
        try await StoreFixture.with { fixture in
            let created = try await fixture.register("phone", user: "ann", topics: ["news", "sport"])
            #expect(created.change == .created)
            let found = try #require(try await fixture.get("phone"))
            #expect(found == created.device)
            #expect(found.record.token == Hexadecimal.decode(StoreFixture.token("phone")))
            #expect(try await fixture.topics(found) == ["news", "sport"])
            #expect(try await fixture.store.devices(fixture.app, ofUser: UserID("ann")) == [found])
            try await fixture.expectClean()

            #expect(try await fixture.store.delete(fixture.app, DeviceID("phone")) == .deleted(found))
            #expect(try await fixture.store.delete(fixture.app, DeviceID("phone")) == .missing)
            #expect(try await fixture.get("phone") == nil)
            #expect(try await fixture.store.devices(fixture.app, ofUser: UserID("ann")) == [])
            #expect(try await fixture.expectClean().devices.isEmpty)
        }
    }

    @Test func theSameAgainIsAnsweredWithoutAWriteForAMinuteAndThenWritesItsTime() async throws {
        try await StoreFixture.with { fixture in
            let now = try await fixture.redisNow()
            func register(_ device: String, before milliseconds: Int64? = nil) async throws -> RegisterResult {
                let asOf = milliseconds.map { now.advanced(byMilliseconds: -$0) }
                return try await fixture.register(device, user: "ann", topics: ["news"], asOf: asOf)
            }
            let fresh = try await register("fresh", before: StoreLimits.freshMilliseconds / 2)
            #expect(try await register("fresh") == RegisterResult(change: .unchanged, device: fresh.device))
            let first = try await register("phone", before: 25 * 3_600_000)
            let again = try await register("phone", before: 25 * 3_600_000 - StoreLimits.freshMilliseconds)
            #expect(again.change == .unchanged && again.device.record == first.device.record)
            #expect(again.device.registeredAt > first.device.registeredAt)
            #expect(again.device.etag != first.device.etag)
            let later = try await register("phone", before: 3_600_000)
            #expect(later.change == .updated)
            #expect(later.device.record.seenAtHours == first.device.record.seenAtHours + 24)
            #expect(later.device.registeredAt > first.device.registeredAt)
            #expect(later.device.record.topics == first.device.record.topics)
        }
    }

    @Test func `What is older than the last change is ignored, also when that changed nothing`() async throws {
        try await StoreFixture.with { fixture in
            let (store, app, phone) = (fixture.store, fixture.app, try DeviceID("phone"))
            let past = UnixMilliseconds(1_700_000_000_000)
            func time(_ seconds: Int64) -> UnixMilliseconds { past.advanced(byMilliseconds: seconds * 1_000) }
            try await fixture.register("phone", user: "ann", asOf: time(0))
            _ = try await store.bindUser(app, phone, UserID("bob"), asOf: time(2))
            let bound = try #require(try await fixture.get("phone"))
            #expect(try await store.bindUser(app, phone, UserID("ann"), asOf: time(1)) == .ignored(bound))
            let late = try await fixture.register("phone", token: "old", user: "ann", asOf: time(1))
            #expect(late == RegisterResult(change: .ignored, device: bound))
            #expect(try await store.delete(app, phone, asOf: time(1)) == .ignored(bound))
            // It is bob's already, and stays so.
            _ = try await store.bindUser(app, phone, UserID("bob"), asOf: time(4))
            let still = try #require(try await fixture.get("phone"))
            #expect(try await store.unbindUser(app, phone, asOf: time(3)) == .ignored(still))
            // A registration has a time itself, and needs no other.
            try await fixture.register("phone", user: "cleo", asOf: time(5))
            let found = try #require(try await fixture.get("phone"))
            #expect(found.record.user == "cleo" && found.changedAt == time(5) && found.record.changedAt.value == 0)
            try await fixture.expectClean()
        }
    }

    @Test func `A line of an import that only creates a device takes no token from another one`() async throws {
        try await StoreFixture.with { fixture in
            func register(_ device: String, token: String) async throws -> RegisterResult.Change {
                let token = StoreFixture.token(token)
                var registration = DeviceRegistration(device: device, provider: .apns, token: token)
                registration.user = "ann"
                let results = await fixture.store.register(fixture.app, [registration], importing: [.newDevice])
                return try results[0].get().change
            }
            let owner = try await fixture.register("owner", token: "t").device
            #expect(try await register("phone", token: "t") == .ignored)
            #expect(try await fixture.get("phone") == nil)
            #expect(try await fixture.get("owner") == owner)
            // Nothing of it is left.
            try await fixture.expectClean()
            #expect(try await register("phone", token: "free") == .created)
            #expect(try await fixture.get("phone")?.record.user == "ann")
            await #expect { try await register("phone", token: "new") } throws: { isCode($0, .preconditionFailed) }
            try await fixture.expectClean()
        }
    }

    @Test func `A registration that is older than a removal does not bring the device back`() async throws {
        try await StoreFixture.with { fixture in
            let (store, app, phone) = (fixture.store, fixture.app, try DeviceID("phone"))
            let past = UnixMilliseconds(1_700_000_000_000)
            try await fixture.register("phone", user: "ann", asOf: past)
            _ = try await store.delete(app, phone, asOf: past.advanced(byMilliseconds: 2))
            let late = try await fixture.register("phone", user: "ann", asOf: past.advanced(byMilliseconds: 1))
            #expect(late.change == .ignored)
            #expect(try await fixture.get("phone") == nil)
            // Nothing of it is left.
            try await fixture.expectClean()
            let next = try await fixture.register("phone", user: "ann", asOf: past.advanced(byMilliseconds: 2))
            #expect(next.change == .created)
            try await fixture.expectClean()
        }
    }

    @Test func `A registration that is older than the removal of a device that was not there does not make it`()
        async throws
    {
        try await StoreFixture.with { fixture in
            let (store, app, phone) = (fixture.store, fixture.app, try DeviceID("phone"))
            let past = UnixMilliseconds(1_700_000_000_000)
            func time(_ milliseconds: Int64) -> UnixMilliseconds { past.advanced(byMilliseconds: milliseconds) }
            #expect(try await store.delete(app, phone, asOf: time(3)) == .missing)
            // An older removal does not shorten it.
            #expect(try await store.delete(app, phone, asOf: time(1)) == .missing)
            #expect(try await fixture.register("phone", user: "ann", asOf: time(2)).change == .ignored)
            #expect(try await fixture.get("phone") == nil)
            try await fixture.expectClean()
            #expect(try await fixture.register("phone", user: "ann", asOf: time(3)).change == .created)
            // One of no time is of now, and leaves no trace.
            #expect(try await store.delete(app, DeviceID("tablet")) == .missing)
            #expect(try await fixture.register("tablet", asOf: past).change == .created)
            try await fixture.expectClean()
        }
    }

    @Test func `Forgetting a user keeps out no late command by which the device had become another's before`()
        async throws
    {
        try await StoreFixture.with { fixture in
            let (store, app, ann) = (fixture.store, fixture.app, try UserID("ann"))
            let past = UnixMilliseconds(1_700_000_000_000)
            func time(_ milliseconds: Int64) -> UnixMilliseconds { past.advanced(byMilliseconds: milliseconds) }
            try await fixture.register("phone", user: "ann", asOf: time(0))
            #expect(try await store.deleteDevices(app, ofUser: ann, asOf: time(3)).map(\.id) == ["phone"])
            // The same once more, and one that comes late.
            #expect(try await fixture.register("phone", user: "ann", asOf: time(0)).change == .ignored)
            #expect(try await fixture.register("phone", user: "bob", asOf: time(2)).change == .created)
            #expect(try await fixture.get("phone")?.record.user == "bob")
            #expect(try await store.deleteDevices(app, ofUser: ann, asOf: time(3)) == [])
            #expect(try await fixture.get("phone")?.record.user == "bob")
        }
    }

    @Test func `A registration or log-in that is older than the removal of its user leaves the user no device`()
        async throws
    {
        try await StoreFixture.with { fixture in
            let (store, app, ann) = (fixture.store, fixture.app, try UserID("ann"))
            let past = UnixMilliseconds(1_700_000_000_000)
            func time(_ milliseconds: Int64) -> UnixMilliseconds { past.advanced(byMilliseconds: milliseconds) }
            try await fixture.register("tablet", user: "bob", asOf: time(0))
            #expect(try await store.deleteDevices(app, ofUser: ann, asOf: time(3)) == [])
            // An older removal does not shorten it.
            #expect(try await store.deleteDevices(app, ofUser: ann, asOf: time(1)) == [])
            #expect(try await fixture.register("phone", user: "ann", asOf: time(2)).change == .ignored)
            // The tablet is bob's no longer, and ann, who may have logged out before being forgotten, is not noted anywhere.
            for _ in 0..<2 {
                let late = try await store.bindUser(app, DeviceID("tablet"), ann, asOf: time(2))
                let tablet = try #require(try await fixture.get("tablet"))
                #expect(late == .ignored(tablet) && tablet.record.user.isEmpty && tablet.changedAt == time(2))
            }
            #expect(try await fixture.expectClean().devices.count == 1)
            // One that is older still does not give it back.
            #expect(try await fixture.register("tablet", user: "bob", asOf: time(0)).change == .ignored)
            #expect(try await fixture.register("tablet", user: "bob", asOf: time(2)).change == .updated)
            #expect(try await fixture.register("phone", user: "ann", asOf: time(3)).change == .created)
            #expect(try await fixture.register("watch", user: "ann").change == .created)
            try await fixture.expectClean()
        }
    }

    @Test func `A user who is forgotten while an older registration or log-in is on its way keeps no device`()
        async throws
    {
        try await StoreFixture.with { fixture in
            let (store, app, ann) = (fixture.store, fixture.app, try UserID("ann"))
            let past = UnixMilliseconds(1_700_000_000_000)
            let later = past.advanced(byMilliseconds: 1)
            let device = try await fixture.register("phone", user: "ann", asOf: past).device
            // The removal has not found the device: its record was written after that.
            let placed = store.calls.placed(app, "ann")
            try await store.calls.noteRemoval(app, ofUser: placed, asOf: later)
            let repeated = try await fixture.register("phone", user: "ann", asOf: past)
            #expect(repeated.change == .ignored && repeated.device.record == device.record)
            #expect(try await fixture.expectClean().devices.isEmpty)
            #expect(try await store.devices(app, ofUser: ann) == [])
            // One that was given to the user before, as the record says.
            let tablet = try await fixture.register("tablet", user: "ann", asOf: later).device
            try await store.calls.noteRemoval(app, ofUser: placed, asOf: later.advanced(byMilliseconds: 1))
            #expect(try await store.bindUser(app, DeviceID("tablet"), ann, asOf: later) == .ignored(tablet))
            #expect(try await fixture.expectClean().devices.isEmpty)
        }
    }

    @Test func `An older registration takes no token, and does not bring back who has lost it`() async throws {
        try await StoreFixture.with { fixture in
            let past = UnixMilliseconds(1_700_000_000_000)
            func time(_ milliseconds: Int64) -> UnixMilliseconds { past.advanced(byMilliseconds: milliseconds) }
            try await fixture.register("phone", token: "one", user: "ann", asOf: time(0))
            let tablet = try await fixture.register("tablet", token: "one", user: "bob", asOf: time(2))
            #expect(try await fixture.get("phone") == nil)
            #expect(try await fixture.register("phone", token: "one", asOf: time(1)).change == .ignored)
            #expect(try await fixture.register("watch", token: "one", asOf: time(1)).change == .ignored)
            #expect(try await fixture.register("phone", token: "two", asOf: time(1)).change == .ignored)
            #expect(try await fixture.get("phone") == nil)
            #expect(try await fixture.get("tablet") == tablet.device)
            let check = try await fixture.expectClean()
            #expect(check.devices.count == 1)
        }
    }

    @Test func `An older registration does not bring back who has lost the token to one without a time`() async throws {
        try await StoreFixture.with { fixture in
            let past = UnixMilliseconds(1_700_000_000_000)
            try await fixture.register("phone", token: "one", user: "ann", asOf: past)
            try await fixture.register("tablet", token: "one", user: "bob")
            try await fixture.register("tablet", token: "two", user: "bob")
            #expect(try await fixture.register("phone", token: "one", user: "ann", asOf: past).change == .ignored)
            #expect(try await fixture.expectClean().devices.keys.sorted() == ["tablet"])
            #expect(try await fixture.register("phone", token: "one", user: "ann").change == .created)
            try await fixture.expectClean()
        }
    }

    @Test(arguments: [-3_600_000, 3_600_000] as [Int64])
    func `A wrong local clock neither hides a registration nor causes an extra write`(
        isWrongBy milliseconds: Int64
    ) async throws {
        try await StoreFixture.with { fixture in
            let now = try await fixture.redisNow()
            let old = now.advanced(byMilliseconds: -2 * StoreLimits.freshMilliseconds)
            let first = try await fixture.register("phone", asOf: old)
            let fresh = try await fixture.register("tablet")
            fixture.clock.advance(byMilliseconds: milliseconds)
            let again = try await fixture.register("phone")
            #expect(first.device.registeredAt == old && again.device.registeredAt >= now)
            #expect(try await fixture.register("tablet").device.registeredAt == fresh.device.registeredAt)
        }
    }

    @Test func `An unchanged registration writes its time when Redis' clock was set back`() async throws {
        try await StoreFixture.with { fixture in
            let device = try await fixture.register("phone").device
            // Before its clock was set back, Redis has stamped the registration with a time that is to come now.
            let ahead = device.registeredAt.advanced(byMilliseconds: 3_600_000)
            let header = RecordHeader(registeredAt: ahead, generation: device.reference.generation)
            let (partition, ordinal) = (Int(device.reference.partition), Int(device.reference.ordinal))
            let slab = fixture.store.keys.slab(fixture.app, .apns, partition, ordinal / StoreLimits.slabOrdinals)
            let write = RedisCommand(
                "HSET",
                .text(slab),
                .integer(ordinal % StoreLimits.slabOrdinals),
                .bytes(header.bytes + device.value.dropFirst(RecordHeader.byteCount)),
            )
            _ = try await fixture.client.send(write, on: fixture.store.keys.tag(partition))
            #expect(try #require(try await fixture.get("phone")).registeredAt == ahead)
            let again = try await fixture.register("phone")
            #expect(again.change == .unchanged && again.device.registeredAt < ahead)
            #expect(try #require(try await fixture.get("phone")) == again.device)
            try await fixture.expectClean()
        }
    }

    @Test func aNewTokenKeepsTopicsAttributesAndPlace() async throws {
        try await StoreFixture.with { fixture in
            var registration = DeviceRegistration(
                device: "phone",
                provider: .apns,
                token: StoreFixture.token("one"),
            )
            registration.topics = ["news"]
            registration.attributes.locale = "de-CH"
            registration.attributes.tags = ["beta"]
            let first = try await fixture.store.register(fixture.app, registration)
            let second = try await fixture.register("phone", token: "two")
            #expect(second.change == .tokenReplaced)
            #expect(second.device.reference == first.device.reference)
            #expect(second.device.record.topics == first.device.record.topics)
            #expect(second.device.record.attributes == registration.attributes)
            try await fixture.expectClean()
        }
    }

    @Test func anotherEnvironmentOrProviderIsAnotherPlace() async throws {
        try await StoreFixture.with { fixture in
            try await fixture.register("phone", user: "ann", topics: ["news"])
            let sandbox = try await fixture.register("phone", token: "sand", user: "ann", environment: .sandbox)
            #expect(sandbox.change == .tokenReplaced)
            #expect(sandbox.device.realm == Realm(.apns, .sandbox))
            #expect(sandbox.device.record.environment == .sandbox)
            try await fixture.expectClean()
            var registration = DeviceRegistration(device: "phone", provider: .fcm, token: "fcm-token")
            registration.user = "ann"
            let fcm = try await fixture.store.register(fixture.app, registration)
            #expect(fcm.change == .tokenReplaced && fcm.device.realm == .fcm)
            #expect(try await fixture.topics(fcm.device) == ["news"])
            #expect(try await fixture.store.devices(fixture.app, ofUser: UserID("ann")) == [fcm.device])
            let check = try await fixture.expectClean()
            #expect(check.devices.count == 1)
        }
    }

    @Test func whatWasMeantBeforeTheRegistrationIsIgnored() async throws {
        try await StoreFixture.with { fixture in
            let past = UnixMilliseconds(1_700_000_000_000)
            let first = try await fixture.register("phone", asOf: past)
            #expect(first.device.registeredAt == past)
            let late = try await fixture.register("phone", token: "old", asOf: UnixMilliseconds(past.value - 1))
            #expect(late == RegisterResult(change: .ignored, device: first.device))
            let id = try DeviceID("phone")
            let before = UnixMilliseconds(past.value - 1)
            let store = fixture.store
            #expect(try await store.delete(fixture.app, id, asOf: before) == .ignored(first.device))
            #expect(
                try await store.subscribe(fixture.app, id, to: ["news"], asOf: before) == .ignored(first.device)
            )
            #expect(try await store.bindUser(fixture.app, id, UserID("ann"), asOf: before) == .ignored(first.device))
            // Nothing registers in the future.
            let tomorrow = fixture.clock.now().advanced(byMilliseconds: 86_400_000)
            let next = try await fixture.register("phone", token: "new", asOf: tomorrow)
            #expect(next.device.registeredAt < tomorrow)
        }
    }

    @Test func conditionsHoldOrNothingHappens() async throws {
        try await StoreFixture.with { fixture in
            let registration = DeviceRegistration(device: "phone", provider: .apns, token: StoreFixture.token("a"))
            func register(_ condition: DeviceCondition) async throws -> RegisterResult {
                try await fixture.store.register(fixture.app, registration, condition: condition)
            }
            await #expect { try await register(.exists) } throws: { isCode($0, .preconditionFailed) }
            let device = try await register(.absent).device
            await #expect { try await register(.absent) } throws: { isCode($0, .preconditionFailed) }
            #expect(try await register(.matches([device.etag])).change == .unchanged)
            await #expect { try await register(.matches(["\"0\""])) } throws: { isCode($0, .preconditionFailed) }
            let id = try DeviceID("phone")
            let changed = try await fixture.store.patch(
                fixture.app,
                id,
                user: "ann",
                condition: .matches(["\"0\"", device.etag]),
            )
            guard case .changed(let now) = changed else {
                Issue.record("not changed: \(changed)")
                return
            }
            #expect(now.etag != device.etag)
            await #expect {
                try await fixture.store.delete(fixture.app, id, condition: .matches([device.etag]))
            } throws: {
                isCode($0, .preconditionFailed)
            }
            #expect(try await fixture.store.delete(fixture.app, id, condition: .exists) == .deleted(now))
        }
    }

    @Test func `A line of an import brings a later log-out or log-in, and undoes none that came after it`() async throws
    {
        try await StoreFixture.with { fixture in
            let (store, app, id) = (fixture.store, fixture.app, try DeviceID("phone"))
            let past = UnixMilliseconds(1_700_000_000_000)
            func take(_ user: String, changedAfter milliseconds: Int64?) async throws -> RegisterResult.Change {
                var registration = DeviceRegistration(device: "phone", provider: .apns, token: StoreFixture.token("t"))
                registration.user = user
                let results = await store.register(
                    app,
                    [registration],
                    asOf: [past],
                    changedAt: [milliseconds.map { past.advanced(byMilliseconds: $0) }],
                    importing: [.whole],
                )
                return try results[0].get().change
            }
            #expect(try await take("ann", changedAfter: nil) == .created)
            #expect(try await take("", changedAfter: 1) == .updated)
            let left = try #require(try await fixture.get("phone"))
            #expect(left.record.user.isEmpty && left.registeredAt == past)
            #expect(left.changedAt == past.advanced(byMilliseconds: 1))
            // The same line, and that of an older export.
            #expect(try await take("", changedAfter: 1) == .ignored)
            #expect(try await take("ann", changedAfter: nil) == .ignored)
            #expect(try await fixture.get("phone") == left)

            #expect(try await take("bob", changedAfter: 2) == .updated)
            #expect(try await fixture.get("phone")?.record.user == "bob")
            guard case .changed = try await store.unbindUser(app, id) else {
                Issue.record("it was not logged out")
                return
            }
            #expect(try await take("bob", changedAfter: 3) == .ignored)
            #expect(try await fixture.get("phone")?.record.user == "")
            // A newer registration keeps its token, whatever was changed after it.
            try await fixture.register("phone", token: "new", user: "bob")
            #expect(try await take("", changedAfter: 1 << 40) == .ignored)
            try await fixture.expectClean()
        }
    }

    @Test func badNamesAndTokensAreRefused() async throws {
        try await StoreFixture.with { fixture in
            func code(_ change: (inout DeviceRegistration) -> Void) async -> StoreError.Code? {
                var registration = DeviceRegistration(device: "phone", provider: .apns, token: "00")
                change(&registration)
                do {
                    _ = try await fixture.store.register(fixture.app, registration)
                    return nil
                } catch {
                    return error.code
                }
            }
            #expect(await code { $0.token = "no hex" } == .invalidToken)
            #expect(await code { $0.device = "a b" } == .invalidRegistration)
            #expect(await code { $0.user = String(repeating: "u", count: 129) } == .invalidRegistration)
            #expect(await code { $0.topics = ["a b"] } == .invalidRegistration)
            #expect(await code { $0.topics = (0...100).map { "t\($0)" } } == .tooManyTopics)
            #expect(await code { $0.attributes.tags = (0...64).map { "t\($0)" } } == .invalidRegistration)
            let phone = try await fixture.get("phone")
            #expect(phone == nil)
            #expect(await code { $0.topics = (0..<100).map { "t\($0)" } } == nil)
        }
    }

    @Test func twoAppsNeverMeet() async throws {
        try await StoreFixture.with { one in
            try await StoreFixture.with { other in
                let first = try await one.register("phone", token: "same", user: "ann", topics: ["news"])
                let second = try await other.register("phone", token: "same", user: "ann", topics: ["news"])
                #expect(second.change == .created)
                #expect(try await one.get("phone") == first.device)
                #expect(try await one.store.devices(one.app, ofUser: UserID("ann")) == [first.device])
                _ = try await other.store.deleteUser(other.app, UserID("ann"))
                #expect(try await one.get("phone") == first.device)
                #expect(try await other.get("phone") == nil)
                let expression = TopicExpression.everyone
                let partition = Int(first.device.reference.partition)
                #expect(try await one.store.audience(one.route, partition, chunks: 0..<1, expression)[0].count == 1)
                #expect(try await one.store.audience(other.route, partition, chunks: 0..<1, expression)[0].isEmpty)
                try await one.expectClean()
                try await other.expectClean()
            }
        }
    }
}

func isCode(_ error: any Error, _ code: StoreError.Code) -> Bool { (error as? StoreError)?.code == code }
