import ApusCore
import ApusMessages
import ApusStore
import Testing

/// Many tasks change many devices at random; afterwards the store is what a dictionary says it should be.
struct ModelTests {
    /// Holds the expected state of a device.
    struct Expected: Hashable, Sendable {
        var token: String
        var user: String
        var topics: Set<String>
        var locale: String
        var realm: Realm
    }

    /// One task's devices: no other touches them, so that their history is known. Topics, users and partitions are shared.
    struct Worker: Sendable {
        let name: String
        let fixture: StoreFixture
        var random: SeededGenerator
        var model: [String: Expected] = [:]

        private mutating func pick(_ bound: Int) -> Int { Int.random(in: 0..<bound, using: &self.random) }

        mutating func step() async throws {
            let device = "\(self.name)-phone-\(self.pick(12))"
            let id = try DeviceID(device)
            let (app, store) = (self.fixture.app, self.fixture.store)
            switch self.pick(12) {
            case 0..<5:
                try await self.register(device)
            case 5:
                let result = try await store.delete(app, id)
                let was = self.model.removeValue(forKey: device)
                #expect((result == .missing) == (was == nil))
            case 6, 7:
                let topics = (0...self.pick(4)).map { _ in "topic-\(self.pick(20))" }
                _ = try await store.subscribe(app, id, to: topics)
                self.model[device]?.topics.formUnion(topics)
            case 8, 9:
                let topics = (0...self.pick(4)).map { _ in "topic-\(self.pick(20))" }
                _ = try await store.unsubscribe(app, id, from: topics)
                self.model[device]?.topics.subtract(topics)
            case 10:
                let user = try UserID("user-\(self.pick(6))")
                _ = try await store.bindUser(app, id, user)
                self.model[device]?.user = user.text
            default:
                var attributes = Attributes()
                attributes.locale = ["de", "fr", "it"][self.pick(3)]
                _ = try await store.patch(app, id, attributes: attributes)
                self.model[device]?.locale = attributes.locale
            }
        }

        /// A registration, quite often with a token that another device of this task holds.
        private mutating func register(_ device: String) async throws {
            let realm: Realm = [.apns, .apns, .apns, Realm(.apns, .sandbox), .fcm][self.pick(5)]
            let token = StoreFixture.token("\(self.name).\(self.pick(15))")
            var registration = DeviceRegistration(device: device, provider: realm.provider, token: token)
            registration.environment = realm.environment
            registration.user = ["", "user-\(self.pick(6))"][self.pick(2)]
            if self.pick(2) == 0 { registration.topics = (0...self.pick(4)).map { _ in "topic-\(self.pick(20))" } }
            _ = try await self.fixture.store.register(self.fixture.app, registration)
            // An APNs token is bytes and an FCM token is text: the same letters are not the same token.
            let isRaw = realm.provider == .apns
            for (other, state) in self.model where other != device && state.token == token {
                if (state.realm.provider == .apns) == isRaw { self.model[other] = nil }
            }
            let old = self.model[device]
            self.model[device] = Expected(
                token: token,
                user: registration.user,
                topics: registration.topics.map(Set.init) ?? old?.topics ?? [],
                locale: old?.locale ?? "",
                realm: realm,
            )
        }
    }

    @Test(arguments: [UInt64(1), 2, 3])
    func theStoreIsWhatItsHistorySays(_ seed: UInt64) async throws {
        try await StoreFixture.with { fixture in
            let model = try await withThrowingTaskGroup { group in
                for index in 0..<8 {
                    group.addTask {
                        var worker = Worker(
                            name: "w\(index)",
                            fixture: fixture,
                            random: SeededGenerator(seed: seed << 8 | UInt64(index)),
                        )
                        for _ in 0..<150 { try await worker.step() }
                        return worker.model
                    }
                }
                var all: [String: Expected] = [:]
                for try await part in group { all.merge(part) { first, _ in first } }
                return all
            }
            let check = try await fixture.expectClean()
            #expect(check.devices.count == model.count, "seed \(seed)")
            var stored: [String: Expected] = [:]
            for (id, device) in check.devices {
                stored[id] = Expected(
                    token: device.realm.provider == .apns
                        ? Hexadecimal.encode(device.record.token)
                        : String(decoding: device.record.token, as: UTF8.self),
                    user: device.record.user,
                    topics: Set(try await fixture.topics(device)),
                    locale: device.record.attributes.locale,
                    realm: device.realm,
                )
            }
            #expect(stored == model, "seed \(seed)")
            for user in Set(model.values.map(\.user)) where !user.isEmpty {
                let devices = try await fixture.store.devices(fixture.app, ofUser: UserID(user))
                #expect(Set(devices.map(\.id)) == Set(model.filter { $0.value.user == user }.keys), "seed \(seed)")
            }
        }
    }
}
