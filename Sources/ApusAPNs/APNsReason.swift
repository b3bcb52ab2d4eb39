package import ApusCore

/// Apple's reasons for refusals: each with its word, its status and its meaning for us.
///
/// Source: https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns, for
/// broadcasts https://developer.apple.com/documentation/usernotifications/handling-error-responses-from-apns
package enum APNsReason: String, CaseIterable, Sendable {
    /// The collapse id is too long.
    case badCollapseID = "BadCollapseId"
    /// The token is invalid, or of the other environment.
    case badDeviceToken = "BadDeviceToken"
    /// The expiration is not a number.
    case badExpirationDate = "BadExpirationDate"
    /// The `apns-id` is not a UUID.
    case badMessageID = "BadMessageId"
    /// The priority is none of 10, 5 and 1.
    case badPriority = "BadPriority"
    /// The topic is invalid.
    case badTopic = "BadTopic"
    /// The token belongs to another app.
    case deviceTokenNotForTopic = "DeviceTokenNotForTopic"
    /// A header is repeated.
    case duplicateHeaders = "DuplicateHeaders"
    /// The connection was idle for too long.
    case idleTimeout = "IdleTimeout"
    /// The push type is unknown.
    case invalidPushType = "InvalidPushType"
    /// The path has no token.
    case missingDeviceToken = "MissingDeviceToken"
    /// The topic is missing and unknown from the certificate.
    case missingTopic = "MissingTopic"
    /// There is no body.
    case payloadEmpty = "PayloadEmpty"
    /// We may not push to this topic.
    case topicDisallowed = "TopicDisallowed"
    /// The certificate is invalid.
    case badCertificate = "BadCertificate"
    /// The certificate is for the other environment.
    case badCertificateEnvironment = "BadCertificateEnvironment"
    /// The JWT is older than an hour.
    case expiredProviderToken = "ExpiredProviderToken"
    /// The action is not allowed.
    case forbidden = "Forbidden"
    /// The JWT is invalid, or its signature cannot be verified.
    case invalidProviderToken = "InvalidProviderToken"
    /// The request had neither a JWT nor a certificate.
    case missingProviderToken = "MissingProviderToken"
    /// The key is not related to the one that this connection was first used with.
    case unrelatedKeyIDInToken = "UnrelatedKeyIdInToken"
    /// The key is for the other environment.
    case badEnvironmentKeyIDInToken = "BadEnvironmentKeyIdInToken"
    /// The same under another name; it is not in Apple's list, but was seen on the wire.
    case badEnvironmentKeyInToken = "BadEnvironmentKeyInToken"
    /// The path is unknown.
    case badPath = "BadPath"
    /// The method is not POST.
    case methodNotAllowed = "MethodNotAllowed"
    /// The token has expired.
    case expiredToken = "ExpiredToken"
    /// The token is no longer active for the topic.
    case unregistered = "Unregistered"
    /// The body is above the limit.
    case payloadTooLarge = "PayloadTooLarge"
    /// The JWT changed more than once in 20 minutes.
    case tooManyProviderTokenUpdates = "TooManyProviderTokenUpdates"
    /// There were too many consecutive requests to one device.
    case tooManyRequests = "TooManyRequests"
    /// Apple has an internal error.
    case internalServerError = "InternalServerError"
    /// The service is unavailable.
    case serviceUnavailable = "ServiceUnavailable"
    /// The server is shutting down.
    case shutdown = "Shutdown"
    /// The app has no broadcast capability.
    case featureNotEnabled = "FeatureNotEnabled"
    /// No channel is named.
    case missingChannelID = "MissingChannelId"
    /// The channel's name is not base64.
    case badChannelID = "BadChannelId"
    /// There is no such channel, or it is of the other environment.
    case channelNotRegistered = "ChannelNotRegistered"
    /// A header of a broadcast is invalid.
    case badRequestParameters = "BadRequestParams"
    /// A broadcast's body is invalid.
    case badRequestPayload = "BadRequestPayload"
    /// A broadcast's push type is missing.
    case missingPushType = "MissingPushType"
    /// The app has the maximum number of channels: 10,000 for each environment.
    case cannotCreateChannel = "CannotCreateChannelConfig"
    /// The bundle id is not covered by the credential.
    case topicMismatch = "TopicMismatch"
    /// The storage policy is invalid; not in Apple's list, but seen on the wire.
    case missingChannelQueueSize = "MissingChannelQueueSize"

    /// Parses a reason, also in the spelling of the page on broadcasts, "Service Unavailable".
    package init?(word: String) {
        self.init(rawValue: word == "Service Unavailable" ? "ServiceUnavailable" : word)
    }

    /// The status that the reason comes with.
    package var status: Int {
        switch self {
        case .badCollapseID, .badDeviceToken, .badExpirationDate, .badMessageID, .badPriority, .badTopic,
            .deviceTokenNotForTopic, .duplicateHeaders, .idleTimeout, .invalidPushType, .missingDeviceToken,
            .missingTopic, .payloadEmpty, .topicDisallowed, .featureNotEnabled, .missingChannelID, .badChannelID,
            .channelNotRegistered, .badRequestParameters, .badRequestPayload, .missingPushType, .cannotCreateChannel,
            .missingChannelQueueSize:
            400
        case .badCertificate, .badCertificateEnvironment, .expiredProviderToken, .forbidden, .invalidProviderToken,
            .missingProviderToken, .unrelatedKeyIDInToken, .badEnvironmentKeyIDInToken, .badEnvironmentKeyInToken,
            .topicMismatch:
            403
        case .badPath: 404
        case .methodNotAllowed: 405
        case .expiredToken, .unregistered: 410
        case .payloadTooLarge: 413
        case .tooManyProviderTokenUpdates, .tooManyRequests: 429
        case .internalServerError: 500
        case .serviceUnavailable, .shutdown: 503
        }
    }

    /// Returns the meaning of the reason.
    ///
    /// - Parameters:
    ///   - asOf: the time at which Apple knew that the token was dead.
    ///   - retryAfterMilliseconds: the wait that the answer asks for, if any; Apple documents no such header.
    package func outcome(asOf: UnixMilliseconds?, retryAfterMilliseconds: Int64?) -> DeliveryOutcome {
        switch self {
        case .badCollapseID, .badExpirationDate, .badMessageID, .badPriority, .invalidPushType, .payloadEmpty,
            .payloadTooLarge, .missingChannelID, .badRequestParameters, .badRequestPayload, .missingPushType,
            .missingChannelQueueSize:
            .rejected(.payload)
        case .duplicateHeaders, .missingDeviceToken, .badPath, .methodNotAllowed, .cannotCreateChannel:
            .rejected(.other)
        // Without the capability pushes to devices still work: the route must not pause.
        case .featureNotEnabled: .rejected(.credentials)
        case .badChannelID: .rejected(.badToken)
        // The audience is gone; there is no device to be pruned.
        case .channelNotRegistered: .rejected(.unregistered)
        case .badDeviceToken: .suspect(.badToken)
        case .deviceTokenNotForTopic: .suspect(.wrongTopic)
        case .badTopic, .missingTopic, .topicDisallowed, .topicMismatch: .misconfigured(.subroute)
        case .idleTimeout: .deferred(Deferral(.connection, needsNewConnection: true))
        case .badCertificate, .badCertificateEnvironment, .invalidProviderToken, .missingProviderToken,
            .badEnvironmentKeyIDInToken, .badEnvironmentKeyInToken:
            .misconfigured(.credential)
        case .forbidden: .misconfigured(.forbidden)
        case .expiredProviderToken: .misconfigured(.staleCredential)
        case .unrelatedKeyIDInToken: .misconfigured(.wrongConnection)
        case .expiredToken, .unregistered: .unregistered(.unregistered, asOf: asOf)
        case .tooManyProviderTokenUpdates: .misconfigured(.renewedTooOften)
        case .tooManyRequests:
            .deferred(Deferral(.rateLimited, scope: .device, retryAfterMilliseconds: retryAfterMilliseconds))
        case .internalServerError:
            .deferred(Deferral(.providerUnavailable, retryAfterMilliseconds: retryAfterMilliseconds))
        case .serviceUnavailable:
            .deferred(Deferral(.providerUnavailable, scope: .route, retryAfterMilliseconds: retryAfterMilliseconds))
        case .shutdown: .deferred(Deferral(.providerUnavailable, needsNewConnection: true))
        }
    }
}
