internal import ApusCore

/// Apple's vocabulary of refusals: one line each of the word, the status it comes with and what it means to us.
///
/// Source: https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns
package enum APNsReason: String, CaseIterable, Sendable {
    // 400: the request.
    case badCollapseID = "BadCollapseId"
    case badDeviceToken = "BadDeviceToken"
    case badExpirationDate = "BadExpirationDate"
    case badMessageID = "BadMessageId"
    case badPriority = "BadPriority"
    case badTopic = "BadTopic"
    case deviceTokenNotForTopic = "DeviceTokenNotForTopic"
    case duplicateHeaders = "DuplicateHeaders"
    case idleTimeout = "IdleTimeout"
    case invalidPushType = "InvalidPushType"
    case missingDeviceToken = "MissingDeviceToken"
    case missingTopic = "MissingTopic"
    case payloadEmpty = "PayloadEmpty"
    case topicDisallowed = "TopicDisallowed"
    // 403: the credential.
    case badCertificate = "BadCertificate"
    case badCertificateEnvironment = "BadCertificateEnvironment"
    case expiredProviderToken = "ExpiredProviderToken"
    case forbidden = "Forbidden"
    case invalidProviderToken = "InvalidProviderToken"
    case missingProviderToken = "MissingProviderToken"
    case unrelatedKeyIDInToken = "UnrelatedKeyIdInToken"
    case badEnvironmentKeyIDInToken = "BadEnvironmentKeyIdInToken"
    /// Not in Apple's list; seen on the wire.
    case badEnvironmentKeyInToken = "BadEnvironmentKeyInToken"
    // 404, 405: the path.
    case badPath = "BadPath"
    case methodNotAllowed = "MethodNotAllowed"
    // 410: the token.
    case expiredToken = "ExpiredToken"
    case unregistered = "Unregistered"
    // 413, 429: too much.
    case payloadTooLarge = "PayloadTooLarge"
    case tooManyProviderTokenUpdates = "TooManyProviderTokenUpdates"
    case tooManyRequests = "TooManyRequests"
    // 500, 503: Apple's own trouble.
    case internalServerError = "InternalServerError"
    case serviceUnavailable = "ServiceUnavailable"
    case shutdown = "Shutdown"

    /// The reason of that word; also as the page on broadcasts spells it, "Service Unavailable".
    package init?(word: String) {
        self.init(rawValue: word == "Service Unavailable" ? "ServiceUnavailable" : word)
    }

    /// The status it comes with.
    package var status: Int {
        switch self {
        case .badCollapseID, .badDeviceToken, .badExpirationDate, .badMessageID, .badPriority, .badTopic,
            .deviceTokenNotForTopic, .duplicateHeaders, .idleTimeout, .invalidPushType, .missingDeviceToken,
            .missingTopic, .payloadEmpty, .topicDisallowed:
            400
        case .badCertificate, .badCertificateEnvironment, .expiredProviderToken, .forbidden, .invalidProviderToken,
            .missingProviderToken, .unrelatedKeyIDInToken, .badEnvironmentKeyIDInToken, .badEnvironmentKeyInToken:
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

    /// What it means.
    ///
    /// - Parameters:
    ///   - asOf: when Apple knew that the token was dead.
    ///   - retryAfterMilliseconds: what the answer asked for, if anything; Apple documents no such header.
    func outcome(asOf: UnixMilliseconds?, retryAfterMilliseconds: Int64?) -> DeliveryOutcome {
        switch self {
        case .badCollapseID, .badExpirationDate, .badMessageID, .badPriority, .invalidPushType, .payloadEmpty,
            .payloadTooLarge:
            .rejected(.payload)
        case .duplicateHeaders, .missingDeviceToken, .badPath, .methodNotAllowed: .rejected(.other)
        case .badDeviceToken: .suspect(.badToken)
        case .deviceTokenNotForTopic: .suspect(.wrongTopic)
        case .badTopic, .missingTopic, .topicDisallowed: .misconfigured(.route)
        case .idleTimeout: .deferred(Deferral(.connection, needsNewConnection: true))
        case .badCertificate, .badCertificateEnvironment, .forbidden, .invalidProviderToken, .missingProviderToken,
            .badEnvironmentKeyIDInToken, .badEnvironmentKeyInToken:
            .misconfigured(.credential)
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
