internal import ApusCore
internal import ApusMessages
internal import ApusProviders
internal import ApusStore

extension SendContext {
    /// The condition that a device's record must meet just before sending.
    enum Predicate: Sendable {
        /// The device exists.
        case exists
        /// The device is one of these.
        case devices(Set<String>)
        /// The device's topics fulfil an expression.
        case topics(TopicExpression)
        /// The device's topics and attributes fulfil an expression.
        case audience(Audience)
        /// The device belongs to one of these users.
        case users([[UInt8]])
    }
}

extension SendContext.Predicate {
    /// Resolves a target to a predicate, with the current numbers of its topics.
    ///
    /// - Parameter now: the value of `now` in an expression.
    /// - Returns: the predicate, and true if the target names a topic that has never had a member. Such a topic matches
    ///   no device until it gets a number.
    static func resolve(
        _ target: Target,
        app: AppID,
        now: UnixMilliseconds,
        in store: DeviceStore,
    ) async throws -> (predicate: Self, namesUnknownTopic: Bool) {
        switch target {
        case .topic(let name): return try await Self.topics(.topic(try TopicName(name)), app, store)
        case .condition(let text): return try await Self.topics(try TopicCondition(parsing: text), app, store)
        case .expression(let text):
            let expression = try AudienceExpression(parsing: text)
            let numbers = try await Self.numbers(expression.topics, app, store)
            let audience = try await store.audience(app, expression, now: now)
            return (.audience(audience), numbers.count < Set(expression.topics).count)
        case .devices(let ids): return (.devices(Set(ids)), false)
        case .users(let ids): return (.users(ids.map { Array($0.utf8) }), false)
        default: return (.exists, false)
        }
    }

    private static func topics(
        _ condition: TopicCondition,
        _ app: AppID,
        _ store: DeviceStore,
    ) async throws -> (predicate: Self, namesUnknownTopic: Bool) {
        let numbers = try await Self.numbers(condition.topics, app, store)
        return (.topics(Self.expression(of: condition, numbers)), numbers.count < Set(condition.topics).count)
    }

    /// Returns the numbers of those topics that have one.
    private static func numbers(
        _ topics: [TopicName],
        _ app: AppID,
        _ store: DeviceStore,
    ) async throws -> [TopicName: UInt32] {
        var numbers: [TopicName: UInt32] = [:]
        for topic in Set(topics) { numbers[topic] = try await store.topicNumber(app, topic) }
        return numbers
    }

    private static func expression(of condition: TopicCondition, _ numbers: [TopicName: UInt32]) -> TopicExpression {
        switch condition {
        case .topic(let name): numbers[name].map { .topic($0) } ?? .nobody
        case .not(let inner): .not(Self.expression(of: inner, numbers))
        case .and(let one, let other): .and([Self.expression(of: one, numbers), Self.expression(of: other, numbers)])
        case .or(let one, let other): .or([Self.expression(of: one, numbers), Self.expression(of: other, numbers)])
        }
    }
}
