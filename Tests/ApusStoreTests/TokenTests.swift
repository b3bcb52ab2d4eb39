import ApusCore
import ApusMessages
import ApusRedis
import Synchronization
import Testing

@testable import ApusStore

/// A token changes hands in steps: claim, clear the old owner, write the new one, confirm. A crash may come after each.
struct TokenTests {
    @Test func aTokenBelongsToWhoRegisteredItLast() async throws {
        try await StoreFixture.with { fixture in
            try await fixture.register("old", token: "t", user: "ann", topics: ["news"])
            let new = try await fixture.register("new", token: "t", user: "bob")
            #expect(new.change == .created)
            #expect(try await fixture.get("old") == nil)
            #expect(try await fixture.store.devices(fixture.app, ofUser: UserID("ann")).isEmpty)
            #expect(try await fixture.expectClean().devices.count == 1)
            // And back.
            try await fixture.register("old", token: "t")
            #expect(try await fixture.get("new") == nil)
            #expect(try await fixture.expectClean().devices.count == 1)
        }
    }

    @Test func aTokenLeftBehindIsFree() async throws {
        try await StoreFixture.with { fixture in
            try await fixture.register("one", token: "a")
            try await fixture.register("one", token: "b")
            try await fixture.register("two", token: "a")
            #expect(try await fixture.expectClean().devices.count == 2)
            try await fixture.register("one", token: "a")
            #expect(try await fixture.expectClean().devices.count == 1)
        }
    }

    /// The step at which the first claimer died.
    enum Step: Int, CaseIterable {
        case claimed
        case cleared
        case written
    }

    /// The process that continues.
    enum Next: CaseIterable {
        case theClaimer
        case theOldOwner
        case anotherDevice
        case theJanitor
    }

    @Test(arguments: Step.allCases, Next.allCases)
    func whoeverComesNextFinishesAClaim(_ step: Step, _ next: Next) async throws {
        try await StoreFixture.with { fixture in
            try await fixture.register("old", token: "t", user: "ann", topics: ["news"])
            try await CrashedClaimer(fixture, device: "new", token: "t", over: "old").go(until: step)
            switch next {
            case .theClaimer:
                try await fixture.register("new", token: "t")
                #expect(try await fixture.get("old") == nil)
            case .theOldOwner:
                try await fixture.register("old", token: "t", user: "ann")
                #expect(try await fixture.get("new") == nil)
            case .anotherDevice:
                try await fixture.register("third", token: "t")
                #expect(try await fixture.get("old") == nil)
                #expect(try await fixture.get("new") == nil)
            case .theJanitor:
                break
            }
            // No record is wrong, whatever hints the claimer left; those are the janitor's.
            #expect(try await StoreCheck.run(fixture.store, fixture.app).problems == [])
            try await fixture.repairEverything()
            let check = try await fixture.expectClean()
            if next == .theJanitor {
                #expect(check.devices.keys.sorted() == [["old"], [], ["new"]][step.rawValue])
            } else {
                #expect(check.devices.count == 1)
            }
        }
    }

