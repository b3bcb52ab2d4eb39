package import ApusCore
internal import ApusMessages
package import ApusRedis

/// Reads devices for the dispatcher.
extension DeviceStore {
    /// Returns the devices of these ids, in their order; nil where there is none.
    ///
    /// - Throws: `corrupt` when a record cannot be read.
    package func resolve(_ app: AppID, devices: [DeviceID]) async throws(StoreError) -> [StoredDevice?] {
        try await self.find(app, devices: devices).map { found throws(StoreError) in try found?.device() }
    }

    /// Returns what stands under these ids, in their order; nil where there is no device.
    package func find(_ app: AppID, devices: [DeviceID]) async throws(StoreError) -> [FoundDevice?] {
        let homes = devices.map { self.home(app, $0) }
        let found = try await self.find(app, homes.map(\.owner))
        return homes.map { home in
            // Another device's id may share the digest; then there is no device of this id.
            found[home.owner].flatMap { $0.isOther(than: home.id) ? nil : $0 }
        }
    }

    /// Returns the devices at these homes, by home.
    ///
    /// - Throws: `corrupt` when a record cannot be read.
    func read(_ app: AppID, _ owners: [DeviceOwner]) async throws(StoreError) -> [DeviceOwner: StoredDevice] {
        var devices: [DeviceOwner: StoredDevice] = [:]
        for (owner, found) in try await self.find(app, owners) { devices[owner] = try found.device() }
        return devices
    }

    /// Returns the devices at these homes, by home, and the homes whose records cannot be read.
    func readable(
        _ app: AppID,
        _ owners: [DeviceOwner],
    ) async throws(StoreError) -> (devices: [DeviceOwner: StoredDevice], corrupt: Set<DeviceOwner>) {
        var (devices, corrupt): ([DeviceOwner: StoredDevice], Set<DeviceOwner>) = ([:], [])
        for (owner, found) in try await self.find(app, owners) {
            switch found {
            case .device(let device): devices[owner] = device
            case .corrupt: corrupt.insert(owner)
            }
        }
        return (devices, corrupt)
    }

    /// Returns what stands at these homes, by home.
    ///
    /// - Throws: `sealed` when a record is encrypted with a key that is not known.
    func find(_ app: AppID, _ owners: [DeviceOwner]) async throws(StoreError) -> [DeviceOwner: FoundDevice] {
        let calls = self.calls
        if let owner = owners.first, owners.count == 1 {
            let call = calls.findDevices(app, owner.partition, [owner.digest], omitsTime: true)
            let found = try await calls.answer(to: call).devices
            guard let device = found.first else { return [:] }
            return [owner: try FoundDevice(device, app, owner.partition, cipher: calls.encryption.cipher)]
        }
        let byPartition = Dictionary(grouping: Set(owners), by: \.partition).sorted { $0.key < $1.key }
        let lookups = byPartition.flatMap { partition, owners in
            owners.parts(of: StoreLimits.lookupMax).map { (partition, $0) }
        }
        let parts = try await forEachConcurrently(lookups) { partition, owners in
            let call = calls.findDevices(app, partition, owners.map(\.digest), omitsTime: true)
            let found = try await calls.answer(to: call).devices
            return try found.map { found throws(StoreError) in
                (owners[found.index], try FoundDevice(found, app, partition, cipher: calls.encryption.cipher))
            }
        }
        return Dictionary(parts.joined()) { first, _ in first }
    }

    /// Returns how many chunks of a partition a plan must visit, at least all that hold devices.
    package func chunkCount(_ route: Route, _ partition: Int) async throws(StoreError) -> Int {
        let next = try await self.meta(route, partition).nextOrdinal
        return (next + ChunkSet.capacity - 1) / ChunkSet.capacity
    }

    /// Returns the server of a partition; nil while it is unknown.
    package func server(ofPartition partition: Int) -> RedisEndpoint? {
        let keys = self.calls.keys.keyspace
        return self.calls.client.topology.endpoint(forSlot: keys.tag(partition: partition).slot)
    }

    /// Reads the counters of a place.
    package func meta(_ route: Route, _ partition: Int) async throws(StoreError) -> PlaceMeta {
        let call = PlaceMetaCall(keys: [self.keys.meta(route.app, Realm(route), partition)])
        let reply = try await self.calls.call(call, partition)
        let numbers = reply.children.compactMap(\.integer).map(Int.init)
        guard numbers.count == 6 else { throw StoreCalls.unexpected(PlaceMetaCall.function) }
        return PlaceMeta(
            nextOrdinal: numbers[0],
            live: numbers[1],
            reuses: numbers[2],
            resting: numbers[3],
            idBuckets: numbers[4],
            fewBuckets: numbers[5],
        )
    }

    /// Returns how many devices a route has, by the store's own counters: one read for each partition.
    package func deviceCount(_ route: Route) async throws(StoreError) -> Int {
        let metas = try await forEachConcurrently(Array(0..<self.keys.keyspace.devicePartitions)) { partition in
            try await self.meta(route, partition)
        }
        return metas.reduce(0) { $0 + $1.live }
    }

