internal import ApusCore
internal import ApusMessages
internal import ApusRedis

/// Reads all of one place (an app, realm and partition) and checks that it agrees with itself: records with ids, postings, counters,
/// badges, and with the tokens and users that should lead to them.
///
/// The check is not atomic: a change meanwhile may look like a contradiction. What a second look still finds is true.
struct PlaceCheck {
    /// The maximum of findings of one place that are reported; further ones are only more of the same.
    static let findingsMax = 1_000

    /// The contradictions.
    private(set) var findings: [StoreFinding] = []
    /// The devices, if they are to be kept.
    private(set) var devices: [StoredDevice] = []
    /// The devices that nobody has registered for that long, as far as there is room for them.
    private(set) var stale: [StoredDevice] = []
    /// The devices whose records are not encrypted with the current key, as far as there is room for them; none without keys.
    private(set) var unencrypted: [StoredDevice] = []
    /// The number of all such devices.
    private(set) var unencryptedCount = 0
    /// The devices that are marked as suspect, as far as there is room for them, although nothing will ever end that.
    private(set) var unwatched: [StoredDevice] = []
    /// The number of devices.
    private(set) var count = 0
    /// The memberships in topics, without those of topic 0.
    private(set) var subscriptions = 0
    /// The number of devices whose badge was counted or set.
    private(set) var badges = 0

    private let store: DeviceStore
    private let app: AppID
    private let realm: Realm
    private let partition: Int
    /// The postings that are known to have a key of their own, beside those that the records imply.
    private let keyed: Set<PostingKey>
    private var expected: [PostingKey: ChunkSet] = [:]

    init(_ store: DeviceStore, _ app: AppID, _ realm: Realm, _ partition: Int, keyed: Set<PostingKey> = []) {
        self.store = store
        self.app = app
        self.realm = realm
        self.partition = partition
        self.keyed = keyed
    }

    private var name: String { "\(self.realm.name)/\(self.partition)" }

    /// Checks the place; it finds nothing when it is cancelled.
    ///
    /// - Parameters:
    ///   - throttle: called with the number of records after each part of them; it may wait.
    ///   - staleBefore: a device that was last registered before that time is stale; nil when none is.
    ///   - findsUnencrypted: true to find devices whose records are not encrypted with the current key.
    ///   - isWatched: returns true when something will end a device's mark as suspect; nil when no mark is looked at.
    mutating func run(
        keepsDevices: Bool = false,
        findsUnencrypted: Bool = false,
        staleBefore: UnixMilliseconds? = nil,
        isWatched: (@Sendable (StoredDevice) async -> Bool)? = nil,
        throttle: (Int) async -> Void,
    ) async throws(StoreError) {
        let before = try await self.store.meta(self.realm.route(of: self.app), self.partition)
        let slabs = (before.nextOrdinal + StoreLimits.slabOrdinals - 1) / StoreLimits.slabOrdinals
        for slab in 0..<slabs {
            let found = try await self.records(slab)
            try await self.checkReach(found)
            try await self.checkHints(found)
            self.count += found.count
            if keepsDevices { self.devices += found }
            if let staleBefore {
                let room = StoreLimits.staleDevicesMax - self.stale.count
                self.stale += found.filter { $0.lastSeenAt < staleBefore }.prefix(room)
            }
            let cipher = self.store.encryption.cipher
            let others = found.filter { !cipher.isCurrent($0.value.span) }
            self.unencryptedCount += others.count
            if findsUnencrypted {
                self.unencrypted += others.prefix(StoreLimits.reencryptedMax - self.unencrypted.count)
            }
            if let isWatched {
                let watched = try await forEachConcurrently(found.filter(\.isSuspect)) { ($0, await isWatched($0)) }
                let room = StoreLimits.unwatchedDevicesMax - self.unwatched.count
                self.unwatched += watched.filter { !$0.1 }.map(\.0).prefix(room)
            }
            await throttle(found.count)
            guard !Task.isCancelled else {
                self.findings = []
                return
            }
        }
        let postings = try await self.postings(before)
        self.compare(postings)
        let after = try await self.store.meta(self.realm.route(of: self.app), self.partition)
        // While devices come and go, the counters of one moment differ from those of another.
        guard before == after else { return }
        let excess = after.live - self.count
        if excess != 0 {
            self.note("\(self.name) counts \(excess.magnitude) devices \(excess > 0 ? "more" : "fewer") than it has")
        }
        let lost = after.nextOrdinal - self.count - after.resting
        if lost != 0 { self.note("\(self.name): \(lost) ordinals are neither in use nor at rest") }
    }

