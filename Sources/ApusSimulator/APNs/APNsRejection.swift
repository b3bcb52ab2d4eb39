package import ApusCore

/// Apple's reasons for refusing a request, each with its status.
///
/// Source: https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns
package enum APNsRejection: String, CaseIterable, Sendable {
    case badCollapseID = "BadCollapseId"
    case badDeviceToken = "BadDeviceToken"
    case badExpirationDate = "BadExpirationDate"
    case badMessageID = "BadMessageId"
    case badPriority = "BadPriority"
    case badTopic = "BadTopic"
    case deviceTokenNotForTopic = "DeviceTokenNotForTopic"
    case duplicateHeaders = "DuplicateHeaders"
    case invalidPushType = "InvalidPushType"
    case missingDeviceToken = "MissingDeviceToken"
    case missingTopic = "MissingTopic"
    case payloadEmpty = "PayloadEmpty"
    case topicDisallowed = "TopicDisallowed"
    case expiredProviderToken = "ExpiredProviderToken"
    case invalidProviderToken = "InvalidProviderToken"
    case missingProviderToken = "MissingProviderToken"
    case unrelatedKeyID = "UnrelatedKeyIdInToken"
    case badEnvironmentKeyID = "BadEnvironmentKeyIdInToken"
    case badPath = "BadPath"
    case methodNotAllowed = "MethodNotAllowed"
    case expiredToken = "ExpiredToken"
    case unregistered = "Unregistered"
    case payloadTooLarge = "PayloadTooLarge"
    case tooManyProviderTokenUpdates = "TooManyProviderTokenUpdates"
    case tooManyRequests = "TooManyRequests"
    case internalServerError = "InternalServerError"
    case serviceUnavailable = "ServiceUnavailable"
    case idleTimeout = "IdleTimeout"
    case badCertificate = "BadCertificate"
    case badCertificateEnvironment = "BadCertificateEnvironment"
    case forbidden = "Forbidden"
    case shutdown = "Shutdown"
    case featureNotEnabled = "FeatureNotEnabled"
    case missingChannelID = "MissingChannelId"
    case badChannelID = "BadChannelId"
    case channelNotRegistered = "ChannelNotRegistered"
    case badRequestParameters = "BadRequestParams"
    case badRequestPayload = "BadRequestPayload"
    case missingPushType = "MissingPushType"
    case cannotCreateChannel = "CannotCreateChannelConfig"
    case topicMismatch = "TopicMismatch"
    /// The same as ``badEnvironmentKeyID``; it is not in Apple's lists, but was seen on the wire.
    case badEnvironmentKey = "BadEnvironmentKeyInToken"
    /// The spelling of ``serviceUnavailable`` on the page about broadcasts.
    case broadcastUnavailable = "Service Unavailable"
    /// The reason that was seen for an invalid storage policy.
    case missingChannelQueueSize = "MissingChannelQueueSize"

    /// The status of the reason.
    package var status: Int {
        switch self {
        case .badCollapseID, .badDeviceToken, .badExpirationDate, .badMessageID, .badPriority, .badTopic,
            .deviceTokenNotForTopic, .duplicateHeaders, .invalidPushType, .missingDeviceToken, .missingTopic,
            .payloadEmpty, .topicDisallowed, .idleTimeout, .featureNotEnabled, .missingChannelID, .badChannelID,
            .channelNotRegistered, .badRequestParameters, .badRequestPayload, .missingPushType, .cannotCreateChannel,
            .missingChannelQueueSize:
            400
        case .expiredProviderToken, .invalidProviderToken, .missingProviderToken, .unrelatedKeyID,
            .badEnvironmentKeyID, .badEnvironmentKey, .badCertificate, .badCertificateEnvironment, .forbidden,
            .topicMismatch:
            403
        case .badPath: 404
        case .methodNotAllowed: 405
        case .expiredToken, .unregistered: 410
        case .payloadTooLarge: 413
        case .tooManyProviderTokenUpdates, .tooManyRequests: 429
        case .internalServerError: 500
        case .serviceUnavailable, .broadcastUnavailable, .shutdown: 503
        }
    }

    /// Creates the answer, with the timestamp for the two reasons that carry one.
    package func answer(id: String?, timestamp: UnixMilliseconds? = nil) -> ProviderAnswer {
        var body: JSONObject = ["reason": .string(self.rawValue)]
        if let timestamp { body["timestamp"] = .integer(timestamp.value) }
        var headers: [ProviderHeader] = []
        if let id { headers.append(ProviderHeader("apns-id", id)) }
        return ProviderAnswer(status: self.status, headers: headers, body: JSONValue.object(body).bytes)
    }
}

/// The refusal of a request: Apple's reason, and a sentence for developers of clients.
struct APNsRefusal: Error {
    let rejection: APNsRejection
    let sentence: String
    var timestamp: UnixMilliseconds?

    init(_ rejection: APNsRejection, _ sentence: String, timestamp: UnixMilliseconds? = nil) {
        self.rejection = rejection
        self.sentence = sentence
        self.timestamp = timestamp
    }

    /// Creates the refusal of a message to a token with the given behavior; nil when the message is accepted.
    init?(_ behavior: TokenBehavior) {
        switch behavior {
        case .alive: return nil
        case .dead(let since): self.init(.unregistered, "the token is dead", timestamp: since)
        case .expired(let since): self.init(.expiredToken, "the token expired", timestamp: since)
        case .bad: self.init(.badDeviceToken, "the token was declared bad")
        case .foreign: self.init(.deviceTokenNotForTopic, "the token was declared to be another app's")
        }
    }
}
