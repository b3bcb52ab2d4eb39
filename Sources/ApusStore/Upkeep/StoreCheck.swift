package import ApusCore
internal import ApusMessages
internal import ApusRedis

/// Reads all of an app's part of the store and checks that it agrees with itself.
///
/// It works on a live store too: a finding is checked again, and reported only when it was found each time. Memory is bounded by the
/// fullest partitions, and some 16 bytes for each posting that has a key of its own.
package struct StoreCheck: Sendable {
    /// The contradictions; empty when the store is sound.
    package private(set) var findings: [StoreFinding] = []
    /// The number of hints that no record bears out. They are harmless: a crash leaves them, and the janitor removes them.
    package private(set) var staleHints = 0
    /// The number of tokens whose claim was never confirmed; the next claim or the janitor finishes them.
    package private(set) var unsettledTokens = 0
    /// The number of devices.
    package private(set) var deviceCount = 0
    /// The number of devices whose records are not encrypted with the current key; 0 without keys.
    package private(set) var unencrypted = 0
    /// The number of memberships in topics.
    package private(set) var subscriptions = 0
    /// The number of devices whose badge was counted or set.
    package private(set) var badges = 0
    /// Every device by id, if they were to be kept.
    package private(set) var devices: [String: StoredDevice] = [:]

    /// The contradictions, in words.
    package var problems: [String] { self.findings.map(\.description) }

    /// The number of places and partitions that are checked together.
    private static let atOnce = 8
    /// The number of looks in which a finding must occur.
    private static let looks = 3
    /// The time between two looks, longer than any write takes.
    private static let pause = Duration.milliseconds(500)

    private let store: DeviceStore
    private let app: AppID
    private var keyed: [StoreFinding.Scope: Set<PostingKey>] = [:]

    private init(_ store: DeviceStore, _ app: AppID) {
        self.store = store
        self.app = app
    }

    /// Checks an app.
    ///
    /// - Parameters:
    ///   - keepsDevices: true to keep every device in memory afterwards, some kilobyte each.
    ///   - progressed: called with the number of partitions that were read, and of all.
    package static func run(
        _ store: DeviceStore,
        _ app: AppID,
        keepsDevices: Bool = false,
        progressed: (Int, Int) -> Void = { _, _ in },
    ) async throws(StoreError) -> StoreCheck {
        var check = StoreCheck(store, app)
        check.keyed = try await check.keyedPostings()
        let partitions = store.keys.keyspace.devicePartitions
        for part in Array(0..<partitions).parts(of: Self.atOnce) {
            var scopes: [StoreFinding.Scope] = []
            for partition in part {
                scopes += Realm.allCases.map { .place($0, partition) } + [.tokens(partition), .users(partition)]
            }
            for look in try await check.look(at: scopes, keepsDevices: keepsDevices) { check.add(look) }
            progressed((part.last ?? 0) + 1, partitions)
        }
        try await check.confirm()
        return check
    }

    /// Holds what one look at a scope found.
    private struct Look: Sendable {
        var findings: [StoreFinding] = []
        var devices: [StoredDevice] = []
        var deviceCount = 0
        var unencrypted = 0
        var subscriptions = 0
        var badges = 0
        var stale = 0
        var unsettled = 0
    }

    private mutating func add(_ look: Look) {
        self.findings += look.findings
        for device in look.devices {
            if let other = self.devices.updateValue(device, forKey: device.id) {
                let text = "\(device.id) is in \(device.realm.name) and \(other.realm.name)"
                self.findings.append(StoreFinding(.place(device.realm, Int(device.reference.partition)), text))
            }
        }
        self.deviceCount += look.deviceCount
        self.unencrypted += look.unencrypted
        self.subscriptions += look.subscriptions
        self.badges += look.badges
        self.staleHints += look.stale
        self.unsettledTokens += look.unsettled
    }

    /// Checks the disagreements again, and keeps those that were found each time.
    private mutating func confirm() async throws(StoreError) {
        for _ in 1..<Self.looks where !self.findings.isEmpty {
            try? await Task.sleep(for: Self.pause)
            let looks = try await self.look(at: Array(Set(self.findings.map(\.scope))), keepsDevices: false)
            let again = Set(looks.flatMap(\.findings))
            self.findings.removeAll { !again.contains($0) }
        }
    }

    private func look(
        at scopes: [StoreFinding.Scope],
        keepsDevices: Bool,
    ) async throws(StoreError) -> [Look] {
        let (store, app, keyed) = (self.store, self.app, self.keyed)
        return try await forEachConcurrently(scopes) { scope in
            var look = Look()
            switch scope {
            case .place(let realm, let partition):
                var check = PlaceCheck(store, app, realm, partition, keyed: keyed[scope] ?? [])
                try await check.run(keepsDevices: keepsDevices) { _ in }
                look.findings = check.findings
                look.devices = check.devices
                look.deviceCount = check.count
                look.unencrypted = check.unencryptedCount
                look.subscriptions = check.subscriptions
                look.badges = check.badges
            case .tokens(let partition), .users(let partition):
                let isTokens = scope == .tokens(partition)
                var check = HintCheck(store, app, isTokens ? .tokens : .users, partition)
                try await check.run()
                look.findings = check.findings
                look.stale = check.stale
                look.unsettled = check.unsettled
            }
            return look
        }
    }

    /// Returns the postings with keys of their own, by a scan of all keys, which also finds a posting that no record implies.
    private func keyedPostings() async throws(StoreError) -> [StoreFinding.Scope: Set<PostingKey>] {
        let keys = self.store.keys
        var partitions: [Substring: Int] = [:]
        for partition in 0..<keys.keyspace.devicePartitions { partitions["\(keys.tag(partition))"[...]] = partition }
        let realms = Dictionary(uniqueKeysWithValues: Realm.allCases.map { (Substring($0.name), $0) })
        var keyed: [StoreFinding.Scope: Set<PostingKey>] = [:]
        for name in try await self.names(matching: "{*}\(self.app.text):*:topic:*") {
            let parts = name.split(separator: ":")
            guard parts.count == 5, let end = parts[0].firstIndex(of: "}"), let realm = realms[parts[1]],
                let partition = partitions[parts[0][...end]], let topic = UInt32(parts[3]), let chunk = Int(parts[4])
            else { continue }
            keyed[.place(realm, partition), default: []].insert(PostingKey(topic: topic, chunk: chunk))
        }
        return keyed
    }

    private func names(matching pattern: String) async throws(StoreError) -> Set<String> {
        let client = self.store.calls.client
        var names: Set<String> = []
        do throws(RedisError) {
            for endpoint in try await client.masters() {
                var cursor = "0"
                repeat {
                    let command = RedisCommand("SCAN", .text(cursor), "MATCH", .text(pattern), "COUNT", 1_000)
                    let reply = try await client.send(command, to: endpoint).root
                    guard let next = reply.element(0)?.string, let found = reply.element(1) else { break }
                    names.formUnion(found.children.compactMap(\.string))
                    cursor = next
                } while cursor != "0"
            }
        } catch {
            throw StoreError(.redis, "\(error)", redis: error)
        }
        return names
    }
}
