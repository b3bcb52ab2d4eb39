internal import ApusCore

/// The causes for which push services refuse a request, each in every service's words.
enum WebPushRefusal: String, CaseIterable, Error {
    case missingTTL = "missing_ttl"
    case badTTL = "bad_ttl"
    case badUrgency = "bad_urgency"
    case badTopic = "bad_topic"
    case badEncoding = "bad_encoding"
    case undecipherable
    case tooLarge = "too_large"
    case missingAuthorization = "missing_authorization"
    case badToken = "bad_token"
    case otherKey = "other_key"
    case gone
    case unknown
    case cachePolicy = "cache_policy"
    case tooManyRequests = "too_many_requests"
    case throttled
    case internalError = "internal_error"
    case unavailable
    case notPOST = "not_post"
    /// One service drops what it took, and says so in an answer that is a success.
    case dropped
    /// The same for the pace of one subscription.
    case channelThrottled = "channel_throttled"

    /// Returns the answer of a service.
    ///
    /// Source: https://mozilla-services.github.io/autopush-rs/errors.html,
    /// https://developer.apple.com/documentation/usernotifications/sending-web-push-notifications-in-web-apps-and-browsers,
    /// and threads of clients for the other two, which document no words.
    func answer(of service: SimulatedBrowser.Service) -> ProviderAnswer {
        let answer =
            switch service {
            case .google: self.google
            case .mozilla: self.mozilla
            case .apple: self.apple
            case .microsoft: self.microsoft
            }
        return answer.explained(self.rawValue)
    }

    private var status: Int {
        switch self {
        case .missingTTL, .badTTL, .badUrgency, .badTopic, .badEncoding, .undecipherable, .cachePolicy: 400
        case .tooLarge: 413
        case .missingAuthorization: 401
        case .badToken, .otherKey: 403
        case .gone: 410
        case .unknown: 404
        case .tooManyRequests: 429
        case .throttled: 406
        case .internalError: 500
        case .unavailable: 503
        case .notPOST: 405
        case .dropped, .channelThrottled: 201
        }
    }

    private var google: ProviderAnswer {
        let text =
            switch self {
            case .otherKey:
                "the VAPID credentials in the authorization header do not correspond to the credentials used to create the subscriptions.\n"
            case .badToken: "invalid JWT provided\n"
            case .gone: "push subscription has unsubscribed or expired.\n"
            default: "\(self.rawValue)\n"
            }
        let headers = [ProviderHeader("content-type", "text/plain; charset=utf-8")]
        return ProviderAnswer(status: self.status, headers: headers, body: Array(text.utf8))
    }

    private var mozilla: ProviderAnswer {
        let number =
            switch self {
            case .badEncoding, .undecipherable: 110
            case .missingTTL: 111
            case .badTTL: 112
            case .badTopic: 113
            case .tooLarge: 104
            case .missingAuthorization, .badToken, .otherKey: 109
            case .gone: 103
            case .unknown: 102
            case .tooManyRequests, .throttled, .unavailable: 201
            default: 999
            }
        // This service says 401 of every fault of a token.
        let status = number == 109 ? 401 : self.status
        let message = self == .otherKey ? "VAPID public key mismatch" : self.rawValue
        return ProviderAnswer(
            status: status,
            json: [
                "code": .integer(status), "errno": .integer(number), "error": "refused", "message": .string(message),
            ],
        )
    }

    private var apple: ProviderAnswer {
        let reason =
            switch self {
            case .missingTTL, .badTTL: "BadTtl"
            case .badUrgency: "BadUrgency"
            case .badTopic: "BadWebPushTopic"
            case .missingAuthorization: "BadAuthorizationHeader"
            case .badToken: "BadJwtToken"
            case .otherKey: "VapidPkHashMismatch"
            case .gone: "Unregistered"
            case .unknown: "BadPath"
            case .tooLarge: "PayloadTooLarge"
            case .tooManyRequests, .throttled: "TooManyRequests"
            case .internalError: "InternalServerError"
            case .unavailable: "ServiceUnavailable"
            case .notPOST: "MethodNotAllowed"
            default: "BadWebPushRequest"
            }
        return ProviderAnswer(status: self.status, json: ["reason": .string(reason)])
    }

    private var microsoft: ProviderAnswer {
        // A refusal for the pace has no description.
        let (word, text): (String, String?) =
            switch self {
            case .throttled: ("appthrottled", nil)
            case .tooManyRequests, .channelThrottled: ("channelthrottled", nil)
            case .dropped: ("dropped", nil)
            case .cachePolicy: ("dropped", "Ttl value conflicts with X-WNS-Cache-Policy")
            default: ("dropped", self.rawValue)
            }
        var headers = ["x-wns-status", "x-wns-notificationstatus"].map { ProviderHeader($0, word) }
        if let text { headers.append(ProviderHeader("x-wns-error-description", text)) }
        return ProviderAnswer(status: self.status, headers: headers)
    }
}
