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
    /// Devices whose badge was counted.
    package private(set) var badges = 0
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
        check.refuseTwins()
        let tokens = check.holders { store.calls.placed(app, $0.record.token) }
        let users = check.holders { $0.record.user.isEmpty ? nil : store.calls.placed(app, $0.record.user) }
        for partition in 0..<store.keys.keyspace.devicePartitions {
            try await check.tokens(partition, tokens[partition] ?? [:])
            try await check.users(partition, users[partition] ?? [:])
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
            var found: [DeviceOwner: StoredDevice] = [:]
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
                found[self.store.home(of: device).owner] = device
                for topic in [TopicExpression.everyoneNumber] + device.record.topics {
                    let key = PostingKey(topic: topic, chunk: ordinal / ChunkSet.capacity)
                    expected[key, default: ChunkSet()].insert(ordinal % ChunkSet.capacity)
                }
            }
            try await self.checkBadges(realm, partition, slab, live)
            let reached = try await self.store.read(self.app, Array(found.keys))
            for (owner, device) in found where reached[owner] != device {
                self.problems.append("\(device.id) in \(place) is not reachable by its id")
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

    /// The badges of a slab: each of a device that is there.
    private mutating func checkBadges(
        _ realm: Realm,
        _ partition: Int,
        _ slab: Int,
        _ live: Set<Int>,
    ) async throws(StoreError) {
        let key = self.store.keys.badges(self.app, realm, partition, slab)
        for (field, value) in try await self.hash(key, partition) {
            let ordinal = Int(String(decoding: field, as: UTF8.self)).map { slab * StoreLimits.slabOrdinals + $0 }
            guard let ordinal, live.contains(ordinal) else {
                self.problems.append("\(realm.name)/\(partition) counts a badge of nobody")
                continue
            }
            guard let badge = StoredBadge(value), badge.count <= Limits.badgeMax else {
                self.problems.append("\(realm.name)/\(partition): a badge of \(value.count) bytes")
                continue
            }
            self.badges += 1
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

    /// No two records hold the same token.
    private mutating func refuseTwins() {
        var holders: [[UInt8]: String] = [:]
        for device in self.devices.values.sorted(by: { $0.id < $1.id }) {
            if let other = holders.updateValue(device.id, forKey: device.record.token) {
                self.problems.append("\(device.id) and \(other) hold the same token")
            }
        }
    }

    /// Who should be found, by whose device it is.
    private typealias Holders = [DeviceOwner: (id: String, place: StoreCalls.Placed)]

    /// Where each device's token, or user, leads, by partition.
    private func holders(_ placed: (StoredDevice) -> StoreCalls.Placed?) -> [Int: Holders] {
        var holders: [Int: Holders] = [:]
        for device in self.devices.values {
            guard let place = placed(device) else { continue }
            holders[place.partition, default: [:]][self.store.home(of: device).owner] = (device.id, place)
        }
        return holders
    }

    /// The tokens of a partition: each leads to whoever holds it; what is there besides is counted.
    private mutating func tokens(_ partition: Int, _ expected: Holders) async throws(StoreError) {
        var missing = expected
        for (prefix, value) in try await self.allEntries(.tokens, partition) {
            let owners = DeviceStore.tokenOwners(value)
            if owners.count != 1 || !owners[0].isSettled { self.unsettledTokens += 1 }
            for owner in owners { self.found(owner.device, prefix, expected, &missing) }
        }
        for (id, _) in missing.values { self.problems.append("the token of \(id) does not lead to it") }
    }

    /// The users of a partition, likewise.
    private mutating func users(_ partition: Int, _ expected: Holders) async throws(StoreError) {
        var missing = expected
        for (prefix, value) in try await self.allEntries(.users, partition) {
            for owner in DeviceOwner.list(value) { self.found(owner, prefix, expected, &missing) }
        }
        for (id, _) in missing.values { self.problems.append("the user of \(id) does not lead to it") }
    }

    private mutating func found(
        _ owner: DeviceOwner,
        _ prefix: DeviceStore.DigestPrefix,
        _ expected: Holders,
        _ missing: inout Holders,
    ) {
        if let holder = expected[owner], prefix.leads(holder.place) {
            missing[owner] = nil
        } else {
            self.staleHints += 1
        }
    }

    private mutating func allEntries(
        _ name: StoreKeys.AppBuckets,
        _ partition: Int,
    ) async throws(StoreError) -> [(prefix: DeviceStore.DigestPrefix, value: [UInt8])] {
        var entries: [(prefix: DeviceStore.DigestPrefix, value: [UInt8])] = []
        let buckets = try await self.store.bucketCount(name, self.app, partition)
        for bucket in 0..<buckets {
            let found = try await self.store.entries(name, self.app, partition, bucket)
            for (prefix, _) in found
            where LinearHashing.bucket(of: LinearHashing.hash(digest: prefix.digest), among: buckets) != bucket {
                self.problems.append("\(name.rawValue)/\(partition) has an entry in the wrong bucket")
            }
            entries += found
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
