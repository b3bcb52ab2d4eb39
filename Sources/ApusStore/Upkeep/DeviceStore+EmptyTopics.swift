package import ApusCore
internal import ApusRedis

/// Forgets topics that have no devices any more, so that names which were in use once, or never, do not stay for ever.
///
/// A topic is forgotten when it was found without devices twice, with a rest in between in which no device wanted to enter it. A
/// registration that had read its number before the first time has written it long before the second, and stands in a posting then. A
/// number is never given again.
extension DeviceStore {
    /// Returns true when nobody looked for an app's empty topics within that time, so that the caller is to do it.
    package func beginTopicUpkeep(_ app: AppID, within seconds: Int) async throws(StoreError) -> Bool {
        let partition = self.calls.topicListPartition(app)
        let call = BeginUpkeepCall(keys: [self.keys.topicsUpkeep(app, partition)], seconds: seconds)
        return try await self.calls.call(call, partition).integer == 1
    }

    /// Searches for topics without devices, and forgets those that have been without for long enough.
    ///
    /// - Parameters:
    ///   - rest: that time, in milliseconds.
    ///   - throttle: called with the number of postings searched for; it may wait.
    /// - Returns: how many were forgotten.
    package func forgetEmptyTopics(
        _ app: AppID,
        after rest: Int64 = StoreLimits.topicRestMilliseconds,
        throttle: @Sendable (Int) async -> Void,
    ) async throws(StoreError) -> Int {
        var forgotten = 0
        var cursor = "0"
        repeat {
            let part = try await self.calls.topicList(app, from: cursor)
            for topics in part.topics.parts(of: StoreLimits.topicsPerCallMax) {
                forgotten += try await self.forgetEmpty(topics, of: app, after: rest, throttle: throttle)
            }
            cursor = part.next
        } while cursor != "0" && !Task.isCancelled
        return forgotten
    }

    private func forgetEmpty(
        _ topics: [TopicName],
        of app: AppID,
        after rest: Int64,
        throttle: @Sendable (Int) async -> Void,
    ) async throws(StoreError) -> Int {
        let calls = self.calls
        let numbers = try await forEachConcurrently(topics) { try await calls.findTopic(app, $0) }
        let empty = try await self.empty(Set(numbers.compactMap(\.self)), of: app, throttle: throttle)
        var forgotten = 0
        // A topic without a number was only entered in the list: the process has ended, or is about to number it.
        for (topic, number) in zip(topics, numbers) where number.map(empty.contains) ?? true {
            guard try await calls.forgetTopic(app, topic, after: rest) else { continue }
            try await calls.releaseTopic(app, topic)
            forgotten += 1
            // A process that numbered it in between found it in the list, where it is not any more.
            guard try await calls.findTopic(app, topic) != nil else { continue }
            try await calls.reserveTopic(app, topic, .nobody, TopicLimits.none)
        }
        return forgotten
    }

    /// Returns those of the topics that no device is in, in any partition.
    private func empty(
        _ numbers: Set<UInt32>,
        of app: AppID,
        throttle: @Sendable (Int) async -> Void,
    ) async throws(StoreError) -> Set<UInt32> {
        var empty = numbers
        for partition in 0..<self.keys.keyspace.devicePartitions {
            guard !empty.isEmpty else { break }
            var chunks = 0
            for realm in Realm.allCases { chunks += try await self.chunkCount(realm.route(of: app), partition) }
            guard chunks > 0 else { continue }
            let countMax = min(StoreLimits.topicsPerCallMax, max(1, StoreLimits.usedPostingsPerCallMax / chunks))
            for part in empty.sorted().parts(of: countMax) {
                empty.subtract(try await self.calls.usedTopics(app, partition, part))
                await throttle(part.count * chunks)
            }
        }
        return empty
    }
}