    private mutating func note(_ text: String, _ remedy: StoreFinding.Remedy = .none) {
        guard self.findings.count < Self.findingsMax else { return }
        self.findings.append(StoreFinding(.place(self.realm, self.partition), text, remedy))
    }

    // MARK: Records

    /// Reads the records of a slab and collects their memberships.
    private mutating func records(_ slab: Int) async throws(StoreError) -> [StoredDevice] {
        let key = self.store.keys.slab(self.app, self.realm, self.partition, slab)
        var found: [StoredDevice] = []
        var live: Set<Int> = []
        for (field, value) in try await self.store.fields(of: key, self.partition) {
            guard let position = Int(String(decoding: field, as: UTF8.self)) else {
                self.note("\(self.name): a field in slab \(slab) is no ordinal")
                continue
            }
            let ordinal = slab * StoreLimits.slabOrdinals + position
            live.insert(ordinal)
            do {
                let device = try StoredDevice(
                    app: self.app,
                    realm: self.realm,
                    partition: self.partition,
                    ordinal: UInt32(ordinal),
                    value: value,
                    cipher: self.store.encryption.cipher,
                )
                found.append(device)
                self.subscriptions += device.record.topics.count
                for topic in [TopicExpression.everyoneNumber] + device.record.topics {
                    let key = PostingKey(topic: topic, chunk: ordinal / ChunkSet.capacity)
                    self.expected[key, default: ChunkSet()].insert(ordinal % ChunkSet.capacity)
                }
            } catch {
                guard error.code != .sealed else { throw error }
                self.note("\(self.name), ordinal \(ordinal): \(error.detail)")
            }
        }
        try await self.checkBadges(slab, live)
        return found
    }

    /// Checks that each badge of a slab belongs to a device.
    private mutating func checkBadges(_ slab: Int, _ live: Set<Int>) async throws(StoreError) {
        let key = self.store.keys.badges(self.app, self.realm, self.partition, slab)
        for (field, value) in try await self.store.fields(of: key, self.partition) {
            let ordinal = Int(String(decoding: field, as: UTF8.self)).map { slab * StoreLimits.slabOrdinals + $0 }
            guard let ordinal, live.contains(ordinal) else {
                self.note("\(self.name) counts a badge of nobody, in slab \(slab)")
                continue
            }
            guard let badge = StoredBadge(value), badge.count <= Limits.badgeMax else {
                self.note("\(self.name), ordinal \(ordinal): a badge of \(value.count) bytes")
                continue
            }
            self.badges += 1
        }
    }

    /// Checks that each device is where its id leads.
    private mutating func checkReach(_ devices: [StoredDevice]) async throws(StoreError) {
        let store = self.store
        let owners = devices.map { store.home(of: $0).owner }
        let reached = try await store.readable(self.app, owners).devices
        for (device, owner) in zip(devices, owners) where reached[owner]?.reference != device.reference {
            let text =
                if let other = reached[owner], other.id == device.id {
                    "\(device.id) is in \(self.name) and \(other.realm.name)"
                } else {
                    "\(device.id) in \(self.name) is not reachable by its id"
                }
            self.note(text, .ordinal(device.reference.ordinal, topic: TopicExpression.everyoneNumber))
        }
    }

    /// Checks that each device is found by its token, and by its user.
    private mutating func checkHints(_ devices: [StoredDevice]) async throws(StoreError) {
        let store = self.store
        let missing = try await forEachConcurrently(devices) { device -> [String] in
            let missing = try await store.missingHints(of: device)
            guard !missing.isEmpty else { return [] }
            // Hints are written before the record and after it, so those of a device that was changed meanwhile are left to the next look.
            let (partition, ordinal) = (Int(device.reference.partition), device.reference.ordinal)
            let now = try await store.calls.record(device.app, device.realm, partition: partition, ordinal: ordinal)
            guard now == device.value else { return [] }
            let still = try await store.missingHints(of: device)
            return missing.filter(still.contains)
        }
        for (device, kinds) in zip(devices, missing) {
            for kind in kinds {
                self.note("the \(kind) of \(device.id) does not lead to it", .hints(device: device.id))
            }
        }
    }