    @Test(arguments: Step.allCases) func `A token that changes hands is nobody's at no time`(_ step: Step) async throws
    {
        try await StoreFixture.with { fixture in
            let token = Hexadecimal.decode(StoreFixture.token("t")) ?? []
            try await fixture.register("old", token: "t")
            try await CrashedClaimer(fixture, device: "new", token: "t", over: "old").go(until: step)
            guard step != .cleared else {
                await #expect {
                    try await fixture.store.find(fixture.app, token: token)
                } throws: {
                    isCode($0, .contended)
                }
                try await fixture.repairEverything()
                #expect(try await fixture.store.find(fixture.app, token: token) == nil)
                return
            }
            let holder = try await fixture.store.find(fixture.app, token: token)
            #expect(holder?.id == (step == .claimed ? "old" : "new"))
        }
    }

    @Test func aClaimThatWasNeverConfirmedGivesWayToALaterOne() async throws {
        try await StoreFixture.with { fixture in
            // Nine processes in a row die right after claiming: more than the index remembers.
            for index in 0..<9 {
                try await CrashedClaimer(fixture, device: "dead-\(index)", token: "t", over: nil).go(until: .claimed)
            }
            try await fixture.register("alive", token: "t")
            let check = try await StoreCheck.run(fixture.store, fixture.app, keepsDevices: true)
            #expect(check.problems == [])
            try await fixture.repairEverything()
            #expect(try await fixture.expectClean().devices.keys.sorted() == ["alive"])
        }
    }

    @Test func aSlowClaimerLearnsThatItCameSecond() async throws {
        try await StoreFixture.with { fixture in
            // The slow one has claimed and has not yet written; the quick one does all. Then the slow one writes and confirms.
            let slow = CrashedClaimer(fixture, device: "slow", token: "t", over: nil)
            try await slow.go(until: .claimed)
            try await fixture.register("quick", token: "t")
            try await slow.write()
            #expect(try await slow.confirm() == -1)
            // Both records hold the token now, and the index still names both: the next call puts it right.
            try await fixture.register("slow", token: "t")
            #expect(try await fixture.get("quick") == nil)
            try await fixture.expectClean()
        }
    }

    @Test func `The last who registered a token keeps it when a master brings back an earlier one`() async throws {
        try await StoreFixture.with { fixture in
            let token = StoreFixture.token("t")
            let placeOfToken = fixture.place(Hexadecimal.decode(token) ?? []).partition
            let names = (0..<100).map { "phone-\($0)" }
            // The earlier device's master has nothing else of the two.
            let early = try #require(names.first { fixture.place(Array($0.utf8)).partition != placeOfToken })
            let partition = fixture.place(Array(early.utf8)).partition
            let last = try #require(names.first { fixture.place(Array($0.utf8)).partition != partition })
            try await fixture.register(early, token: "t")
            let kept = try await fixture.saved(partition)
            let registered = try await fixture.register(last, token: "t").device
            try await fixture.bringBack(kept, partition)
            let back = try #require(try await fixture.get(early))
            #expect(back.record.token == registered.record.token)
            for index in 0..<fixture.store.keys.keyspace.devicePartitions {
                _ = try await fixture.store.upkeep(fixture.app, index, throttle: { _ in })
            }
            #expect(try await fixture.get(early) == nil)
            #expect(try await fixture.get(last) == registered)
            try await fixture.expectClean()
        }
    }

    @Test func `The later claimer keeps a token whichever of the two is repaired`() async throws {
        try await StoreFixture.with { fixture in
            let slow = CrashedClaimer(fixture, device: "slow", token: "t", over: nil)
            try await slow.go(until: .claimed)
            try await fixture.register("quick", token: "t")
            try await slow.write()
            let device = try #require(try await fixture.get("slow"))
            _ = try await fixture.store.repairHints(of: device)
            #expect(try await fixture.get("slow") == nil)
            #expect(try await fixture.get("quick") != nil)
            try await fixture.repairEverything()
            try await fixture.expectClean()
        }
    }

    @Test func `A token's entry names former holders until replicas have their removal, and nobody else waits`()
        async throws
    {
        try await StoreFixture.with { fixture in
            let replicas = SilentReplicas()
            let store = replicas.store(of: fixture)
            func register(_ device: String) async throws -> RegisterResult {
                let registration = DeviceRegistration(device: device, provider: .apns, token: StoreFixture.token("t"))
                return try await store.register(fixture.app, registration)
            }
            // The token is new, then it is the device's.
            for _ in 0..<2 { _ = try await register("old") }
            _ = try await fixture.register("old", token: "other")
            for _ in 0..<2 { _ = try await register("old") }
            #expect(replicas.waits.isEmpty)

            let error = await #expect(throws: StoreError.self) { _ = try await register("new") }
            #expect(error?.redis?.code == .noReplicas)
            #expect(error?.disposition == .retryLater)
            let slots = [fixture.store.keys.tag(fixture.place(Array("old".utf8)).partition)]
            let home = fixture.store.keys.tag(fixture.placeOfToken("t").partition)
            #expect(replicas.waits == [SilentReplicas.Wait(slots: slots, home: home, holdersAtFirst: ["old"])])
            #expect(try await fixture.get("old") == nil)
            #expect(try await fixture.get("new") != nil)
            #expect(try await fixture.claims(to: "t") == ["claimed by new", "held by old"])

            // A repetition waits for the same removal.
            await #expect(throws: StoreError.self) { _ = try await register("new") }
            #expect(replicas.waits.count == 2 && replicas.waits[1].slots == slots)
            replicas.answer()
            _ = try await register("new")
            #expect(replicas.waits.count == 3 && replicas.waits[2].slots == slots)
            #expect(try await fixture.claims(to: "t") == ["held by new"])
            _ = try await register("new")
            #expect(replicas.waits.count == 3)
            try await fixture.expectClean()
        }
    }

    @Test func `A registration that fails for its former holder's replicas keeps no other from its token`() async throws
    {
        try await StoreFixture.with { fixture in
            let names = (0..<20).map { "phone-\($0)" }
            for name in names { try await fixture.register("old-\(name)", token: name) }
            let silentPartition = fixture.place(Array("old-\(names[0])".utf8)).partition
            let replicas = SilentReplicas(of: fixture.store.keys.tag(silentPartition))
            let registrations = names.map {
                DeviceRegistration(device: $0, provider: .apns, token: StoreFixture.token($0))
            }
            let silent = Set(names.filter { fixture.place(Array("old-\($0)".utf8)).partition == silentPartition })
            try #require(silent.count < names.count)
            let results = await replicas.store(of: fixture).register(fixture.app, registrations)
            for (name, result) in zip(names, results) {
                let isRegistered = (try? result.get()) != nil
                #expect(isRegistered != silent.contains(name), "\(name)")
                let claims = try await fixture.claims(to: name)
                #expect((claims == ["held by \(name)"]) != silent.contains(name), "\(name): \(claims)")
            }
        }
    }

    @Test func `The janitor, too, waits for replicas before it forgets former holders`() async throws {
        try await StoreFixture.with { fixture in
            try await fixture.register("old", token: "t")
            try await CrashedClaimer(fixture, device: "new", token: "t", over: "old").go(until: .cleared)
            let replicas = SilentReplicas()
            let store = replicas.store(of: fixture)
            let partition = fixture.placeOfToken("t").partition
            func repair() async throws {
                var bucket: Int? = 0
                while let at = bucket {
                    bucket = try await store.repairTokens(fixture.app, partition, bucket: at).nextBucket
                }
            }
            let error = await #expect(throws: StoreError.self) { try await repair() }
            #expect(error?.redis?.code == .noReplicas)
            #expect(try await fixture.claims(to: "t") == ["claimed by new", "held by old"])
            replicas.answer()
            try await repair()
            #expect(try await fixture.claims(to: "t").isEmpty)
            try await fixture.expectClean()
        }
    }

    @Test func `A record that cannot be read keeps no other device from its token, and the janitor goes on`()
        async throws
    {
        try await StoreFixture.with { fixture in
            let device = try await fixture.register("old", token: "t", user: "ann", topics: ["news"]).device
            let partition = Int(device.reference.partition)
            let slab = fixture.store.keys.slab(fixture.app, .apns, partition, Int(device.reference.ordinal) / 64)
            let broken = Array(device.value.prefix(RecordHeader.byteCount)) + [0xff, 0xff]
            let command = RedisCommand(
                "HSET",
                .text(slab),
                .integer(Int(device.reference.ordinal) % 64),
                .bytes(broken)
            )
            _ = try await fixture.client.send(command, on: fixture.store.keys.tag(partition))
            #expect(try await fixture.register("new", token: "t", user: "ann").change == .created)
            var left: [String] = []
            for index in 0..<fixture.store.keys.keyspace.devicePartitions {
                left += try await fixture.store.upkeep(fixture.app, index, throttle: { _ in }).left
            }
            #expect(!left.isEmpty)
            #expect(try await fixture.get("new") != nil)
            let check = try await StoreCheck.run(fixture.store, fixture.app)
            #expect(check.problems.contains { $0.contains("cannot be decoded") }, "\(check.problems)")
        }
    }

    @Test func tokensThatShareAnEntryDoNotDisturbEachOther() async throws {
        // Found by search: for this app the digests of these two begin with the same five bytes, in the same partition.
        let fixture = try await StoreFixture.make(app: "neighbours")
        func register(_ device: String, _ token: String) async throws -> RegisterResult.Change {
            let registration = DeviceRegistration(device: device, provider: .apns, token: token)
            return try await fixture.store.register(fixture.app, registration).change
        }
        let (one, other) = ("00000000000dc072", "00000000000ef33e")
        #expect(
            fixture.place(Hexadecimal.decode(one) ?? []).partition
                == fixture.place(Hexadecimal.decode(other) ?? []).partition
        )
        #expect(try await register("a", one) == .created)
        #expect(try await register("b", other) == .created)
        #expect(try await register("a", one) == .unchanged)
        try await fixture.repairEverything()
        let check = try await StoreCheck.run(fixture.store, fixture.app, keepsDevices: true)
        #expect(check.problems == [] && check.staleHints == 0)
        #expect(check.devices.keys.sorted() == ["a", "b"])
        // Either is still protected from theft.
        #expect(try await register("claimer", one) == .created)
        #expect(try await register("claimer", other) == .tokenReplaced)
        #expect(try await fixture.get("a") == nil)
        #expect(try await fixture.get("b") == nil)
        try await fixture.expectClean()
        await fixture.client.close()
    }

    @Test func manyDevicesFightForFewTokens() async throws {
        try await StoreFixture.with { fixture in
            try await withThrowingTaskGroup { group in
                for worker in 0..<8 {
                    group.addTask {
                        var random = SeededGenerator(seed: UInt64(worker))
                        for _ in 0..<40 {
                            let device = "phone-\(Int.random(in: 0..<6, using: &random))"
                            let token = "token-\(Int.random(in: 0..<4, using: &random))"
                            let user = ["", "ann", "bob"][Int.random(in: 0..<3, using: &random)]
                            do {
                                if Int.random(in: 0..<8, using: &random) == 0 {
                                    _ = try await fixture.store.delete(fixture.app, DeviceID(device))
                                } else {
                                    try await fixture.register(device, token: token, user: user, topics: [token])
                                }
                            } catch let error as StoreError where error.code == .contended {
                                // Somebody else has it now: what an app would try again.
                            }
                        }
                    }
                }
                try await group.waitForAll()
            }
            let check = try await StoreCheck.run(fixture.store, fixture.app, keepsDevices: true)
            #expect(check.problems == [])
            #expect(check.devices.count <= 4)
            try await fixture.repairEverything()
            try await fixture.expectClean()
        }
    }
}

