package import ApusCore

/// Answers by the word that a provider uses for them.
package enum FaultReasons {
    /// The words of a route that can be asked for.
    package static func words(of route: FaultRoute) -> [String] {
        switch route {
        case .apns: APNsRejection.allCases.map(\.rawValue)
        case .fcm: FCMErrorCode.allCases.map(\.rawValue) + Self.google.keys.sorted()
        case .oauth: Self.oauth.keys.sorted()
        }
    }

    /// The answer of that word; nil: the route has no such word.
    package static func answer(_ word: String, route: FaultRoute, id: String?, now: UnixMilliseconds) -> ProviderAnswer?
    {
        switch route {
        case .apns:
            guard let rejection = APNsRejection(rawValue: word) else { return nil }
            return rejection.answer(id: id, timestamp: rejection.status == 410 ? now : nil)
        case .fcm:
            if let code = FCMErrorCode(rawValue: word) { return Self.refusal(code).answer }
            return Self.google[word]
        case .oauth:
            guard let form = Self.oauth[word] else { return nil }
            return ProviderAnswer(
                status: form.status,
                headers: [ProviderHeader("content-type", "application/json; charset=utf-8")],
                body: JSONValue.object([
                    "error": .string(form.error ?? word), "error_description": .string(form.description),
                ]).bytes,
            )
        }
    }

    /// Google's codes with the details that come along with them.
    private static func refusal(_ code: FCMErrorCode) -> FCMRefusal {
        switch code {
        case .invalidArgument: FCMRefusal(code, "The registration token is not a valid FCM registration token")
        case .unregistered: FCMRefusal(code, "Requested entity was not found.")
        case .senderIDMismatch: FCMRefusal(code, "SenderId mismatch")
        case .quotaExceeded:
            FCMRefusal(429, "Quota exceeded for quota metric 'Send requests'.", code: code, quota: "project")
        case .unavailable: FCMRefusal(code, "The service is currently unavailable.")
        case .internalError: FCMRefusal(code, "Internal error encountered.")
        case .unspecified: FCMRefusal(code, "No more information is available about this error.")
        case .thirdPartyAuthError, .apnsAuthError:
            FCMRefusal(
                401,
                "Auth error from APNS or Web Push Service",
                code: code,
                apns: (403, APNsRejection.invalidProviderToken.rawValue),
            )
        }
    }

    /// Answers of Google's that carry no FcmError, and those of its codes that have been seen in several forms: INVALID_ARGUMENT for a bad
    /// payload and for what Apple says of a token, QUOTA_EXCEEDED of one device or topic
    /// (https://firebase.google.com/docs/cloud-messaging/error-codes).
    private static let google: [String: ProviderAnswer] = [
        "UNAUTHENTICATED": FCMRefusal(401, "Request had invalid authentication credentials.").answer,
        "PERMISSION_DENIED": FCMRefusal(403, "Permission 'cloudmessaging.messages.create' denied.").answer,
        "NOT_FOUND": FCMRefusal(404, "Requested entity was not found.").answer,
        "INVALID_ARGUMENT_PAYLOAD": FCMRefusal(
            400,
            "Invalid value at 'message.data[0].value' (TYPE_STRING), 12",
            violations: [FCMViolation(field: "message.data[0].value", description: "Invalid value (TYPE_STRING), 12")],
        ).answer,
        "INVALID_ARGUMENT_APNS_UNREGISTERED": FCMRefusal(
            400,
            "APNs device token is disabled.",
            code: .invalidArgument,
            apns: (410, APNsRejection.unregistered.rawValue),
        ).answer,
        "INVALID_ARGUMENT_APNS_BAD_TOKEN": FCMRefusal(
            400,
            "Request contains an invalid argument.",
            code: .invalidArgument,
            violations: [FCMViolation(field: "message.token", description: "Invalid registration token")],
            apns: (400, APNsRejection.badDeviceToken.rawValue),
        ).answer,
        "UNREGISTERED_APNS": FCMRefusal(
            404,
            "Requested entity was not found.",
            code: .unregistered,
            apns: (410, APNsRejection.unregistered.rawValue),
        ).answer,
        "QUOTA_EXCEEDED_DEVICE": FCMRefusal(
            429,
            "Message rate exceeded for the device.",
            code: .quotaExceeded,
            quota: "device",
        ).answer,
        "QUOTA_EXCEEDED_TOPIC": FCMRefusal(
            429,
            "Message rate exceeded for the topic.",
            code: .quotaExceeded,
            quota: "topic",
        ).answer,
        "BAD_GATEWAY": Self.page(502),
        "GATEWAY_TIMEOUT": Self.page(504),
    ]

    /// What a front end says in place of the service behind it.
    private static func page(_ status: Int) -> ProviderAnswer {
        ProviderAnswer(
            status: status,
            headers: [ProviderHeader("content-type", "text/html; charset=UTF-8")],
            body: Array("<!DOCTYPE html><title>Error \(status)</title>".utf8),
        )
    }

    /// RFC 6749 §5.2 and Google's own two, with the sentences that Google has been seen to put beside them; `invalid_grant` has one for
    /// each of its causes (https://developers.google.com/identity/protocols/oauth2/service-account#error-codes).
    private static let oauth: [String: (status: Int, error: String?, description: String)] = [
        "invalid_grant": (400, nil, "Bad Request"),
        "invalid_grant_signature": (400, "invalid_grant", "Invalid JWT Signature."),
        "invalid_grant_time": (400, "invalid_grant", OAuthJudge.unreasonableTime),
        "invalid_grant_account": (400, "invalid_grant", "Invalid grant: account not found"),
        "invalid_grant_audience": (400, "invalid_grant", "Invalid JWT: Failed audience check."),
        "invalid_request": (400, nil, "Required parameter is missing: assertion"),
        "invalid_scope": (400, nil, "Invalid OAuth scope or ID token audience provided."),
        "unsupported_grant_type": (400, nil, "Invalid grant_type: "),
        "invalid_client": (401, nil, "The OAuth client was not found."),
        "unauthorized_client": (
            401, nil,
            "Client is unauthorized to retrieve access tokens using this method, or client not authorized for any of the scopes requested."
        ),
        "access_denied": (403, nil, "Account restricted"),
        "internal_failure": (500, nil, "Internal error."),
        "temporarily_unavailable": (503, nil, "The service is currently unavailable."),
    ]
}
