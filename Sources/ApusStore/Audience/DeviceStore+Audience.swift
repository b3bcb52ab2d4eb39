package import ApusCore
internal import ApusMessages
internal import ApusRedis

/// How large an audience is on one route, and what it took to find out.
package struct AudienceSize: Hashable, Sendable {
    /// Devices that topics leave: those whose records must be read, unless topics say it all.
    package var candidates = 0
    /// Devices that are meant; nil: the records were not read.
    package var matching: Int?
    /// Postings that were read.
    package var postings = 0
    /// Records that were read, or would have to be.
    package var records = 0
}

extension DeviceStore {
    /// An expression made ready for an app.
    ///
    /// - Parameter now: what `now` means in it.
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

    /// Those of a chunk's ordinals whose records, as they are now, are meant.
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

    /// How many devices an audience has on one route: exact, from postings alone where topics say it all.
    ///
    /// - Parameter readsRecords: whether records are read where topics do not say it all; else `matching` is nil there.
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
