import ApusCore
import ApusMessages
import ApusRedis
import ApusStore
import ApusTestKit
import Testing

/// Expressions against devices in Redis, and against an evaluator that knows nothing of postings and bytes.
@Suite struct AudienceTests {
    /// A device as the naive evaluator sees it.
    private struct Person {
        let id: String
        let realm: Realm
        let topics: Set<String>
        let attributes: Attributes
        let user: String
        let seenAt: UnixMilliseconds
        let registeredAt: UnixMilliseconds
    }

    /// Expressions with the meaning that a reader would give them.
    private indirect enum Naive {
        case leaf(String, @Sendable (Person) -> Bool)
        case not(Naive)
        case and(Naive, Naive)
        case or(Naive, Naive)

        var text: String {
            switch self {
            case .leaf(let text, _): text
            case .not(let inner): "!(\(inner.text))"
            case .and(let one, let other): "(\(one.text)) && (\(other.text))"
            case .or(let one, let other): "(\(one.text)) || (\(other.text))"
            }
        }

        func matches(_ person: Person) -> Bool {
            switch self {
            case .leaf(_, let test): test(person)
            case .not(let inner): !inner.matches(person)
            case .and(let one, let other): one.matches(person) && other.matches(person)
            case .or(let one, let other): one.matches(person) || other.matches(person)
            }
        }
    }

    private static let versions = ["", "1.9", "1.10", "2.0-beta", "2.0", "2.0.0", "10", "unknown"]
    /// The versions that are some, in their order; equal ones together.
    private static let ranks = ["1.9": 0, "1.10": 1, "2.0-beta": 2, "2.0": 3, "2.0.0": 3, "10": 4]
    private static let locales = ["", "en", "en-GB", "EN_us", "eng", "fr", "pt-BR"]
    private static let topics = ["t0", "t1", "t2", "t3", "nobodys"]

    private static func leaf(_ random: inout SeededGenerator, now: UnixMilliseconds) -> Naive {
        func pick(_ count: Int) -> Int { Int.random(in: 0..<count, using: &random) }
        switch pick(9) {
        case 0, 1, 2:
            let topic = Self.topics[pick(Self.topics.count)]
            return .leaf("'\(topic)' in topics") { $0.topics.contains(topic) }
        case 3:
            let (name, provider) = [("ios", Provider.apns), ("android", .fcm), ("web", .webpush)][pick(3)]
            return .leaf("platform == '\(name)'") { $0.realm.provider == provider }
        case 4:
            let version = ["1.9", "1.10", "2.0-beta", "2.0", "10"][pick(5)]
            let rank = Self.ranks[version] ?? 0
            let sign = ["<", "<=", "==", ">=", ">"][pick(5)]
            return .leaf("app_version \(sign) '\(version)'") { person in
                guard let own = Self.ranks[person.attributes.appVersion] else { return false }
                switch sign {
                case "<": return own < rank
                case "<=": return own <= rank
                case "==": return own == rank
                case ">=": return own >= rank
                default: return own > rank
                }
            }
        case 5:
            let wanted = (0...pick(2)).map { _ in ["en", "en-gb", "fr", "de"][pick(4)] }
            let list = wanted.map { "'\($0)'" }.joined(separator: ",")
            return .leaf("locale in [\(list)]") { person in
                let locale = person.attributes.locale.lowercased().replacing("_", with: "-")
                return wanted.contains { locale == $0 || locale.hasPrefix($0 + "-") }
            }
        case 6:
            let days = pick(40)
            let then = now.advanced(byMilliseconds: -Int64(days) * 86_400_000)
            return .leaf("seen_at > now-\(days)d") { $0.seenAt > then }
        case 7:
            let user = ["", "ada", "grace"][pick(3)]
            return .leaf("user == '\(user)'") { $0.user == user }
        default:
            let tag = ["vip", "beta"][pick(2)]
            return .leaf("'\(tag)' in tags") { $0.attributes.tags.contains(tag) }
        }
    }

    private static func random(_ depth: Int, _ random: inout SeededGenerator, now: UnixMilliseconds) -> Naive {
        guard depth > 0 else { return Self.leaf(&random, now: now) }
        switch Int.random(in: 0..<6, using: &random) {
        case 0: return .not(Self.random(depth - 1, &random, now: now))
        case 1, 2:
            return .and(Self.random(depth - 1, &random, now: now), Self.random(depth - 1, &random, now: now))
        case 3, 4: return .or(Self.random(depth - 1, &random, now: now), Self.random(depth - 1, &random, now: now))
        default: return Self.leaf(&random, now: now)
        }
    }