    // MARK: Postings

    /// Checks all postings of the place, each in the form that its size requires.
    private mutating func postings(_ meta: PlaceMeta) async throws(StoreError) -> [PostingKey: ChunkSet] {
        let keys = self.store.keys
        var postings: [PostingKey: ChunkSet] = [:]
        for bucket in 0..<meta.fewBuckets {
            let key = keys.bucket(.few, self.app, self.realm, self.partition, bucket)
            for (field, value) in try await self.store.fields(of: key, self.partition) {
                let key = PostingKey(
                    topic: field.prefix(4).reduce(0) { $0 << 8 | UInt32($1) },
                    chunk: field.dropFirst(4).reduce(0) { $0 << 8 | Int($1) },
                )
                postings[key] = ChunkSet(posting: value.span)
                if value.count >= 64 { self.note("\(self.name), topic \(key.topic): \(value.count) bytes in a bucket") }
            }
        }
        let few = Set(postings.keys)
        let wanted = self.keyed.union(self.expected.keys.filter { !few.contains($0) })
        for part in Array(wanted).parts(of: StoreLimits.postingsPerReadMax) {
            let names: [RedisArgument] = part.map { key in
                .text(keys.posting(self.app, self.realm, self.partition, topic: key.topic, chunk: key.chunk))
            }
            let reply = try await self.store.calls.send(RedisCommand("MGET", names), self.partition)
            for (key, node) in zip(part, reply.children) {
                guard let value = node.bytes else { continue }
                guard let set = ChunkSet(posting: value.span) else {
                    self.note("\(self.name), topic \(key.topic): a posting of \(value.count) bytes")
                    continue
                }
                if few.contains(key) { self.note("\(self.name), topic \(key.topic) is in two forms") }
                postings[key] = set
                let sizes = value.count == ChunkSet.bitmapByteCount ? 192...ChunkSet.capacity : 24...255
                if !sizes.contains(set.count) {
                    self.note("\(self.name), topic \(key.topic): \(set.count) in the wrong form")
                }
            }
        }
        return postings
    }

    /// Checks that postings agree with the records, ordinal by ordinal.
    private mutating func compare(_ postings: [PostingKey: ChunkSet]) {
        for key in Set(self.expected.keys).union(postings.keys) where self.expected[key] != postings[key] {
            let (records, posting) = (self.expected[key] ?? ChunkSet(), postings[key] ?? ChunkSet())
            for (one, other, text) in [
                (records, posting, "its posting has not"), (posting, records, "its record has not"),
            ] {
                var difference = one
                difference.subtract(other)
                difference.forEachOrdinal { position in
                    let ordinal = UInt32(key.chunk * ChunkSet.capacity + position)
                    self.note(
                        "\(self.name), topic \(key.topic): ordinal \(ordinal), which \(text)",
                        .ordinal(ordinal, topic: key.topic)
                    )
                }
            }
        }
    }
}

extension DeviceStore {
    /// Returns which of `token` and `user` do not lead to a device.
    func missingHints(of device: StoredDevice) async throws(StoreError) -> [String] {
        let (app, owner) = (device.app, self.home(of: device).owner)
        var missing: [String] = []
        let owners = try await self.calls.owners(app, self.calls.placed(app, device.record.token))
        if !owners.contains(where: { $0.device == owner }) { missing.append("token") }
        guard !device.record.user.isEmpty else { return missing }
        let placed = self.calls.placed(app, device.record.user)
        let hints = try await self.calls.userDevices(app, placed.partition, [placed.digest])[0]
        if !hints.contains(owner) { missing.append("user") }
        return missing
    }

    /// Returns all of a hash, in no order.
    func fields(of key: String, _ partition: Int) async throws(StoreError) -> [([UInt8], [UInt8])] {
        var nodes = try await self.calls.send(RedisCommand("HGETALL", .text(key)), partition).children.makeIterator()
        var fields: [([UInt8], [UInt8])] = []
        while let field = nodes.next()?.bytes, let value = nodes.next()?.bytes { fields.append((field, value)) }
        return fields
    }
}