/// Replicas that confirm nothing until they answer again.
private final class SilentReplicas: Sendable {
    /// A wait that was begun.
    struct Wait: Hashable {
        var slots: [HashTag]
        var home: HashTag
        /// The devices that were there at its beginning, of those of the test.
        var holdersAtFirst: [String]
    }

    private let silent: HashTag?
    private let state = Mutex<(waits: [Wait], isSilent: Bool)>(([], true))

    /// - Parameter silent: the slot whose replicas are silent; nil: those of all slots.
    init(of silent: HashTag? = nil) { self.silent = silent }

    /// The waits that were begun, in their order.
    var waits: [Wait] { self.state.withLock { $0.waits } }

    func answer() { self.state.withLock { $0.isSilent = false } }

    /// Returns the store of a fixture that waits for these replicas.
    func store(of fixture: StoreFixture) -> DeviceStore {
        var store = fixture.store
        store.replicaWaits = { (slots, home) async throws(RedisError) -> DeviceStore.ReplicaWait in
            var holders: [String] = []
            for name in ["old", "new"] where (try? await fixture.get(name)) != nil { holders.append(name) }
            let wait = Wait(slots: slots, home: home, holdersAtFirst: holders)
            self.state.withLock { $0.waits.append(wait) }
            return { () async throws(RedisError) in
                let isSilent = self.state.withLock { $0.isSilent }
                guard isSilent, self.silent.map({ slots.contains($0) }) ?? true else { return }
                throw RedisError(.noReplicas, "no replica has confirmed")
            }
        }
        return store
    }
}

