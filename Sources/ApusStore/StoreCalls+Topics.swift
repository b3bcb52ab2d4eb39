internal import ApusCore
internal import ApusRedis

/// The list of an app's topics, and what keeps it short.
extension StoreCalls {
    /// Returns the partition of the list of an app's topics.
    func topicListPartition(_ app: AppID) -> Int { self.placed(app, "").partition }

    /// Enters a topic in the app's list.
    ///
    /// - Throws: `topicLimit` when there is no room.
    func reserveTopic(
        _ app: AppID,
        _ topic: TopicName,
        _ owner: TopicOwner,
        _ limits: TopicLimits,
    ) async throws(StoreError) {
        let partition = self.topicListPartition(app)
        let call = ReserveTopicCall(
            keys: [self.keys.meta(app, partition)],
            name: topic.text,
            topicsMax: limits.perApp,
            ownerTopicsMax: limits.perOwner,
            owner: owner.digest,
            usersTopicsMax: owner.isUser ? limits.perUsers : 0,
        )
        switch try await self.call(call, partition).integer {
        case 1: return
        case 0:
            throw StoreError(
                .topicLimit,
                "the app has \(limits.perApp) topics, as many as it may: use topics that there are, or raise "
                    + "registration.topics_per_app",
            )
        case -1:
            throw StoreError(
                .topicLimit,
                "\(limits.perOwner) topics came up with devices of this user, as many as may: use topics that there are, or raise "
                    + "registration.topics_per_user",
            )
        case -2:
            throw StoreError(
                .topicLimit,
                "users' devices asked for \(limits.perUsers) topics of the app, as many as may: use topics that there are, let a backend "
                    + "enter new ones, or raise registration.topics_per_app",
            )
        default: throw Self.unexpected(ReserveTopicCall.function)
        }
    }

    /// Takes a topic from the app's list.
    func releaseTopic(_ app: AppID, _ topic: TopicName) async throws(StoreError) {
        let partition = self.topicListPartition(app)
        let call = ReleaseTopicCall(keys: [self.keys.meta(app, partition)], name: topic.text)
        _ = try await self.call(call, partition)
    }

    /// Forgets a topic without devices, once it has been so for long enough.
    ///
    /// - Returns: whether it is forgotten.
    func forgetTopic(_ app: AppID, _ topic: TopicName, after rest: Int64) async throws(StoreError) -> Bool {
        let name = self.placed(app, topic.text)
        let call = ForgetTopicCall(
            keys: [self.keys.meta(app, name.partition)],
            digest: bigEndian(name.digest),
            name: topic.text,
            restMilliseconds: rest,
        )
        return try await self.call(call, name.partition).integer == 1
    }

    /// Returns those of the topics that have devices in a partition, whatever the realm.
    ///
    /// - Parameter numbers: at most `StoreLimits.topicsPerCallMax`.
    func usedTopics(_ app: AppID, _ partition: Int, _ numbers: [UInt32]) async throws(StoreError) -> Set<UInt32> {
        let call = UsedTopicsCall(
            keys: Realm.allCases.map { self.keys.meta(app, $0, partition) },
            numbers: numbers,
        )
        let reply = try await self.call(call, partition)
        let answers = reply.children.compactMap(\.integer)
        guard answers.count == numbers.count else { throw Self.unexpected(UsedTopicsCall.function) }
        return Set(zip(numbers, answers).filter { $1 == 1 }.map(\.0))
    }

    /// Names of an app's topics, a part of them.
    ///
    /// - Parameter cursor: where to go on; "0" is the beginning, and what comes with the last part.
    func topicList(
        _ app: AppID,
        from cursor: String,
    ) async throws(StoreError) -> (topics: [TopicName], next: String) {
        let partition = self.topicListPartition(app)
        let command = RedisCommand(
            "HSCAN",
            .text(self.keys.topicList(app, partition)),
            .text(cursor),
            "COUNT",
            .integer(StoreLimits.topicsPerCallMax),
        )
        let reply = try await self.send(command, partition)
        guard let next = reply.element(0)?.string, let fields = reply.element(1)?.children else {
            throw StoreError(.corrupt, "HSCAN gave an answer of another form")
        }
        let names = fields.enumerated().filter { $0.offset.isMultiple(of: 2) }.compactMap { $0.element.string }
        return (names.compactMap { try? TopicName($0) }, next)
    }
}
