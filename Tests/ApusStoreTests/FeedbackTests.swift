import ApusCore
import ApusMessages
import ApusStore
import Testing

/// Tests what a provider's verdict does to a record. The numbers are those of the cases in the articles about the providers.
struct FeedbackTests {
    private static let unregisteredAt = UnixMilliseconds(1_700_000_000_000)

    @Test func aTokenRegisteredBeforeTheVerdictIsPruned() async throws {
        try await StoreFixture.with { fixture in
            let device = try await fixture.register(
                "phone",
                user: "ann",
                topics: ["news"],
                asOf: UnixMilliseconds(1_699_999_999_000),
            ).device
            let digest = DeviceToken.digest(device.record.token)
            func prune() async throws -> VerdictResult {
                try await fixture.store.prune(
                    fixture.route,
                    device.reference,
                    tokenDigest: digest,
                    asOf: Self.unregisteredAt,
                )
            }
            #expect(try await prune() == .applied(device))
            #expect(try await prune() == .gone)
            #expect(try await fixture.expectClean().devices.isEmpty)
        }
    }

    @Test(arguments: [(1_699_999_999_999, true), (1_700_000_000_000, true), (1_700_000_000_001, false)])
    func theMillisecondDecides(_ registeredAt: Int64, _ isPruned: Bool) async throws {
        try await StoreFixture.with { fixture in
            let device = try await fixture.register("phone", asOf: UnixMilliseconds(registeredAt)).device
            let result = try await fixture.store.prune(
                fixture.route,
                device.reference,
                tokenDigest: DeviceToken.digest(device.record.token),
                asOf: Self.unregisteredAt,
            )
            #expect(result == (isPruned ? .applied(device) : .newerRegistration))
            #expect(try await fixture.get("phone") == (isPruned ? nil : device))
            try await fixture.expectClean()
        }
    }

    @Test func aTokenRegisteredTodayOutlivesAnOldVerdict() async throws {
        try await StoreFixture.with { fixture in
            let device = try await fixture.register("phone").device
            let result = try await fixture.store.prune(
                fixture.route,
                device.reference,
                tokenDigest: DeviceToken.digest(device.record.token),
                asOf: Self.unregisteredAt,
            )
            #expect(result == .newerRegistration)
            #expect(try await fixture.get("phone") == device)
        }
    }

    @Test func aTokenMovesToTheEnvironmentThatTakesItAndStays() async throws {
        try await StoreFixture.with { fixture in
            let (store, route) = (fixture.store, fixture.route)
            let device = try await fixture.register("phone", user: "ann", topics: ["news"]).device
            let digest = DeviceToken.digest(device.record.token)
            func learn(_ digest: UInt64) async throws -> VerdictResult {
                try await store.learnEnvironment(route, device.reference, tokenDigest: digest)
            }
            #expect(try await learn(digest) == .unchanged, "nobody suspects it")
            let marked = try await store.markSuspect(
                route,
                device.reference,
                tokenDigest: digest,
                reason: .wrongEnvironment,
                since: UnixMilliseconds(device.registeredAt.value + 1),
            )
            #expect(marked != .unchanged)
            #expect(try await learn(digest &+ 1) == .tokenChanged)
            guard case .applied(let moved) = try await learn(digest) else {
                Issue.record("not moved")
                return
            }
            #expect(moved.realm == Realm(.apns, .sandbox) && moved.record.environment == .sandbox)
            #expect(moved.record.suspicion == nil && moved.record.isEnvironmentLearned)
            #expect(moved.registeredAt == device.registeredAt && moved.record.topics == device.record.topics)
            #expect(try await learn(digest) == .gone)
            #expect(try await fixture.get("phone") == moved)

            let again = try await fixture.register("phone", user: "ann", topics: ["news"])
            #expect(again.device.realm == Realm(.apns, .sandbox), "the app still names production")
            let rotated = try await fixture.register("phone", token: "other", user: "ann", topics: ["news"])
            #expect(rotated.device.realm == .apns && !rotated.device.record.isEnvironmentLearned)
            #expect(try await fixture.expectClean().devices.count == 1)
        }
    }

