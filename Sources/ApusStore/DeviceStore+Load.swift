package import ApusCore
package import ApusMessages
internal import ApusRedis

/// Fills a store at once, for load tests, benchmarks and migrations, where registering one by one would take too long.
extension DeviceStore {
    /// Writes many devices into the empty store of an app, as registering each of them would have: whole hashes of records, ids, tokens,
    /// users and postings, some hundred fields a command. Nobody else may write meanwhile.
    ///
    /// A load that ends with an error leaves a part behind, and the next one refuses to begin; start again from an empty Redis.
    ///
    /// - Parameters:
    ///   - app: the app.
    ///   - count: the number of devices.
    ///   - gatheredMax: devices whose ids, tokens, users and memberships are held in memory at once, some 150 bytes each.
    ///     With more devices than that `device` is asked once for each such part, and must answer the same.
    ///   - device: the device of an index in 0..<count. Ids and tokens are all different; no user has more than
    ///     `StoreLimits.devicesPerUserMax` devices.
    /// - Throws: `preconditionFailed` when the app has devices; what `register` throws of a registration; `collision` and
    ///   `invalidRegistration` of devices that cannot stand beside each other.
    package func load(
        _ app: AppID,
        count: Int,
        gatheredMax: Int = StoreLimits.loadGatheredMax,
        device: @Sendable (Int) -> DeviceRegistration,
    ) async throws(StoreError) {
        precondition(count >= 0 && gatheredMax > 0)
        try await self.requireEmpty(app)
        let partitions = self.keys.keyspace.devicePartitions
        let passes = min(partitions, max(1, (count + gatheredMax - 1) / gatheredMax))
        var loading = Loading(app: app, registeredAt: self.clock.now())
        for pass in 0..<passes {
            loading.range = partitions * pass / passes..<partitions * (pass + 1) / passes
            loading.partitions = loading.range.map { PartitionLoad(app, self.keys, $0) }
            for first in stride(from: 0, to: count, by: StoreLimits.loadStep) {
                let registrations = (first..<min(first + StoreLimits.loadStep, count)).map(device)
                try await self.number(topicsOf: registrations, &loading)
                var full: [(Int, RedisCommand)] = []
                for registration in registrations { try self.gather(registration, &loading, &full) }
                try await self.write(full)
            }
            for partition in loading.range {
                let commands = try loading.partitions[partition - loading.range.lowerBound].finish()
                try await self.write(commands.map { (partition, $0) })
            }
        }
    }

    /// Holds the state of a running load.
    private struct Loading {
        let app: AppID
        let registeredAt: UnixMilliseconds
        var topics: [String: UInt32] = [:]
        /// The partitions of the current pass.
        var range = 0..<0
        var partitions: [PartitionLoad] = []

        init(app: AppID, registeredAt: UnixMilliseconds) {
            self.app = app
            self.registeredAt = registeredAt
        }

        /// Works on a partition, if it belongs to this pass.
        mutating func with<Result, Failure: Error>(
            _ partition: Int,
            _ body: (inout PartitionLoad) throws(Failure) -> Result,
        ) throws(Failure) -> Result? {
            guard self.range.contains(partition) else { return nil }
            return try body(&self.partitions[partition - self.range.lowerBound])
        }
    }

    private func requireEmpty(_ app: AppID) async throws(StoreError) {
        let (calls, keys) = (self.calls, self.keys)
        let counts = try await forEachConcurrently(Array(0..<keys.keyspace.devicePartitions)) { partition in
            var names = [keys.meta(app, partition)]
            // The first records are written first and the meta last, so one of them exists once a load has begun.
            for realm in Realm.allCases {
                names += [keys.meta(app, realm, partition), keys.slab(app, realm, partition, 0)]
            }
            return try await calls.send(RedisCommand("EXISTS", names.map { .text($0) }), partition).integer ?? 0
        }
        guard counts.allSatisfy({ $0 == 0 }) else {
            throw StoreError(.preconditionFailed, "app \(app.text) has devices; a load needs an empty store")
        }
    }

    /// Gives numbers to topics that have none yet.
    private func number(topicsOf registrations: [DeviceRegistration], _ loading: inout Loading) async throws(StoreError)
    {
        /// The owner of the first device in each topic.
        var owners: [String: TopicOwner] = [:]
        for registration in registrations {
            for name in registration.topics ?? [] where loading.topics[name] == nil && owners[name] == nil {
                owners[name] = TopicOwner(device: registration.device, user: registration.user, nil, askedBy: nil)
            }
        }
        guard !owners.isEmpty else { return }
        let (calls, app, topics, known) = (self.calls, loading.app, try Self.topicNames(owners.keys), owners)
        let numbers = try await forEachConcurrently(topics) { topic in
            try await calls.reserveTopic(app, topic, known[topic.text] ?? .nobody, .none)
            return try await calls.numberTopic(app, topic)
        }
        for (topic, number) in zip(topics, numbers) { loading.topics[topic.text] = number }
    }

    private func gather(
        _ registration: DeviceRegistration,
        _ loading: inout Loading,
        _ full: inout [(Int, RedisCommand)],
    ) throws(StoreError) {
        let (app, id) = (loading.app, try Self.identified(registration))
        let owner = self.home(app, id).owner
        let token = try DeviceToken.stored(registration.token, of: registration.provider)
        let placedToken = self.calls.placed(app, token)
        let placedUser = registration.user.isEmpty ? nil : self.calls.placed(app, registration.user)
        _ = loading.with(placedToken.partition) { $0.add(token: placedToken.digest, of: owner) }
        if let placedUser { _ = loading.with(placedUser.partition) { $0.add(user: placedUser.digest, of: owner) } }
        guard loading.range.contains(owner.partition) else { return }

        let names = Set(registration.topics ?? [])
        guard names.count <= Limits.topicsPerDeviceMax else { throw Self.tooManyTopics }
        let topics = names.compactMap { loading.topics[$0] }.sorted()
        let realm = Realm(registration.provider, registration.environment)
        let record = Self.record(
            registration,
            token: token,
            topics: topics,
            realm: realm,
            over: nil,
            seenAt: loading.registeredAt,
            now: loading.registeredAt,
        )
        let header = RecordHeader(
            registeredAt: loading.registeredAt,
            generation: RecordHeader.firstGeneration(of: owner.digest)
        )
        let bytes = try Self.encoded(record)
        try Self.checkSize(record, bytes.count)
        let value = header.bytes + (try self.calls.sealed(bytes, of: loading.app))
        let command = try loading.with(owner.partition) { partition throws(StoreError) in
            try partition.add(owner.digest, realm, value: value, topics: topics)
        }
        if let command = command ?? nil { full.append((owner.partition, command)) }
    }

    private func write(_ commands: [(partition: Int, command: RedisCommand)]) async throws(StoreError) {
        let calls = self.calls
        _ = try await forEachConcurrently(commands) { _ = try await calls.send($0.command, $0.partition) }
    }
}