    /// Evaluates an expression, chunk by chunk.
    ///
    /// - Returns: one set for each chunk of the range.
    package func audience(
        _ route: Route,
        _ partition: Int,
        chunks: Range<Int>,
        _ expression: TopicExpression,
    ) async throws(StoreError) -> [ChunkSet] {
        let topics = expression.topicNumbers
        guard !topics.isEmpty else { return chunks.map { _ in ChunkSet() } }
        precondition(topics.count <= StoreLimits.postingsPerReadMax, "more topics than one read may have")
        let step = StoreLimits.postingsPerReadMax / topics.count
        let parts = Array(chunks).parts(of: step)
        let (calls, key) = (self.calls, self.keys.meta(route.app, Realm(route), partition))
        let sets = try await forEachConcurrently(parts) { part in
            let call = ReadPostingsCall(keys: [key], first: part[0], count: part.count, topics: topics)
            let reply = try await calls.call(call, partition)
            var nodes = reply.children.makeIterator()
            return try part.map { _ in
                var postings: [UInt32: ChunkSet] = [:]
                for topic in topics {
                    guard let set = nodes.next()?.withBytes({ ChunkSet(posting: $0) }) else {
                        throw StoreError(.corrupt, "a posting is neither packed nor a bitmap")
                    }
                    postings[topic] = set
                }
                return expression.evaluate { postings[$0] ?? ChunkSet() }
            }
        }
        return Array(sets.joined())
    }

    /// Reads the records at ordinals of a chunk.
    ///
    /// - Parameter ordinals: the ordinals within the chunk, ascending.
    /// - Returns: one reply for each slab; `RecordRead.forEachRecord` walks over it without allocating.
    package func readSlabs(
        _ route: Route,
        _ partition: Int,
        chunk: Int,
        ordinals: [Int],
    ) async throws(StoreError) -> [(read: RecordRead, reply: RESPReply)] {
        let base = UInt32(chunk * ChunkSet.capacity)
        return try await self.read(
            RecordRead.reads(route, partition, ordinals: ordinals.map { base + UInt32($0) }, self.calls)
        )
    }

    /// Reads the records that references of one partition name. The generation of a record stands in its header.
    ///
    /// - Parameter ordinals: the ordinals, ascending.
    package func readRecords(
        _ route: Route,
        _ partition: Int,
        ordinals: [UInt32],
    ) async throws(StoreError) -> [(read: RecordRead, reply: RESPReply)] {
        try await self.read(RecordRead.reads(route, partition, ordinals: ordinals, self.calls))
    }

    private func read(_ reads: [RecordRead]) async throws(StoreError) -> [(read: RecordRead, reply: RESPReply)] {
        let client = self.calls.client
        let replies = try await forEachConcurrently(reads) { read in
            do throws(RedisError) {
                let reply = try await client.send(read.command, on: read.tag, options: .idempotent)
                try read.check(reply)
                return reply
            } catch {
                throw StoreError(.redis, "\(error)", redis: error)
            }
        }
        for (read, reply) in zip(reads, replies) { try read.checkKeys(reply) }
        return zip(reads, replies).map { ($0, $1) }
    }
}

/// Holds what stands in the place of a device.
package enum FoundDevice: Sendable {
    /// A device.
    case device(StoredDevice)
    /// A record that cannot be read.
    case corrupt(CorruptRecord)

    init(_ found: StoreCalls.Found, _ app: AppID, _ partition: Int, cipher: RecordCipher) throws(StoreError) {
        do throws(StoreError) {
            self = .device(
                try StoredDevice(
                    app: app,
                    realm: found.realm,
                    partition: partition,
                    ordinal: found.ordinal,
                    value: found.value,
                    cipher: cipher,
                )
            )
        } catch {
            guard error.code != .sealed else { throw error }
            let record = CorruptRecord(realm: found.realm, partition: partition, ordinal: found.ordinal, error: error)
            self = .corrupt(record)
        }
    }

    /// The provider and environment.
    package var realm: Realm {
        switch self {
        case .device(let device): device.realm
        case .corrupt(let record): record.realm
        }
    }

    /// Returns the device.
    ///
    /// - Throws: `corrupt` when the record cannot be read.
    func device() throws(StoreError) -> StoredDevice {
        switch self {
        case .device(let device): return device
        case .corrupt(let record): throw record.error
        }
    }

    /// Returns true unless this is certainly no device of that user.
    func mayBe(of user: UserID) -> Bool {
        guard case .device(let device) = self else { return true }
        return device.record.user == user.text
    }

    /// Returns true when this is certainly the device of another id than that.
    fileprivate func isOther(than id: String?) -> Bool {
        guard case .device(let device) = self else { return false }
        return device.id != id
    }
}

/// Names the place of a record that cannot be read.
package struct CorruptRecord: Sendable, CustomStringConvertible {
    /// The provider and environment.
    package let realm: Realm
    let partition: Int
    let ordinal: UInt32
    let error: StoreError

    /// The place and the error.
    package var description: String { "\(self.realm) \(self.partition)/\(self.ordinal): \(self.error.detail)" }
}

/// Holds the counters of a place (one app, realm and partition).
package struct PlaceMeta: Hashable, Sendable {
    /// The ordinals below this number were given at least once.
    package var nextOrdinal: Int
    /// The number of devices.
    package var live: Int
    /// The number of times that an ordinal was given again.
    package var reuses: Int
    /// The freed ordinals that were not given again yet.
    package var resting: Int
    /// The buckets of the ids.
    package var idBuckets: Int
    /// The buckets of the small postings.
    package var fewBuckets: Int
}
