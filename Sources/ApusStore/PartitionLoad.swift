internal import ApusCore
internal import ApusRedis

/// Gathers what a load writes into one partition: full hashes of records are written at once, everything else when the last device is
/// known. It is pure.
struct PartitionLoad {
    /// Holds one realm's part.
    private struct Place {
        var next: UInt32 = 0
        /// The values of the hash of records that is not full yet.
        var slab: [[UInt8]] = []
        /// The memberships: the topic, and the ordinal in the lower half.
        var memberships: [UInt64] = []
    }

    private struct Entry {
        let digest: UInt64
        let owner: DeviceOwner
    }

    private struct Identity {
        let digest: UInt64
        let realm: Realm
        let ordinal: UInt32
    }

    private let app: AppID
    private let keys: StoreKeys
    private let partition: Int
    private var places: [Realm: Place] = [:]
    private var identities: [Identity] = []
    private var tokens: [Entry] = []
    private var users: [Entry] = []

    init(_ app: AppID, _ keys: StoreKeys, _ partition: Int) {
        self.app = app
        self.keys = keys
        self.partition = partition
    }

    /// Adds a device whose id leads here.
    ///
    /// - Returns: the command that writes the hash of records that the device filled.
    mutating func add(
        _ digest: UInt64,
        _ realm: Realm,
        value: [UInt8],
        topics: [UInt32],
    ) throws(StoreError) -> RedisCommand? {
        let ordinal = self.places[realm, default: Place()].next
        guard ordinal < StoreLimits.ordinalsMax else {
            throw StoreError(.full, "partition \(self.partition) has no ordinal left")
        }
        self.places[realm, default: Place()].next += 1
        self.places[realm, default: Place()].slab.append(value)
        self.identities.append(Identity(digest: digest, realm: realm, ordinal: ordinal))
        for topic in topics {
            self.places[realm, default: Place()].memberships.append(UInt64(topic) << 32 | UInt64(ordinal))
        }
        guard self.places[realm, default: Place()].slab.count == StoreLimits.slabOrdinals else { return nil }
        return self.takeSlab(realm)
    }

    /// Adds a device whose token leads here.
    mutating func add(token digest: UInt64, of owner: DeviceOwner) {
        self.tokens.append(Entry(digest: digest, owner: owner))
    }

    /// Adds a device whose user leads here.
    mutating func add(user digest: UInt64, of owner: DeviceOwner) {
        self.users.append(Entry(digest: digest, owner: owner))
    }

    /// Returns the commands that write the rest.
    mutating func finish() throws(StoreError) -> [RedisCommand] {
        var commands: [RedisCommand] = []
        for realm in self.places.keys.sorted(by: { $0.name < $1.name }) {
            if !self.places[realm, default: Place()].slab.isEmpty { commands.append(self.takeSlab(realm)) }
            commands += self.realmCommands(realm)
        }
        try self.refuseTwins()
        commands += try self.hintCommands()
        return commands
    }

    private mutating func takeSlab(_ realm: Realm) -> RedisCommand {
        let values = self.places[realm, default: Place()].slab
        self.places[realm, default: Place()].slab.removeAll(keepingCapacity: true)
        let number = (Int(self.places[realm, default: Place()].next) - 1) / StoreLimits.slabOrdinals
        return Self.hash(
            self.keys.slab(self.app, realm, self.partition, number),
            values.enumerated().map { (Array(String($0.offset).utf8), $0.element) },
        )
    }

    /// Returns the commands for ids, postings and meta of one realm.
    private func realmCommands(_ realm: Realm) -> [RedisCommand] {
        let place = self.places[realm, default: Place()]
        let identities = self.identities.filter { $0.realm == realm }
        let idBuckets = LinearHashing.buckets(fields: identities.count)
        var ids = [[([UInt8], [UInt8])]](repeating: [], count: idBuckets)
        for identity in identities {
            let bucket = LinearHashing.bucket(of: LinearHashing.hash(digest: identity.digest), among: idBuckets)
            ids[bucket].append((bigEndian(identity.digest), Array(String(identity.ordinal).utf8)))
        }
        var commands = ids.enumerated().compactMap { bucket, fields in
            fields.isEmpty
                ? nil : Self.hash(self.keys.bucket(.ids, self.app, realm, self.partition, bucket), fields)
        }

        var few: [(hash: UInt32, field: [UInt8], value: [UInt8])] = []
        self.forEachPosting(place) { topic, chunk, members in
            guard members.count < StoreLimits.postingFewMax else {
                let key = self.keys.posting(self.app, realm, self.partition, topic: topic, chunk: chunk)
                let isBitmap = members.count >= StoreLimits.postingBitmapFrom
                let value = isBitmap ? ChunkSet(members.lazy.map(Int.init)).bitmap : Self.packed(members)
                commands.append(RedisCommand("SET", .text(key), .bytes(value)))
                return
            }
            let field = bigEndian(topic) + (chunk < 256 ? [UInt8(chunk)] : bigEndian(UInt16(chunk)))
            few.append((LinearHashing.hash(topic: topic, chunk: chunk), field, Self.packed(members)))
        }
        let fewBuckets = LinearHashing.buckets(fields: few.count)
        var postings = [[([UInt8], [UInt8])]](repeating: [], count: fewBuckets)
        for entry in few {
            postings[LinearHashing.bucket(of: entry.hash, among: fewBuckets)].append((entry.field, entry.value))
        }
        for (bucket, fields) in postings.enumerated() where !fields.isEmpty {
            commands.append(Self.hash(self.keys.bucket(.few, self.app, realm, self.partition, bucket), fields))
        }

        var meta = [("next", Int(place.next)), ("id_count", identities.count), ("few_count", few.count)]
        if idBuckets > 1 { meta.append(("id", idBuckets)) }
        if fewBuckets > 1 { meta.append(("few", fewBuckets)) }
        commands.append(Self.numbers(self.keys.meta(self.app, realm, self.partition), meta))
        return commands
    }

