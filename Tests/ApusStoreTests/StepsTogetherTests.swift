import ApusCore
import ApusMessages
import ApusRedis
import ApusStreams
import NIOCore
import Testing

@testable import ApusStore

/// A registration on an event loop sends the write of its record and the steps after it together. It claims a token of nobody while it reads
/// its device, and gives that claim back when it is refused.
struct StepsTogetherTests {
    /// Registers on an event loop of the store's client.
    @concurrent private static func registerOnLoop(
        _ fixture: StoreFixture,
        _ device: String,
        token: String,
        user: String = "",
        topics: [String]? = nil,
    ) async throws -> RegisterResult.Change {
        let eventLoop = fixture.client.eventLoopGroup.next()
        return try await withTaskExecutorPreference(LoopExecutor(eventLoop)) {
            #expect(eventLoop.inEventLoop)
            return try await fixture.register(device, token: token, user: user, topics: topics).change
        }
    }

    /// The devices of an app by their ids: token, user and names of topics.
    private static func devices(_ fixture: StoreFixture) async throws -> [String: [String]] {
        var devices: [String: [String]] = [:]
        for (id, device) in try await fixture.expectClean().devices {
            let token = Hexadecimal.encode(device.record.token)
            devices[id] = [token, device.record.user] + (try await fixture.topics(device))
        }
        return devices
    }

    private static func owners(_ fixture: StoreFixture, of token: String) async throws -> [StoreCalls.TokenOwner] {
        let calls = fixture.store.calls
        let bytes = Hexadecimal.decode(StoreFixture.token(token)) ?? []
        return try await calls.owners(fixture.app, calls.placed(fixture.app, bytes))
    }

    @Test func `Steps together end as steps apart`() async throws {
        try await StoreFixture.with { together in
            try await StoreFixture.with { apart in
                let steps: [(device: String, token: String, user: String, topics: [String]?)] = [
                    ("a", "1", "", ["news"]), ("a", "1", "", ["news"]), ("b", "2", "ann", nil), ("b", "2", "ann", nil),
                    ("b", "3", "ann", ["news", "sport"]), ("c", "3", "bob", ["sport"]), ("a", "3", "", []),
                    ("b", "3", "bob", nil), ("a", "2", "ann", ["news"]), ("b", "3", "", nil),
                ]
                for step in steps {
                    let (device, token, user, topics) = step
                    let one = try await Self.registerOnLoop(
                        together,
                        device,
                        token: token,
                        user: user,
                        topics: topics
                    )
                    let other = try await apart.register(device, token: token, user: user, topics: topics)
                    #expect(one == other.change, "\(step)")
                    let (found, expected) = (try await Self.devices(together), try await Self.devices(apart))
                    #expect(found == expected, "\(step)")
                }
            }
        }
    }

    @Test func `One of many that register a token at once has it`() async throws {
        try await StoreFixture.with { fixture in
            for round in 0..<20 {
                await withTaskGroup(of: Void.self) { group in
                    for device in 0..<6 {
                        group.addTask {
                            _ = try? await Self.registerOnLoop(fixture, "phone-\(device)", token: "of-\(round)")
                        }
                    }
                }
                let bytes = Hexadecimal.decode(StoreFixture.token("of-\(round)"))
                let check = try await StoreCheck.run(fixture.store, fixture.app, keepsDevices: true)
                #expect(check.problems == [])
                #expect(check.devices.values.count { $0.record.token == bytes } <= 1)
                let named = try await Self.owners(fixture, of: "of-\(round)").map(\.device.bytes)
                for id in check.devices.filter({ $0.value.record.token == bytes }).keys {
                    #expect(named.contains(fixture.owner(id)))
                }
            }
        }
    }

