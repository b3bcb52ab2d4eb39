package import ApusCore
internal import ApusMessages
internal import ApusRedis

/// Reads all of an app's part of the store and compares it with itself: for tests and the doctor. Not atomic: to be
/// trusted only while nobody writes.
package struct StoreCheck: Sendable {
    /// What contradicts itself; empty: all is well.
    package private(set) var problems: [String] = []
    /// Hints that no record bears out: harmless, a crash leaves them.
    package private(set) var staleHints = 0
    /// Tokens whose claim was never confirmed: finished by the next claim or the janitor.
    package private(set) var unsettledTokens = 0
    /// Every device, by id.
    package private(set) var devices: [String: StoredDevice] = [:]

    private let store: DeviceStore
    private let app: AppID

    private init(_ store: DeviceStore, _ app: AppID) {
        self.store = store
        self.app = app
    }

    /// Checks an app.
    package static func run(_ store: DeviceStore, _ app: AppID) async throws(StoreError) -> StoreCheck {
        var check = StoreCheck(store, app)
        for partition in 0..<store.keys.keyspace.devicePartitions {
            for realm in Realm.allCases { try await check.place(realm, partition) }
        }
        try await check.hints()
        for partition in 0..<store.keys.keyspace.devicePartitions {
            try await check.tokens(partition)
            try await check.users(partition)
        }
        return check
    }

    private struct PostingKey: Hashable {
        let topic: UInt32
        let chunk: Int
    }

    /// One realm and partition: records, ids, freed ordinals, postings.
    private mutating func place(_ realm: Realm, _ partition: Int) async throws(StoreError) {
        let place = "\(realm.name)/\(partition)"
        let meta = try await self.store.meta(realm.route(of: self.app), partition)
        var expected: [PostingKey: ChunkSet] = [:]
        var live: Set<Int> = []
        for slab in 0..<(meta.nextOrdinal + StoreLimits.slabOrdinals - 1) / StoreLimits.slabOrdinals {
            for (field, value) in try await self.hash(self.store.keys.slab(self.app, realm, partition, slab), partition)
            {
                guard let position = Int(String(decoding: field, as: UTF8.self)) else { continue }
                let ordinal = slab * StoreLimits.slabOrdinals + position
                live.insert(ordinal)
                let device = try StoredDevice(
                    app: self.app,
                    realm: realm,
                    partition: partition,
                    ordinal: UInt32(ordinal),
                    value: value,
                )
                if let other = self.devices.updateValue(device, forKey: device.id) {
                    self.problems.append("\(device.id) is in \(place) and \(other.realm.name)")
                }
                if try await self.store.read(self.store.home(of: device)) != device {
                    self.problems.append("\(device.id) in \(place) is not reachable by its id")
                }
                for topic in [TopicExpression.everyoneNumber] + device.record.topics {
                    let key = PostingKey(topic: topic, chunk: ordinal / ChunkSet.capacity)
                    expected[key, default: ChunkSet()].insert(ordinal % ChunkSet.capacity)
                }
            }
        }
        let postings = try await self.postings(realm, partition, meta)
        for key in Set(expected.keys).union(postings.keys) where expected[key] != postings[key] {
            self.problems.append("topic \(key.topic), chunk \(key.chunk) of \(place): postings and records differ")
        }
        if live.count != meta.live { self.problems.append("\(place) has \(live.count) devices, counts \(meta.live)") }
        if live.count + meta.resting != meta.nextOrdinal {
            self.problems.append("\(place): \(live.count) live and \(meta.resting) resting of \(meta.nextOrdinal)")
        }
    }

    /// All postings of a place, and whether each has the form that its size asks for.
    private mutating func postings(
        _ realm: Realm,
        _ partition: Int,
        _ meta: PlaceMeta,
    ) async throws(StoreError) -> [PostingKey: ChunkSet] {
        let keys = self.store.keys
        var postings: [PostingKey: ChunkSet] = [:]
        for bucket in 0..<meta.fewBuckets {
            for (field, value) in try await self.hash(keys.bucket(.few, self.app, realm, partition, bucket), partition)
            {
                let key = PostingKey(
                    topic: field.prefix(4).reduce(0) { $0 << 8 | UInt32($1) },
                    chunk: field.dropFirst(4).reduce(0) { $0 << 8 | Int($1) },
                )
                postings[key] = ChunkSet(posting: value.span)
                if value.count >= 64 { self.problems.append("topic \(key.topic): \(value.count) bytes in a bucket") }
            }
        }
        let pattern = keys.postingPattern(self.app, realm, partition)
        for name in try await self.scan(pattern, partition) {
            let parts = name.split(separator: ":")
            guard parts.count >= 2, let topic = UInt32(parts[parts.count - 2]), let chunk = Int(parts[parts.count - 1])
            else { continue }
            let key = PostingKey(topic: topic, chunk: chunk)
            let value = try await self.store.calls.send(RedisCommand("GET", .text(name)), partition).bytes ?? []
            guard let set = ChunkSet(posting: value.span) else {
                self.problems.append("topic \(topic): a posting of \(value.count) bytes")
                continue
            }
            if postings.updateValue(set, forKey: key) != nil { self.problems.append("topic \(topic) is in two forms") }
            let sizes = value.count == ChunkSet.bitmapByteCount ? 192...ChunkSet.capacity : 24...255
            if !sizes.contains(set.count) { self.problems.append("topic \(topic): \(set.count) in the wrong form") }
        }
        return postings
    }

    /// What every record needs: its token named once, its user's hint.
    private mutating func hints() async throws(StoreError) {
        var holders: [[UInt8]: String] = [:]
        for device in self.devices.values.sorted(by: { $0.id < $1.id }) {
            let owner = self.store.home(of: device).owner
            if let other = holders.updateValue(device.id, forKey: device.record.token) {
                self.problems.append("\(device.id) and \(other) hold the same token")
            }
            let token = self.store.calls.placed(self.app, device.record.token)
            if try await !self.store.calls.owners(self.app, token).contains(where: { $0.device == owner }) {
                self.problems.append("the token of \(device.id) does not lead to it")
            }
            guard !device.record.user.isEmpty else { continue }
            let user = self.store.calls.placed(self.app, device.record.user)
            if try await !self.store.calls.userDevices(self.app, user.partition, [user.digest])[0].contains(owner) {
                self.problems.append("the user of \(device.id) does not lead to it")
            }
        }
    }

    private mutating func tokens(_ partition: Int) async throws(StoreError) {
        let byOwner = self.devicesByOwner
        for (prefix, value) in try await self.allEntries(.tokens, partition) {
            let owners = DeviceStore.tokenOwners(value)
            if owners.count != 1 || !owners[0].isSettled { self.unsettledTokens += 1 }
            for owner in owners {
                let token = byOwner[owner.device]?.record.token
                let isBorneOut = token.map { prefix.leads(self.store.calls.placed(self.app, $0)) }
                if isBorneOut != true { self.staleHints += 1 }
            }
        }
    }

    private mutating func users(_ partition: Int) async throws(StoreError) {
        let byOwner = self.devicesByOwner
        for (prefix, value) in try await self.allEntries(.users, partition) {
            for owner in DeviceOwner.list(value) {
                let user = byOwner[owner]?.record.user
                let isBorneOut = user.map { prefix.leads(self.store.calls.placed(self.app, $0)) }
                if isBorneOut != true { self.staleHints += 1 }
            }
        }
    }

    private var devicesByOwner: [DeviceOwner: StoredDevice] {
        Dictionary(self.devices.values.map { (self.store.home(of: $0).owner, $0) }) { first, _ in first }
    }

    private mutating func allEntries(
        _ name: StoreKeys.AppBuckets,
        _ partition: Int,
    ) async throws(StoreError) -> [(prefix: DeviceStore.DigestPrefix, value: [UInt8])] {
        var entries: [(prefix: DeviceStore.DigestPrefix, value: [UInt8])] = []
        for bucket in 0..<(try await self.store.bucketCount(name, self.app, partition)) {
            entries += try await self.store.entries(name, self.app, partition, bucket)
        }
        let meta = self.store.keys.meta(self.app, partition)
        let command = RedisCommand("HGET", .text(meta), .text("\(name.rawValue)_count"))
        let count = try await self.store.calls.send(command, partition).integer ?? 0
        if Int(count) != entries.count {
            self.problems.append("\(name.rawValue)/\(partition) has \(entries.count) entries, counts \(count)")
        }
        return entries
    }

    private func hash(_ key: String, _ partition: Int) async throws(StoreError) -> [([UInt8], [UInt8])] {
        let reply = try await self.store.calls.send(RedisCommand("HGETALL", .text(key)), partition)
        var nodes = reply.children.makeIterator()
        var entries: [([UInt8], [UInt8])] = []
        while let field = nodes.next()?.bytes, let value = nodes.next()?.bytes { entries.append((field, value)) }
        return entries
    }

    private func scan(_ pattern: String, _ partition: Int) async throws(StoreError) -> Set<String> {
        var names: Set<String> = []
        var cursor = "0"
        repeat {
            let command = RedisCommand("SCAN", .text(cursor), "MATCH", .text(pattern), "COUNT", 1_000)
            let reply = try await self.store.calls.send(command, partition)
            guard let next = reply.element(0)?.string, let found = reply.element(1) else { break }
            names.formUnion(found.children.compactMap(\.string))
            cursor = next
        } while cursor != "0"
        return names
    }
}
