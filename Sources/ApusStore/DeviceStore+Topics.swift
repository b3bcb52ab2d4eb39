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
    /// - Throws: `topicLimit` when the app, its users, or the owner, has the maximum of topics.
    func numbers(_ app: AppID, _ topics: [TopicName], allotTo owner: TopicOwner?) async throws(StoreError) -> [UInt32] {
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
    /// - Throws: `topicLimit` when the app, its users, or the owner, has as many topics as may be.
    func allotNumber(_ app: AppID, _ topic: TopicName, to owner: TopicOwner) async throws(StoreError) -> UInt32 {
        try await self.calls.reserveTopic(app, topic, owner, self.topicLimits)
        return try await self.calls.numberTopic(app, topic)
    }

    /// Returns the numbers of topics that a device is to leave and that may have none any more.
    ///
    /// A master may have forgotten a number that a record on another one still has. A topic gets the same number again when the next device enters
    /// it, and a device that has left it meanwhile must not be in it then. Only a topic that fits such a number of the record is numbered.
    func numbersAgain(
        _ app: AppID,
        _ topics: [TopicName],
        of device: DeviceID,
    ) async throws(StoreError) -> [UInt32] {
        guard let stored = try await self.get(app, device), !stored.record.topics.isEmpty else { return [] }
        let names = try await self.topicNames(app, stored.record.topics)
        let nameless = zip(stored.record.topics, names).filter { $0.1 == nil }.map(\.0)
        let fitting = topics.filter { topic in nameless.contains { self.mayBe($0, of: topic, app) } }
        let calls = self.calls
        return try await forEachConcurrently(fitting) { topic in
            if let number = try await calls.findTopic(app, topic) { return number }
            try await calls.reserveTopic(app, topic, .nobody, TopicLimits.none)
            return try await calls.numberTopic(app, topic)
        }
    }

    /// Returns whether a number may be that of a topic: partition and hash are those of its name, as topics.lua says.
    private func mayBe(_ number: UInt32, of topic: TopicName, _ app: AppID) -> Bool {
        let placed = self.calls.placed(app, topic.text)
        let (counter, partition) = Int(number).quotientAndRemainder(dividingBy: self.keys.keyspace.devicePartitions)
        let hash = Int(truncatingIfNeeded: placed.digest >> 32) % StoreLimits.topicHashes
        return partition == placed.partition && (counter - 1) % StoreLimits.topicHashes == hash
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
    /// The maximum of topics of one app that were first entered by devices of one user, or by one device that never had a user.
    package var perOwner: Int
    /// The maximum of topics of one app that users' devices asked for themselves: three quarters, so that backends always find room.
    package var perUsers: Int { self.perApp - self.perApp / 4 }

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

/// Names who answers for a topic that is new.
struct TopicOwner: Hashable, Sendable {
    /// The owner that is not counted.
    static let nobody = TopicOwner(digest: [], isUser: false)

    /// Eight bytes; none for nobody.
    let digest: [UInt8]
    /// True when a user's device asks for the topic itself, which then counts among those of all users.
    let isUser: Bool

    private init(digest: [UInt8], isUser: Bool) {
        self.digest = digest
        self.isUser = isUser
    }

    /// Names the owner of topics that come up with a device: the user who asks, else the device's user, else the user who had it last, else the
    /// device itself. A user who leaves devices to nobody, and enters topics with them, still counts as one.
    ///
    /// - Parameter record: the device as it is; nil for one that is new.
    init(device: String, user: String, _ record: DeviceRecord?, askedBy asking: UserID?) {
        let name = asking?.text ?? (user.isEmpty ? record?.user ?? "" : user)
        let digest = name.isEmpty ? record?.formerUser ?? 0 : DeviceRecord.digest(ofUser: name)
        let text = digest == 0 ? "d\0" + device : "u\0" + String(digest, radix: 16)
        self.init(digest: bigEndian(DeviceToken.digest(Array(text.utf8))), isUser: asking != nil)
    }
}