    @Test func `A registration that is refused leaves a token of nobody free`() async throws {
        try await StoreFixture.with { fixture in
            try await fixture.register("phone", token: "old", user: "ann")
            var registration = DeviceRegistration(
                device: "phone",
                provider: .apns,
                token: StoreFixture.token("new")
            )
            let conditions: [(DeviceCondition, StoreError.Code)] = [
                (.absent, .preconditionFailed), (.matches(["\"0\""]), .preconditionFailed),
                (.belongs(to: try UserID("bob"), and: .none), .foreign),
            ]
            for (condition, code) in conditions {
                await #expect {
                    try await fixture.store.register(fixture.app, registration, condition: condition)
                } throws: {
                    isCode($0, code)
                }
                #expect(try await Self.owners(fixture, of: "new").isEmpty)
            }
            registration.attributes.tags = (0..<200).map { "\($0)" + String(repeating: "x", count: 100) }
            await #expect {
                try await fixture.store.register(fixture.app, registration)
            } throws: {
                isCode($0, .invalidRegistration)
            }
            let early = UnixMilliseconds(1)
            #expect(try await fixture.register("phone", token: "new", asOf: early).change == .ignored)
            #expect(try await Self.owners(fixture, of: "new").isEmpty)
            #expect(try await fixture.expectClean().devices["phone"]?.record.user == "ann")
        }
    }

    @Test func `A token that others own or claim is left to them at first`() async throws {
        try await StoreFixture.with { fixture in
            try await fixture.register("owner", token: "owned")
            try await CrashedClaimer(fixture, device: "claimer", token: "claimed", over: nil).claim()
            for (token, owner, isSettled) in [("owned", "owner", true), ("claimed", "claimer", false)] {
                let calls = fixture.store.calls
                let placed = calls.placed(fixture.app, Hexadecimal.decode(StoreFixture.token(token)) ?? [])
                func claim(by device: String) async throws -> StoreCalls.ClaimAnswer {
                    let id = try DeviceID(device)
                    let claims = [(token: placed.digest, device: fixture.store.home(fixture.app, id).owner)]
                    let request = calls.claim(fixture.app, placed.partition, claims, leavesOwned: true)
                    return try #require(try await calls.answer(to: request).first)
                }
                guard case .leftToOthers = try await claim(by: "third") else {
                    Issue.record("\(token) was claimed")
                    return
                }
                let owners = try await Self.owners(fixture, of: token)
                #expect(owners.map(\.device.bytes) == [fixture.owner(owner)])
                #expect(owners.map(\.isSettled) == [isSettled])
                switch try await claim(by: owner) {
                case .settled: #expect(isSettled)
                case .claimed(let others): #expect(!isSettled && others.isEmpty)
                case .crowded, .leftToOthers: Issue.record("\(token) is not its owner's")
                }
            }
        }
    }

    @Test func `A token that was confirmed without its record is claimed again`() async throws {
        try await StoreFixture.with { fixture in
            // The write of a record was refused, and what followed it was carried out.
            try await CrashedClaimer(fixture, device: "phone", token: "t", over: nil).claim()
            let calls = fixture.store.calls
            let placed = calls.placed(fixture.app, Hexadecimal.decode(StoreFixture.token("t")) ?? [])
            let owner = fixture.store.home(fixture.app, try DeviceID("phone")).owner
            let confirmed = try await calls.answer(
                to: calls.confirm(fixture.app, placed.partition, [(placed.digest, owner)])
            )
            guard case .settled = confirmed.first else {
                Issue.record("\(confirmed)")
                return
            }
            // Another device finds a hint that no record bears out.
            #expect(try await fixture.register("other", token: "t").change == .created)
            #expect(try await fixture.expectClean().devices.count == 1)
            #expect(try await Self.registerOnLoop(fixture, "phone", token: "t") == .created)
            #expect(try await fixture.expectClean().devices.keys.sorted() == ["phone"])
        }
    }

    @Test func `Many devices of one call pass every form of a posting`() async throws {
        try await StoreFixture.with(partitions: 1) { fixture in
            for count in [20, 40, 200, 80] {
                let before = try await fixture.expectClean().devices.count
                let results = await fixture.store.register(
                    fixture.app,
                    (before..<before + count).map { index in
                        var registration = DeviceRegistration(
                            device: "phone-\(index)",
                            provider: index % 5 == 0 ? .fcm : .apns,
                            token: index % 5 == 0 ? "fcm-token-of-\(index)" : StoreFixture.token("\(index)"),
                        )
                        registration.topics = index % 3 == 0 ? ["all", "third"] : ["all"]
                        return registration
                    },
                )
                #expect(results.allSatisfy { (try? $0.get().change) == .created })
                #expect(try await fixture.expectClean().devices.count == before + count)
            }
        }
    }
}
