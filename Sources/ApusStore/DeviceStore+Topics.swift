package import ApusCore
internal import ApusRedis

/// A topic's number is unique per app: counter × T + the partition of the name, never 0. Once given it stays.
extension DeviceStore {
    /// The number of a topic; nil when no device was ever in it.
    package func topicNumber(_ app: AppID, _ topic: TopicName) async throws(StoreError) -> UInt32? {
        try await self.calls.findTopic(app, topic)
    }

    /// The names of topics by their numbers; nil where there is none.
    package func topicNames(_ app: AppID, _ numbers: [UInt32]) async throws(StoreError) -> [TopicName?] {
        let calls = self.calls
        let partitions = self.keys.keyspace.devicePartitions
        let groups = Dictionary(grouping: Set(numbers)) { Int($0) % partitions }.sorted { $0.key < $1.key }
        let lookups = groups.flatMap { partition, numbers in
            numbers.parts(of: StoreLimits.lookupMax).map { (partition, $0) }
        }
        let parts = try await forEachConcurrently(lookups) { partition, numbers in
            zip(numbers, try await calls.topicNames(app, partition, numbers)).map { ($0, $1) }
        }
        var names: [UInt32: TopicName] = [:]
        for (number, name) in parts.joined() { names[number] = name.flatMap { try? TopicName($0) } }
        return numbers.map { names[$0] }
    }

    /// The numbers of topics, ascending.
    ///
    /// - Parameter allot: whether a topic without a number gets one; else it is left out.
    func numbers(_ app: AppID, _ topics: [TopicName], allot: Bool) async throws(StoreError) -> [UInt32] {
        let calls = self.calls
        let numbers = try await forEachConcurrently(topics) { topic in
            if let number = try await calls.findTopic(app, topic) { return number }
            return allot ? try await calls.numberTopic(app, topic) : TopicExpression.everyoneNumber
        }
        return numbers.filter { $0 != TopicExpression.everyoneNumber }.sorted()
    }

    /// Checks names of topics as an app sends them; each once.
    static func checked(_ names: [String]) throws(StoreError) -> [TopicName] {
        let topics = Set(try Self.topicNames(names))
        guard topics.count <= Limits.topicsPerDeviceMax else { throw Self.tooManyTopics }
        return topics.sorted()
    }

    static func topicNames(_ names: some Sequence<String>) throws(StoreError) -> [TopicName] {
        do throws(IdentifierError) {
            return try names.map { name throws(IdentifierError) in try TopicName(name) }
        } catch {
            throw StoreError(.invalidRegistration, "\(error)")
        }
    }

    static let tooManyTopics = StoreError(
        .tooManyTopics,
        "a device may be in \(Limits.topicsPerDeviceMax) topics",
    )
}