    private static func populate(
        _ fixture: StoreFixture,
        _ random: inout SeededGenerator,
        count: Int,
    ) async throws -> [Person] {
        let end = fixture.clock.now()
        var people: [Person] = []
        for index in 0..<count {
            func pick(_ count: Int) -> Int { Int.random(in: 0..<count, using: &random) }
            let realm: Realm = [.apns, .apns, Realm(.apns, .sandbox), .fcm][pick(4)]
            let id = "phone-\(index)"
            var registration = DeviceRegistration(
                device: id,
                provider: realm.provider,
                token: StoreFixture.token("\(index)"),
            )
            registration.environment = realm.environment
            registration.user = ["", "ada", "grace", "alan", "joan"][pick(5)]
            registration.attributes.appVersion = Self.versions[pick(Self.versions.count)]
            registration.attributes.locale = Self.locales[pick(Self.locales.count)]
            registration.attributes.tags = ["vip", "beta"].filter { _ in pick(3) == 0 }
            registration.topics = Self.topics.dropLast().filter { _ in pick(2) == 0 }
            // Some were seen long ago.
            let ageDays = Int64(pick(40))
            let past = FakeClock(end.advanced(byMilliseconds: -ageDays * 86_400_000))
            let store = DeviceStore(client: fixture.client, keyspace: fixture.store.keys.keyspace, clock: past)
            let device = try await store.register(fixture.app, registration).device
            people.append(
                Person(
                    id: id,
                    realm: realm,
                    topics: Set(registration.topics ?? []),
                    attributes: registration.attributes,
                    user: registration.user,
                    seenAt: UnixMilliseconds(Int64(device.record.seenAtHours) * 3_600_000),
                    registeredAt: device.registeredAt,
                )
            )
        }
        return people
    }

    /// Returns the devices that the store finds: by postings first, then by records.
    private static func found(_ fixture: StoreFixture, _ form: RealmAudience) async throws -> Set<String> {
        var found: Set<String> = []
        let route = form.realm.route(of: fixture.app)
        for partition in 0..<StoreFixture.partitions {
            for chunk in 0..<(try await fixture.store.chunkCount(route, partition)) {
                let set = try await fixture.store.audience(
                    route,
                    partition,
                    chunks: chunk..<(chunk + 1),
                    form.postings
                )[0]
                let matching = try await fixture.store.matching(set, form, fixture.app, partition, chunk: chunk)
                let slabs = try await fixture.store.readSlabs(
                    route,
                    partition,
                    chunk: chunk,
                    ordinals: matching.ordinals
                )
                for (read, reply) in slabs {
                    read.forEachRecord(in: reply) { _, value in
                        guard let view = DeviceRecordView(value, RecordHeader.byteCount..<value.count) else { return }
                        found.insert(view.device(in: value))
                    }
                }
            }
        }
        return found
    }

    @Test(arguments: [UInt64(1), 2, 3])
    func `A random expression means the same as to a naive evaluator`(seed: UInt64) async throws {
        try await StoreFixture.with { fixture in
            var random = SeededGenerator(seed: seed)
            let people = try await Self.populate(fixture, &random, count: 200)
            let now = fixture.clock.now()
            var exact = 0
            for _ in 0..<60 {
                let naive = Self.random(3, &random, now: now)
                let audience = try await fixture.store.audience(
                    fixture.app,
                    AudienceExpression(parsing: naive.text),
                    now: now
                )
                for realm in Realm.allCases {
                    let form = audience[realm]
                    let expected = Set(people.filter { $0.realm == realm && naive.matches($0) }.map(\.id))
                    #expect(try await Self.found(fixture, form) == expected, "seed \(seed), \(realm): \(naive.text)")
                    let size = try await fixture.store.size(fixture.app, form, readsRecords: true)
                    #expect(size.matching == expected.count && size.candidates >= expected.count)
                    if form.isExact {
                        exact += 1
                        #expect(size.records == 0)
                    }
                    let unread = try await fixture.store.size(fixture.app, form, readsRecords: false)
                    #expect(unread.matching == (form.isExact ? expected.count : nil))
                    #expect(unread.records == size.records)
                }
            }
            // Both kinds came up.
            #expect(exact > 10 && exact < 60 * Realm.allCases.count - 10)
        }
    }

    @Test func `No record is read when the realm or the topics decide`() async throws {
        try await StoreFixture.with { fixture in
            try await fixture.register("one", topics: ["a"])
            func form(_ text: String, _ realm: Realm) async throws -> RealmAudience {
                try await fixture.store.audience(
                    fixture.app,
                    AudienceExpression(parsing: text),
                    now: fixture.clock.now()
                )[realm]
            }
            let android = "'a' in topics && (platform == 'ios' || locale == 'en')"
            #expect(try await form(android, .apns).isExact)
            #expect(try await !form(android, .fcm).isExact)
            #expect(try await form("platform == 'ios' && locale == 'en'", .fcm).postings == .nobody)
            #expect(try await form("environment == 'sandbox'", Realm(.apns, .sandbox)).postings == .everyone)
            #expect(try await form("'never-seen' in topics", .apns).postings == .nobody)
            // Only the members of the topic need be read.
            let narrowed = try await form("'a' in topics && !(locale == 'en')", .apns)
            #expect(narrowed.postings.topicNumbers.count == 1 && narrowed.postings != .everyone)
            let size = try await fixture.store.size(fixture.app, narrowed, readsRecords: true)
            #expect(size.records == 1 && size.matching == 1)
        }
    }
}
