internal import ApusCore

/// Builds the answers of FCM to faults.
enum FCMFaults {
    /// The reasons that faults can use.
    static var reasons: [String] { FCMErrorCode.allCases.map(\.rawValue) + Self.answers.keys.sorted() }

    /// Returns the answer with a reason; nil when there is no such reason.
    static func answer(reason: String) -> ProviderAnswer? {
        FCMErrorCode(rawValue: reason).map { Self.refusal($0).answer } ?? Self.answers[reason]
    }

    /// Returns the answer to a fault that is a status.
    static func answer(status fault: Fault) -> ProviderAnswer {
        let refusal =
            switch fault {
            case .tooManyRequests:
                FCMRefusal(
                    429,
                    "Quota exceeded for quota metric 'Send requests' and limit 'Send requests per minute'.",
                    code: .quotaExceeded,
                    quota: "Message rate exceeded.",
                )
            case .unavailable: FCMRefusal(.unavailable, "The service is currently unavailable.")
            default: FCMRefusal(.internalError, "Internal error encountered.")
            }
        return refusal.answer
    }

    /// Returns the refusal with a code and the details that accompany it.
    private static func refusal(_ code: FCMErrorCode) -> FCMRefusal {
        switch code {
        case .invalidArgument: FCMRefusal(code, "The registration token is not a valid FCM registration token")
        case .unregistered: FCMRefusal(code, "Requested entity was not found.")
        case .senderIDMismatch: FCMRefusal(code, "SenderId mismatch")
        case .quotaExceeded:
            FCMRefusal(
                429,
                "Quota exceeded for quota metric 'Send requests'.",
                code: code,
                quota: "Message rate exceeded."
            )
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

    /// The answers without FcmError, and those of codes that were seen in several forms: INVALID_ARGUMENT for a bad
    /// payload and for Apple's statements about a token, QUOTA_EXCEEDED of one device or topic
    /// (https://firebase.google.com/docs/cloud-messaging/error-codes).
    private static let answers: [String: ProviderAnswer] = [
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
            quota: "Device message rate exceeded.",
        ).answer,
        "QUOTA_EXCEEDED_TOPIC": FCMRefusal(
            429,
            "Message rate exceeded for the topic.",
            code: .quotaExceeded,
            quota: "Topic message rate exceeded.",
        ).answer,
        "BAD_GATEWAY": Self.page(502),
        "GATEWAY_TIMEOUT": Self.page(504),
    ]

    /// Returns the page of a front end that cannot reach the service behind it.
    private static func page(_ status: Int) -> ProviderAnswer {
        ProviderAnswer(
            status: status,
            headers: [ProviderHeader("content-type", "text/html; charset=UTF-8")],
            body: Array("<!DOCTYPE html><title>Error \(status)</title>".utf8),
        )
    }
}

/// Builds the answers of the token endpoint to faults.
enum OAuthFaults {
    /// The reasons that faults can use.
    static var reasons: [String] { Self.answers.keys.sorted() }

    /// Returns the answer with a reason; nil when there is no such reason.
    static func answer(reason: String) -> ProviderAnswer? {
        Self.answers[reason].map { form in
            Self.answer(
                form.status,
                ["error": .string(form.error ?? reason), "error_description": .string(form.description)]
            )
        }
    }

    /// Returns the answer to a fault that is a status.
    static func answer(status fault: Fault) -> ProviderAnswer {
        switch fault {
        case .tooManyRequests: Self.answer(429, ["error": "temporarily_unavailable"])
        case .unavailable: Self.answer(503, ["error": "temporarily_unavailable"])
        default: Self.answer(500, ["error": "internal_failure"])
        }
    }

    private static func answer(_ status: Int, _ object: JSONObject) -> ProviderAnswer {
        ProviderAnswer(status: status, json: object, contentType: "application/json; charset=utf-8")
    }

    /// The errors of RFC 6749 §5.2 and Google's own two, with descriptions that were seen in Google's answers;
    /// `invalid_grant` has one for each of its causes
    /// (https://developers.google.com/identity/protocols/oauth2/service-account#error-codes).
    private static let answers: [String: (status: Int, error: String?, description: String)] = [
        "invalid_grant": (400, nil, "Bad Request"),
        "invalid_grant_signature": (400, "invalid_grant", "Invalid JWT Signature."),
        "invalid_grant_time": (400, "invalid_grant", OAuthValidator.unreasonableTime),
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
