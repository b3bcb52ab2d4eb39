package import ApusRedis

/// Describes why a call to the store failed.
package struct StoreError: DisposedError, Sendable, CustomStringConvertible {
    /// The kind of failure.
    package struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Value: String {
            case invalidToken = "invalid_token"
            case invalidRegistration = "invalid_registration"
            case tooManyTopics = "too_many_topics"
            case topicLimit = "topic_limit"
            case deviceLimit = "device_limit"
            case tooManyAddresses = "too_many_addresses"
            case preconditionFailed = "precondition_failed"
            case foreign
            case contended
            case collision
            case full
            case corrupt
            case sealed
            case redis
        }

        private let value: Value

        /// The token has not the form of its provider's tokens.
        package static let invalidToken = Code(value: .invalidToken)
        /// A name, attribute or key breaks a rule.
        package static let invalidRegistration = Code(value: .invalidRegistration)
        /// The device has more topics than it may have.
        package static let tooManyTopics = Code(value: .tooManyTopics)
        /// The app, or a user of it, has more topics than it may have.
        package static let topicLimit = Code(value: .topicLimit)
        /// The app has as many devices as it may have.
        package static let deviceLimit = Code(value: .deviceLimit)
        /// The device has more addresses for a purpose than it may have.
        package static let tooManyAddresses = Code(value: .tooManyAddresses)
        /// The device is not in the state that the caller's condition requires.
        package static let preconditionFailed = Code(value: .preconditionFailed)
        /// The device is another user's.
        package static let foreign = Code(value: .foreign)
        /// Others changed the same device or claimed the same token all the time: try again.
        package static let contended = Code(value: .contended)
        /// Another name with the same 64-bit digest exists already.
        package static let collision = Code(value: .collision)
        /// No ordinal or topic number is left.
        package static let full = Code(value: .full)
        /// The data in Redis is not what the store writes.
        package static let corrupt = Code(value: .corrupt)
        /// A record is encrypted with a key that is not known here.
        package static let sealed = Code(value: .sealed)
        /// Redis could not be reached, or refused the call.
        package static let redis = Code(value: .redis)

        /// The name in problems, metrics and logs.
        package var name: String { self.value.rawValue }
        /// The name.
        package var description: String { self.name }
    }

    /// The kind of failure.
    package let code: Code
    /// The broken rule or the fact, in words; never a token.
    package let detail: String
    /// The error of the Redis client, only with the code `redis`.
    package let redis: RedisError?
    /// The place in the source where it was found.
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

    /// True when the same call may succeed a moment later.
    package var isRetryable: Bool { self.code == .contended || self.code == .redis }

    /// The consequence of the error: a broken rule stays broken; a competitor, or a full place, may be gone later, and so may the want of a key.
    package var disposition: Disposition {
        switch self.code {
        case .redis: self.redis?.disposition ?? .retryLater
        // It says nothing against the entry: an operator has to give the key.
        case .sealed: .retryLater
        case .contended, .full: .giveBack
        default: .bury
        }
    }

    /// True when the error concerns one device only, so that the same call for another may succeed at once.
    package var isOfOneDevice: Bool { !self.disposition.isOutage && self.disposition != .stop }

    /// The sentence for a log line.
    package var description: String { "\(self.code): \(self.detail)" }
}