    @Test func aVerdictAboutAnotherTokenOrHolderDoesNothing() async throws {
        try await StoreFixture.with { fixture in
            let past = UnixMilliseconds(1_600_000_000_000)
            let device = try await fixture.register("phone", token: "old", asOf: past).device
            let digest = DeviceToken.digest(device.record.token)
            let rotated = try await fixture.register(
                "phone",
                token: "new",
                asOf: UnixMilliseconds(past.value + 1),
            ).device
            func prune(_ reference: DeviceReference, _ digest: UInt64) async throws -> VerdictResult {
                try await fixture.store.prune(fixture.route, reference, tokenDigest: digest, asOf: Self.unregisteredAt)
            }
            #expect(try await prune(device.reference, digest) == .tokenChanged)
            var later = device.reference
            later.generation += 1
            #expect(try await prune(later, DeviceToken.digest(rotated.record.token)) == .gone)
            later.ordinal += 1
            #expect(try await prune(later, digest) == .gone)
            later.partition = 4_711
            #expect(try await prune(later, digest) == .gone)
            #expect(try await fixture.get("phone") == rotated)
        }
    }

    @Test func aSuspicionKeepsItsAgeAndEndsWithTheNextRegistration() async throws {
        try await StoreFixture.with { fixture in
            let device = try await fixture.register("phone").device
            let digest = DeviceToken.digest(device.record.token)
            let since = device.registeredAt.advanced(byMilliseconds: 60_000)
            func mark(_ since: UnixMilliseconds) async throws -> VerdictResult {
                try await fixture.store.markSuspect(
                    fixture.route,
                    device.reference,
                    tokenDigest: digest,
                    reason: .badToken,
                    since: since,
                )
            }
            guard case .applied(let marked) = try await mark(since) else { throw Unexpected() }
            #expect(marked.record.suspicion == DeviceRecord.Suspicion(since: since, reason: .badToken))
            #expect(marked.registeredAt == device.registeredAt)
            #expect(try await mark(since.advanced(byMilliseconds: 1)) == .unchanged)
            #expect(try await mark(device.registeredAt.advanced(byMilliseconds: -1)) == .newerRegistration)

            let cleared = try await fixture.store.clearSuspect(fixture.route, device.reference, tokenDigest: digest)
            guard case .applied(let clean) = cleared else { throw Unexpected() }
            #expect(clean.record.suspicion == nil)
            #expect(
                try await fixture.store.clearSuspect(fixture.route, device.reference, tokenDigest: digest) == .unchanged
            )
            _ = try await mark(since)
            let again = try await fixture.register("phone")
            #expect(again.change == .updated && again.device.record.suspicion == nil)
        }
    }

    @Test func `A device is not deleted for an old suspicion while only a message was refused`() async throws {
        try await StoreFixture.with { fixture in
            let (store, route) = (fixture.store, fixture.route)
            let device = try await fixture.register("phone").device
            let (reference, digest) = (device.reference, DeviceToken.digest(device.record.token))
            let since = device.registeredAt.advanced(byMilliseconds: 1)
            let reason = Reason.badToken
            _ = try await store.markSuspect(route, reference, tokenDigest: digest, reason: reason, since: since)
            _ = try await fixture.register("phone")
            _ = try await store.noteRefusal(
                route,
                reference,
                tokenDigest: digest,
                since: UnixMilliseconds(since.value + 3_600_000)
            )
            #expect(try await fixture.get("phone")?.record.suspicion?.reason == DeviceRecord.Suspicion.refusedMessage)
            #expect(try await store.pruneSuspect(route, reference, tokenDigest: digest) == .unchanged)
            #expect(try await store.learnEnvironment(route, reference, tokenDigest: digest) == .unchanged)
            #expect(try await fixture.get("phone") != nil)
        }
    }

    @Test func aVerdictOnALiveActivitysTokenLeavesItsDevice() async throws {
        try await StoreFixture.with { fixture in
            let device = try await fixture.register("phone", user: "ann", topics: ["news"]).device
            let (store, route, now) = (fixture.store, fixture.route, device.registeredAt)
            func put(_ activity: String, _ token: [UInt8]) async throws {
                var address = DeviceRecord.SecondaryAddress(kind: .liveActivityUpdate, token: token)
                address.activityID = activity
                _ = try await store.putAddress(fixture.app, try DeviceID("phone"), address)
            }
            func addresses() async throws -> [String: Bool] {
                let record = try #require(try await fixture.get("phone")).record
                #expect(record.suspicion == nil && record.token == device.record.token)
                return Dictionary(uniqueKeysWithValues: record.secondary.map { ($0.activityID, $0.isSuspect) })
            }
            func mark(_ token: [UInt8]) async throws -> VerdictResult {
                try await store.markSuspect(
                    route,
                    device.reference,
                    tokenDigest: DeviceToken.digest(token),
                    reason: .badToken,
                    since: now.advanced(byMilliseconds: 60_000),
                )
            }
            func prune(_ token: [UInt8]) async throws -> VerdictResult {
                try await store.pruneSuspect(route, device.reference, tokenDigest: DeviceToken.digest(token))
            }
            try await put("one", [1])
            try await put("two", [2])
            #expect(try await prune([1]) == .unchanged)
            #expect(try await prune([3]) == .tokenChanged)
            _ = try await mark([1])
            #expect(try await mark([1]) == .unchanged)
            #expect(try await addresses() == ["one": true, "two": false])
            let digest = DeviceToken.digest([1])
            _ = try await store.clearSuspect(route, device.reference, tokenDigest: digest)
            #expect(try await addresses() == ["one": false, "two": false])
            _ = try await mark([1])
            try await put("one", [1])
            #expect(try await addresses() == ["one": false, "two": false], "it was said again")
            _ = try await mark([1])
            _ = try await prune([1])
            #expect(try await addresses() == ["two": false])
            let dead = try await store.prune(
                route,
                device.reference,
                tokenDigest: DeviceToken.digest([2]),
                asOf: now.advanced(byMilliseconds: 60_000),
            )
            #expect(dead != .tokenChanged)
            #expect(try await addresses() == [:])
            #expect(try await fixture.expectClean().devices.count == 1)
        }
    }

    @Test func `A verdict that was due for an ended suspicion does nothing to the one that began after it`()
        async throws
    {
        try await StoreFixture.with { fixture in
            let (store, route) = (fixture.store, fixture.route)
            let device = try await fixture.register("phone").device
            let digest = DeviceToken.digest(device.record.token)
            let (first, second) = (
                device.registeredAt.advanced(byMilliseconds: 60_000),
                device.registeredAt.advanced(byMilliseconds: 600_000)
            )
            func mark(_ since: UnixMilliseconds) async throws {
                _ = try await store.markSuspect(
                    route,
                    device.reference,
                    tokenDigest: digest,
                    reason: .badToken,
                    since: since
                )
            }
            func prune(_ since: UnixMilliseconds) async throws -> VerdictResult {
                try await store.pruneSuspect(route, device.reference, tokenDigest: digest, since: since)
            }
            try await mark(first)
            _ = try await store.clearSuspect(route, device.reference, tokenDigest: digest)
            try await mark(second)
            #expect(try await prune(first) == .unchanged)
            #expect(
                try await store.learnEnvironment(route, device.reference, tokenDigest: digest, since: first)
                    == .unchanged
            )
            guard case .applied = try await prune(second) else { throw Unexpected() }
            #expect(try await fixture.get("phone") == nil)
        }
    }

    @Test("D16 D17 a Live Activity's token goes by when it was registered itself, not by when its device was")
    func addressesHaveTheirOwnTime() async throws {
        try await StoreFixture.with { fixture in
            let device = try await fixture.register("phone").device
            let (store, route) = (fixture.store, fixture.route)
            let registered = device.registeredAt.advanced(byMilliseconds: 3_600_000)
            var address = DeviceRecord.SecondaryAddress(kind: .liveActivityUpdate, token: [1])
            address.activityID = "game"
            address.registeredAt = registered
            _ = try await store.putAddress(fixture.app, try DeviceID("phone"), address)
            func prune(_ milliseconds: Int64) async throws -> VerdictResult {
                try await store.prune(
                    route,
                    device.reference,
                    tokenDigest: DeviceToken.digest([1]),
                    asOf: registered.advanced(byMilliseconds: milliseconds),
                )
            }
            #expect(try await prune(-1) == .newerRegistration)
            let early = try await store.markSuspect(
                route,
                device.reference,
                tokenDigest: DeviceToken.digest([1]),
                reason: .badToken,
                since: registered.advanced(byMilliseconds: -1),
            )
            #expect(early == .newerRegistration)
            var older = address
            older.token = [2]
            older.registeredAt = registered.advanced(byMilliseconds: -1)
            _ = try await store.putAddress(fixture.app, try DeviceID("phone"), older)
            #expect(try await fixture.get("phone")?.record.secondary == [address], "what is older replaces nothing")
            guard case .applied = try await prune(0) else { throw Unexpected() }
            #expect(try await fixture.get("phone")?.record.secondary == [])

            address.registeredAt = UnixMilliseconds(0)
            let before = store.now
            _ = try await store.putAddress(fixture.app, try DeviceID("phone"), address)
            let stored = try #require(try await fixture.get("phone")?.record.secondary.first)
            #expect((before...store.now).contains(stored.registeredAt), "who says no time is registered now")
        }
    }

    @Test func aLiveActivitysTokenIsMovedAloneToWhereItIsTaken() async throws {
        try await StoreFixture.with { fixture in
            let device = try await fixture.register("phone").device
            let (store, route) = (fixture.store, fixture.route)
            func put(_ activity: String, _ token: [UInt8]) async throws {
                var address = DeviceRecord.SecondaryAddress(kind: .liveActivityUpdate, token: token)
                address.activityID = activity
                _ = try await store.putAddress(fixture.app, try DeviceID("phone"), address)
            }
            func learn(_ token: [UInt8]) async throws -> VerdictResult {
                try await store.learnEnvironment(
                    route,
                    device.reference,
                    tokenDigest: DeviceToken.digest(token),
                )
            }
            func elsewhere() async throws -> [String: Bool] {
                let device = try #require(try await fixture.get("phone"))
                #expect(device.realm == .apns && device.record.suspicion == nil)
                return Dictionary(
                    uniqueKeysWithValues: device.record.secondary.map { ($0.activityID, $0.isOfOtherEnvironment) }
                )
            }
            try await put("one", [1])
            try await put("two", [2])
            let marked = try await store.markSuspect(
                route,
                device.reference,
                tokenDigest: DeviceToken.digest([1]),
                reason: .wrongEnvironment,
                since: device.registeredAt.advanced(byMilliseconds: 60_000),
            )
            #expect(marked == .unchanged)
            #expect(try await elsewhere() == ["one": false, "two": false], "until the guard has waited")
            guard case .applied = try await learn([1]) else { throw Unexpected() }
            #expect(try await learn([1]) == .unchanged)
            #expect(try await learn([3]) == .tokenChanged)
            #expect(try await elsewhere() == ["one": true, "two": false])
            try await put("one", [1])
            #expect(try await elsewhere() == ["one": true, "two": false], "the same token stays where it is taken")
            try await put("one", [4])
            #expect(try await elsewhere() == ["one": false, "two": false], "another is tried at home first")

            // The device moves after all: what was elsewhere is at home there.
            guard case .applied = try await learn([4]) else { throw Unexpected() }
            _ = try await store.markSuspect(
                route,
                device.reference,
                tokenDigest: DeviceToken.digest(device.record.token),
                reason: .wrongEnvironment,
                since: device.registeredAt.advanced(byMilliseconds: 60_000),
            )
            guard case .applied(let moved) = try await learn(device.record.token) else { throw Unexpected() }
            #expect(moved.realm == Realm(.apns, .sandbox))
            #expect(moved.record.secondary.map(\.isOfOtherEnvironment) == [false, false])
        }
    }

    @Test func aSuspectIsRemovedOnlyWhileItIsOne() async throws {
        try await StoreFixture.with { fixture in
            let device = try await fixture.register("phone", user: "ann", topics: ["news"]).device
            let digest = DeviceToken.digest(device.record.token)
            func prune(_ digest: UInt64) async throws -> VerdictResult {
                try await fixture.store.pruneSuspect(fixture.route, device.reference, tokenDigest: digest)
            }
            func mark() async throws -> VerdictResult {
                try await fixture.store.markSuspect(
                    fixture.route,
                    device.reference,
                    tokenDigest: digest,
                    reason: .badToken,
                    since: device.registeredAt.advanced(byMilliseconds: 60_000),
                )
            }
            #expect(try await prune(digest) == .unchanged)
            _ = try await mark()
            try await fixture.register("phone")
            #expect(try await prune(digest) == .unchanged)
            guard case .applied(let marked) = try await mark() else { throw Unexpected() }
            #expect(try await prune(digest &+ 1) == .tokenChanged)
            #expect(try await prune(digest) == .applied(marked))
            #expect(try await prune(digest) == .gone)
            #expect(try await fixture.expectClean().devices.isEmpty)
        }
    }
}
