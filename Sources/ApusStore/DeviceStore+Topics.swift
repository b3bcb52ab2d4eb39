package import ApusCore
internal import ApusMessages
internal import ApusRedis

/// Numbers topics. A number is unique per app: counter × T + the partition of the name, never 0. It is never given to another topic.
extension DeviceStore {
    /// Returns the number of a topic; nil when no device was ever in it.
    package func topicNumber(_ app: AppID, _ topic: TopicName) async throws(StoreError) -> UInt32? {
        try await self.calls.findTopic(app, topic)
    }

    /// Returns all topics of an app, in order; one that no device is in any more is among them for eight days.
    package func topics(of app: AppID) async throws(StoreError) -> [TopicName] {
        var (topics, cursor) = (Set<TopicName>(), "0")
        repeat {
            let part = try await self.calls.topicList(app, from: cursor)
            topics.formUnion(part.topics)
            cursor = part.next
        } while cursor != "0"
        return topics.sorted()
    }

    /// Returns the names of topics by their numbers; nil where there is none.
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

    /// Returns the numbers of topics, ascending.
    ///
    /// - Parameter owner: the owner of topics without a number, which get one; nil to leave such topics out.
    /// - Throws: `topicLimit` when the app, or the owner, has the maximum of topics.
    func numbers(_ app: AppID, _ topics: [TopicName], allotTo owner: [UInt8]?) async throws(StoreError) -> [UInt32] {
        let calls = self.calls
        let numbers = try await forEachConcurrently(topics) { topic in
            if let number = try await calls.findTopic(app, topic, enters: owner != nil) { return number }
            guard let owner else { return TopicExpression.everyoneNumber }
            return try await self.allotNumber(app, topic, to: owner)
        }
        return numbers.filter { $0 != TopicExpression.everyoneNumber }.sorted()
    }

    /// Gives a topic its number: the one that it has, or a new one.
    ///
    /// - Parameter owner: whose the topic becomes.
    /// - Throws: `topicLimit` when the app, or the owner, has as many topics as may be.
    func allotNumber(_ app: AppID, _ topic: TopicName, to owner: [UInt8]) async throws(StoreError) -> UInt32 {
        try await self.calls.reserveTopic(app, topic, owner, self.topicLimits)
        return try await self.calls.numberTopic(app, topic)
    }

    /// Names who answers for topics that come up with a device: its user, or the device itself.
    static func topicOwner(user: String, device: String) -> [UInt8] {
        bigEndian(DeviceToken.digest(Array((user.isEmpty ? "d\0" + device : "u\0" + user).utf8)))
    }

    /// Checks names of topics as an app sends them, and returns each once.
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

/// Limits how many topics there may be, so that nobody fills Redis with names.
package struct TopicLimits: Hashable, Sendable {
    /// The maximum of topics of one app.
    package var perApp: Int
    /// The maximum of topics of one app that were first entered by devices of one user, or by one device without a user.
    package var perOwner: Int

    /// The default limits.
    package static let `default` = TopicLimits(perApp: 10_000, perOwner: 200)
    /// The limits of the numbering: as many topics as there are numbers.
    static let none = TopicLimits(perApp: StoreLimits.topicNumberMax, perOwner: StoreLimits.topicNumberMax)

    /// Creates limits.
    package init(perApp: Int, perOwner: Int) {
        precondition(perApp > 0 && perOwner > 0)
        self.perApp = perApp
        self.perOwner = perOwner
    }
}

extension StoredDevice {
    /// The owner of topics that the device is the first to enter.
    var topicOwner: [UInt8] { DeviceStore.topicOwner(user: self.record.user, device: self.id) }
}