extension StoreFixture {
    /// Returns the place that a token of that name leads to.
    fileprivate func placeOfToken(_ name: String) -> (partition: Int, digest: [UInt8]) {
        self.place(Hexadecimal.decode(Self.token(name)) ?? [])
    }

    /// Returns what a token's entry says of the devices of these names, sorted.
    fileprivate func claims(to token: String) async throws -> [String] {
        let place = self.placeOfToken(token)
        let call = TokenOwnersCall(keys: [self.store.keys.meta(self.app, place.partition)], digest: place.digest)
        let owners = try await self.client.call(call, on: self.store.keys.tag(place.partition)).root.children
            .compactMap(\.bytes)
        let names = ["old", "new", token, "old-\(token)"]
        return owners.map { owner in
            let name = names.first { self.owner($0) == Array(owner.dropFirst()) } ?? "another"
            return (owner[0] == UInt8(ascii: "s") ? "held by " : "claimed by ") + name
        }.sorted()
    }
}

/// Takes a token as a process does that dies on the way: by the functions themselves, step by step.
struct CrashedClaimer {
    private let fixture: StoreFixture
    private let device: String
    private let token: [UInt8]
    private let victim: String?

    init(_ fixture: StoreFixture, device: String, token: String, over victim: String?) {
        self.fixture = fixture
        self.device = device
        self.token = Hexadecimal.decode(StoreFixture.token(token)) ?? []
        self.victim = victim
    }