    /// Returns the commands for tokens and users, and their part of the app's meta.
    private func hintCommands() throws(StoreError) -> [RedisCommand] {
        var commands: [RedisCommand] = []
        var meta: [(String, Int)] = []
        let tokens = Self.grouped(self.tokens, byteCount: StoreCalls.tokenPrefixByteCount) { owners in
            // One settled owner stands alone; otherwise each has its letter.
            owners.count == 1 ? owners[0].bytes : owners.flatMap { [UInt8(ascii: "s")] + $0.bytes }
        }
        let users = Self.grouped(self.users, byteCount: StoreCalls.userPrefixByteCount) { $0.flatMap(\.bytes) }
        let userBytesMax = StoreLimits.devicesPerUserMax * DeviceOwner.byteCount
        guard users.allSatisfy({ $0.value.count <= userBytesMax }) else {
            throw StoreError(.invalidRegistration, "a user has more than \(StoreLimits.devicesPerUserMax) devices")
        }
        for (name, entries) in [(StoreKeys.AppBuckets.tokens, tokens), (.users, users)] where !entries.isEmpty {
            let count = LinearHashing.buckets(fields: entries.count)
            var buckets = [[([UInt8], [UInt8])]](repeating: [], count: count)
            for entry in entries {
                let hash = LinearHashing.hash(digest: entry.digest)
                buckets[LinearHashing.bucket(of: hash, among: count)].append((entry.field, entry.value))
            }
            for (bucket, fields) in buckets.enumerated() where !fields.isEmpty {
                commands.append(Self.hash(self.keys.bucket(name, self.app, self.partition, bucket), fields))
            }
            meta.append(("\(name.rawValue)_count", entries.count))
            if count > 1 { meta.append((name.rawValue, count)) }
        }
        if !meta.isEmpty { commands.append(Self.numbers(self.keys.meta(self.app, self.partition), meta)) }
        return commands
    }

    /// Refuses a device or a token that occurs twice, because the store would contradict itself.
    private func refuseTwins() throws(StoreError) {
        guard Set(self.identities.map(\.digest)).count == self.identities.count else {
            throw StoreError(.collision, "two of the devices have the same id")
        }
        guard Set(self.tokens.map(\.digest)).count == self.tokens.count else {
            throw StoreError(.invalidRegistration, "two of the devices have the same token")
        }
    }

    /// Returns the postings by topic and chunk, members ascending; topic 0 comes first.
    private func forEachPosting(_ place: Place, _ body: (UInt32, Int, [UInt16]) -> Void) {
        let capacity = UInt32(ChunkSet.capacity)
        for first in stride(from: 0, to: place.next, by: ChunkSet.capacity) {
            let count = min(capacity, place.next - first)
            body(TopicExpression.everyoneNumber, Int(first / capacity), (0..<count).map { UInt16($0) })
        }
        let memberships = place.memberships.sorted()
        var index = 0
        while index < memberships.count {
            let topic = UInt32(truncatingIfNeeded: memberships[index] >> 32)
            let chunk = UInt32(truncatingIfNeeded: memberships[index]) / capacity
            var members: [UInt16] = []
            while index < memberships.count, UInt32(truncatingIfNeeded: memberships[index] >> 32) == topic,
                UInt32(truncatingIfNeeded: memberships[index]) / capacity == chunk
            {
                members.append(UInt16(UInt32(truncatingIfNeeded: memberships[index]) % capacity))
                index += 1
            }
            body(topic, Int(chunk), members)
        }
    }

    /// Groups entries by field: those whose digests begin alike share one.
    private static func grouped(
        _ entries: [Entry],
        byteCount: Int,
        _ value: ([DeviceOwner]) -> [UInt8],
    ) -> [(digest: UInt64, field: [UInt8], value: [UInt8])] {
        let sorted = entries.sorted { $0.digest < $1.digest }
        let shift = UInt64(64 - 8 * byteCount)
        var grouped: [(digest: UInt64, field: [UInt8], value: [UInt8])] = []
        var index = 0
        while index < sorted.count {
            let digest = sorted[index].digest
            var owners: [DeviceOwner] = []
            while index < sorted.count, sorted[index].digest >> shift == digest >> shift {
                owners.append(sorted[index].owner)
                index += 1
            }
            grouped.append((digest, Array(bigEndian(digest).prefix(byteCount)), value(owners)))
        }
        return grouped
    }

    private static func packed(_ members: [UInt16]) -> [UInt8] { members.flatMap { bigEndian($0) } }

    private static func hash(_ key: String, _ fields: [([UInt8], [UInt8])]) -> RedisCommand {
        let byteCount = fields.reduce(key.utf8.count + 32) { $0 + $1.0.count + $1.1.count + 16 }
        var encoder = RESPEncoder(argumentCount: 2 + 2 * fields.count, reservingBytes: byteCount)
        encoder.append("HSET")
        encoder.append(key)
        for (field, value) in fields {
            encoder.append(field)
            encoder.append(value)
        }
        return RedisCommand(encoder, label: "hset")
    }

    private static func numbers(_ key: String, _ fields: [(String, Int)]) -> RedisCommand {
        Self.hash(key, fields.map { (Array($0.0.utf8), Array(String($0.1).utf8)) })
    }
}
