package import ApusCore
internal import ApusMessages
internal import ApusRedis

/// Holds the size of an audience on one route, and the cost of finding it.
package struct AudienceSize: Hashable, Sendable {
    /// The devices that the topics select; their records must be read unless the topics decide alone.
    package var candidates = 0
    /// The devices in the audience; nil when the records were not read.
    package var matching: Int?
    /// The postings that were read.
    package var postings = 0
    /// The records that were read, or would have to be.
    package var records = 0
}

extension DeviceStore {
    /// Prepares an expression for an app.
    ///
    /// - Parameter now: the time that `now` stands for in it.
    package func audience(
        _ app: AppID,
        _ expression: AudienceExpression,
        now: UnixMilliseconds,
    ) async throws(StoreError) -> Audience {
        var numbers: [TopicName: UInt32] = [:]
        for topic in expression.topics { numbers[topic] = try await self.topicNumber(app, topic) }
        let node = expression.node(numbers, now: now)
        return Audience(node)
    }

    /// Returns those ordinals of a chunk whose current records belong to the audience.
    package func matching(
        _ set: ChunkSet,
        _ audience: RealmAudience,
        _ app: AppID,
        _ partition: Int,
        chunk: Int,
    ) async throws(StoreError) -> ChunkSet {
        guard !audience.isExact, !set.isEmpty else { return set }
        let base = UInt32(chunk * ChunkSet.capacity)
        let route = audience.realm.route(of: app)
        var matching = ChunkSet()
        for (read, reply) in try await self.readSlabs(route, partition, chunk: chunk, ordinals: set.ordinals) {
            read.forEachRecord(in: reply) { ordinal, value in
                guard let header = RecordHeader(value),
                    let view = DeviceRecordView(value, RecordHeader.byteCount..<value.count),
                    audience.matches(view, header, in: value)
                else { return }
                matching.insert(Int(ordinal - base))
            }
        }
        return matching
    }

    /// Counts the devices of an audience on one route: exactly, and from postings alone where the topics decide.
    ///
    /// - Parameter readsRecords: true to read records where the topics do not decide; else `matching` is nil there.
    package func size(
        _ app: AppID,
        _ audience: RealmAudience,
        readsRecords: Bool,
    ) async throws(StoreError) -> AudienceSize {
        let route = audience.realm.route(of: app)
        let topics = audience.postings.topicNumbers.count
        guard topics > 0 else { return AudienceSize(matching: 0) }
        let parts = try await forEachConcurrently(Array(0..<self.keys.keyspace.devicePartitions)) { partition in
            var size = AudienceSize(matching: audience.isExact || readsRecords ? 0 : nil)
            let chunks = try await self.chunkCount(route, partition)
            for chunk in 0..<chunks {
                let set = try await self.audience(route, partition, chunks: chunk..<(chunk + 1), audience.postings)[0]
                size.candidates += set.count
                size.postings += topics
                if audience.isExact {
                    size.matching = size.candidates
                } else {
                    size.records += set.count
                    guard readsRecords else { continue }
                    let matching = try await self.matching(set, audience, app, partition, chunk: chunk)
                    size.matching = (size.matching ?? 0) + matching.count
                }
            }
            return size
        }
        return parts.reduce(into: AudienceSize(matching: audience.isExact || readsRecords ? 0 : nil)) { sum, part in
            sum.candidates += part.candidates
            sum.matching = sum.matching.map { $0 + (part.matching ?? 0) }
            sum.postings += part.postings
            sum.records += part.records
        }
    }
}