    func go(until last: TokenTests.Step) async throws {
        try await self.claim()
        if last.rawValue >= TokenTests.Step.cleared.rawValue { try await self.clear() }
        if last.rawValue >= TokenTests.Step.written.rawValue { try await self.write() }
    }

    func claim() async throws {
        let place = self.fixture.place(self.token)
        let call = ClaimTokenCall(
            keys: [self.fixture.store.keys.meta(self.fixture.app, place.partition)],
            digest: place.digest,
            claimer: self.fixture.owner(self.device),
        )
        _ = try await self.fixture.client.call(call, on: self.fixture.store.keys.tag(place.partition))
    }

    func clear() async throws {
        guard let victim = self.victim, let stored = try await self.fixture.get(victim) else { return }
        let place = self.fixture.place(Array(victim.utf8))
        let keys = self.fixture.store.keys
        let slab = keys.slab(self.fixture.app, stored.realm, place.partition, Int(stored.reference.ordinal) / 64)
        let value = try await self.fixture.client.send(
            RedisCommand("HGET", .text(slab), .integer(Int(stored.reference.ordinal) % 64)),
            on: keys.tag(place.partition),
        ).root.bytes
        let call = RemoveDeviceCall(
            keys: [keys.meta(self.fixture.app, stored.realm, place.partition)],
            digest: place.digest,
            expected: try #require(value),
            topics: stored.record.topics.flatMap { topic in
                (0..<4).map { UInt8(topic >> (24 - 8 * UInt32($0)) & 0xff) }
            },
            forgetsHistory: false,
        )
        let reply = try await self.fixture.client.call(call, on: keys.tag(place.partition))
        #expect(reply.root.integer == 1)
    }

    func write() async throws {
        let place = self.fixture.place(Array(self.device.utf8))
        let record = try DeviceRecord(device: self.device, token: self.token).encode()
        let keys = Realm.allCases.map { self.fixture.store.keys.meta(self.fixture.app, $0, place.partition) }
        let writing = StoreCalls.Writing(expected: [], record: record, stamp: .now, entered: [], left: [])
        let call = PutDeviceCall(keys: keys, digest: place.digest, writing: writing)
        let reply = try await self.fixture.client.call(call, on: self.fixture.store.keys.tag(place.partition))
        #expect(reply.root.element(0)?.integer == 1)
    }

    func confirm() async throws -> Int64? {
        let place = self.fixture.place(self.token)
        let call = ConfirmTokenCall(
            keys: [self.fixture.store.keys.meta(self.fixture.app, place.partition)],
            digest: place.digest,
            claimer: self.fixture.owner(self.device),
            cleared: [],
        )
        return try await self.fixture.client.call(call, on: self.fixture.store.keys.tag(place.partition)).root.integer
    }
}

extension StoreFixture {
    /// Returns all keys of the app in a partition, with their contents.
    func saved(_ partition: Int) async throws -> [String: [UInt8]] {
        let tag = self.store.keys.tag(partition)
        let keys = try await self.client.send(RedisCommand("KEYS", .text("\(tag)\(self.app):*")), on: tag).root
        var saved: [String: [UInt8]] = [:]
        for key in keys.children.compactMap(\.string) {
            saved[key] = try await self.client.send(RedisCommand("DUMP", .text(key)), on: tag).root.bytes
        }
        return saved
    }

    /// Puts a partition back to what it was, as a master does that has lost its last writes.
    func bringBack(_ saved: [String: [UInt8]], _ partition: Int) async throws {
        let tag = self.store.keys.tag(partition)
        for key in try await self.saved(partition).keys {
            _ = try await self.client.send(RedisCommand("DEL", .text(key)), on: tag)
        }
        for (key, value) in saved {
            _ = try await self.client.send(RedisCommand("RESTORE", .text(key), "0", .bytes(value)), on: tag)
        }
    }

    /// Repairs everything at once, as the janitor does.
    func repairEverything() async throws {
        for partition in 0..<self.store.keys.keyspace.devicePartitions {
            var bucket: Int? = 0
            while let at = bucket {
                bucket = try await self.store.repairTokens(self.app, partition, bucket: at).nextBucket
            }
            bucket = 0
            while let at = bucket {
                bucket = try await self.store.repairUsers(self.app, partition, bucket: at).nextBucket
            }
        }
    }
}
