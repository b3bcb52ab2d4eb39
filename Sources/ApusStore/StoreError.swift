package import ApusRedis

/// Why the store could not do what it was asked.
package struct StoreError: RedisFailure, Sendable, CustomStringConvertible {
    /// What kind of trouble it is.
    package struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Value: String {
            case invalidToken = "invalid_token"
            case invalidRegistration = "invalid_registration"
            case tooManyTopics = "too_many_topics"
            case topicLimit = "topic_limit"
            case tooManyAddresses = "too_many_addresses"
            case preconditionFailed = "precondition_failed"
            case foreign
            case contended
            case collision
            case full
            case corrupt
            case redis
        }

        private let value: Value

        /// The token is not one of its provider.
        package static let invalidToken = Code(value: .invalidToken)
        /// A name, attribute or key breaks a rule.
        package static let invalidRegistration = Code(value: .invalidRegistration)
        /// More topics than a device may have.
        package static let tooManyTopics = Code(value: .tooManyTopics)
        /// More topics than the app, or a user of it, may have.
        package static let topicLimit = Code(value: .topicLimit)
        /// More addresses for a purpose than a device may have.
        package static let tooManyAddresses = Code(value: .tooManyAddresses)
        /// The device is not in the state that the caller made a condition.
        package static let preconditionFailed = Code(value: .preconditionFailed)
        /// The device is another user's.
        package static let foreign = Code(value: .foreign)
        /// Others changed the same device or claimed the same token all the time: try again.
        package static let contended = Code(value: .contended)
        /// Another name with the same 64-bit digest is there first.
        package static let collision = Code(value: .collision)
        /// No ordinal or topic number is left.
        package static let full = Code(value: .full)
        /// What Redis holds is not what the store writes.
        package static let corrupt = Code(value: .corrupt)
        /// Redis could not be reached, or refused.
        package static let redis = Code(value: .redis)

        /// The name in problems, metrics and logs.
        package var name: String { self.value.rawValue }
        /// The name.
        package var description: String { self.name }
    }

    /// What kind of trouble it is.
    package let code: Code
    /// The rule or the fact, in words; never a token.
    package let detail: String
    /// What the client of Redis said; only with the code `redis`.
    package let redis: RedisError?
    /// Where it was noticed.
    package let location: String

    init(
        _ code: Code,
        _ detail: String,
        redis: RedisError? = nil,
        file: StaticString = #fileID,
        line: UInt = #line,
    ) {
        self.code = code
        self.detail = detail
        self.redis = redis
        self.location = "\(file):\(line)"
    }

    /// Whether the same call may succeed a moment later.
    package var isRetryable: Bool { self.code == .contended || self.code == .redis }

    /// Whether the error says something about one device only: with another one the same call may succeed at once.
    package var isOfOneDevice: Bool { self.redis.map { !$0.isOutage } ?? (self.code != .redis) }

    /// A sentence for a log line.
    package var description: String { "\(self.code): \(self.detail)" }
}
